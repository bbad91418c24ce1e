//! The bound on the work that the events of one iCalendar file may cause. The work is counted in
//! steps, so that no file delays a reload.

use super::ics_error::IcsError;

/// The maximum number of steps for a file. A step is a search of a rule for its next day or time,
/// a repetition found, or a date left out of an event.
const MOST_STEPS: u32 = 1_000_000;

/// The limit on the work for one calendar file: the number of steps that its events may still take.
/// A file that needs more steps is refused.
pub(super) struct Effort {
    pub(super) steps_left: u32,
}

impl Effort {
    /// Returns the number of steps for a whole file.
    pub(super) fn of_a_file() -> Self {
        Self { steps_left: MOST_STEPS }
    }

    /// Subtracts `steps` from the steps that are left. Fails with an error at `line` if fewer
    /// steps are left.
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

/// Returns the error for a file whose events up to `line` take too many steps.
pub(super) fn spent(line: usize) -> IcsError {
    let problem = format!(
        "the events up to this line take more than {MOST_STEPS} steps to expand: \
         use fewer repeating events, or add UNTIL or COUNT to their rules"
    );
    IcsError { line, problem }
}
