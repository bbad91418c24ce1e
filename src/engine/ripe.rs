//! What a poll found to be ripe: an entry of a due set, and the run it names if it names one.
//!
//! Invariant: an entry that is no run, or is ready at no instant there is, never becomes one by guessing.

use crate::domain::ids::RunId;
use crate::domain::time::UnixMillis;
use crate::store::RipeEntry;

/// A ripe run still to be dealt with.
pub(super) struct Ripe {
    /// Its id.
    pub(super) run: RunId,
    /// As it stands in the due set.
    pub(super) entry: RipeEntry,
    /// A skip found it is not its job's pending run, so it is owed whatever its age.
    pub(super) is_owed: bool,
}

impl Ripe {
    /// A run not yet looked at.
    pub(super) fn new(run: RunId, entry: RipeEntry) -> Self {
        Self { run, entry, is_owed: false }
    }
}

/// The run an entry names and since when it is ready, ms; or why it names none.
pub(super) fn well_formed(entry: &RipeEntry) -> Result<(RunId, i64), String> {
    let ready = entry.score.parse::<f64>().ok().filter(|ready| ready.is_finite());
    #[expect(clippy::cast_precision_loss, reason = "the end of time is far below 2^53")]
    let ready = ready.filter(|ready| (0.0..UnixMillis::END as f64).contains(ready));
    let Some(ready) = ready else { return Err(format!("its ready time {} is out of range", entry.score)) };
    let run = entry.member.parse().map_err(|error: crate::domain::ids::IdError| error.to_string())?;
    #[expect(clippy::cast_possible_truncation, reason = "within the range of instants")]
    Ok((run, ready as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(member: &str, score: &str) -> RipeEntry {
        RipeEntry { member: member.to_owned(), score: score.to_owned() }
    }

    #[test]
    fn an_entry_with_a_score_no_instant_has_is_no_run() {
        for score in ["inf", "-inf", "1e300", "-5", "nan", "x", "4102444800000"] {
            assert!(well_formed(&entry("a@5", score)).is_err(), "{score}");
        }
        assert!(well_formed(&entry("a@5", "1790000000000")).is_ok());
        assert!(well_formed(&entry("garbage", "5")).is_err());
    }
}
