//! How much work the events of one iCalendar file may be, counted in steps, so that no file holds a reload up.

use super::IcsError;

/// The steps a file may take: each search of a rule for its next day or time, each repetition found, and each left out of an event.
const MOST_STEPS: u32 = 1_000_000;

/// The steps that are left to the events of a file.
pub(super) struct Effort {
    pub(super) steps_left: u32,
}

impl Effort {
    /// What a whole file may take.
    pub(super) fn of_a_file() -> Self {
        Self { steps_left: MOST_STEPS }
    }

    /// Takes `steps` off; refused at `line` when there are not so many left.
    pub(super) fn spend(&mut self, steps: usize, line: usize) -> Result<(), IcsError> {
        match u32::try_from(steps).ok().and_then(|steps| self.steps_left.checked_sub(steps)) {
            Some(left) => {
                self.steps_left = left;
                Ok(())
            }
            None => Err(spent(line)),
        }
    }
}

/// The refusal of the events up to `line`.
pub(super) fn spent(line: usize) -> IcsError {
    let problem = format!(
        "the events up to here take more than {MOST_STEPS} steps to follow, wanted fewer that repeat, or UNTIL or COUNT in their rules"
    );
    IcsError { line, problem }
}
