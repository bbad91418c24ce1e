//! The waits of a run for another run of its job, and at gates.

use schedd_schedule::time::unix_millis::UnixMillis;

/// The cause of a wait for another run of the job.
const OVERLAP: &str = "overlap";

/// A wait of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunWait {
    /// The time at which the wait began.
    pub from: UnixMillis,
    /// The time at which the run was let go on; None while the wait goes on, or if the run ended
    /// while it waited.
    pub until: Option<UnixMillis>,
    /// The cause: `overlap` for another run of the job, or a gate in words.
    pub cause: String,
}

impl RunWait {
    /// Returns the waits in the field of a run's record, which `claim_runs.lua` writes. A part that
    /// cannot be read is left out.
    pub(crate) fn read_all(text: &str) -> Vec<Self> {
        text.split_ascii_whitespace().filter_map(Self::read).collect()
    }

    fn read(word: &str) -> Option<Self> {
        let (times, cause) = word.split_once('=')?;
        let (from, until) = times.split_once('-')?;
        let instant = |text: &str| text.parse().ok().and_then(UnixMillis::new);
        Some(Self {
            from: instant(from)?,
            until: instant(until),
            cause: cause.replacen(':', " ", 1),
        })
    }

    /// Returns true if the run waited at a gate.
    pub fn is_at_gate(&self) -> bool {
        self.cause != OVERLAP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_in_their_order_and_odd_words_are_left_out() {
        let at = |ms| UnixMillis::new(ms).unwrap();
        let waits = RunWait::read_all("5-7=overlap odd x-9=group:a 7-9=key:a=b%3A:c 9-=job:b");
        let wait = |from, until: Option<i64>, cause: &str| RunWait {
            from: at(from),
            until: until.map(at),
            cause: cause.to_owned(),
        };
        let wanted =
            [wait(5, Some(7), "overlap"), wait(7, Some(9), "key a=b%3A:c"), wait(9, None, "job b")];
        assert_eq!(waits, wanted);
        assert_eq!(waits.iter().map(RunWait::is_at_gate).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(RunWait::read_all(""), []);
    }
}
