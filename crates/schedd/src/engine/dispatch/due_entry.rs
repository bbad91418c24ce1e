//! Due entries as a poll finds them. Each entry is a member of a due set and names a run.
//!
//! Invariant: an entry that names no run, or whose ready time is out of range, is never treated as
//! a run.

use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::DueEntry;

/// A due run about which no decision has been made yet.
#[derive(Debug)]
pub(crate) struct DueRun {
    /// The id of the run.
    pub(crate) run: RunId,
    /// The entry of the due set that names the run.
    pub(crate) entry: DueEntry,
    /// True if an attempt to skip or spread the run showed that it is not the planned run of its
    /// job. Such a run starts however late it is.
    pub(crate) is_owed: bool,
}

impl DueRun {
    /// Returns the due run of `entry`, with `is_owed` set to false.
    pub(crate) fn new(run: RunId, entry: DueEntry) -> Self {
        Self { run, entry, is_owed: false }
    }
}

/// Returns the run that an entry names, and its ready time in Unix ms. The error is the reason why
/// the entry is not a valid run.
pub(crate) fn well_formed(entry: &DueEntry) -> Result<(RunId, i64), String> {
    let ready = entry.score.parse::<f64>().ok().filter(|ready| ready.is_finite());
    #[expect(clippy::cast_precision_loss, reason = "UnixMillis::END is below 2^53")]
    let ready = ready.filter(|ready| (0.0..UnixMillis::END as f64).contains(ready));
    let Some(ready) = ready else {
        return Err(format!(
            "the ready time {} of the run is not a Unix time in ms before the year 2100",
            entry.score
        ));
    };
    let run =
        entry.member.parse().map_err(|error: schedd_schedule::names::IdError| error.to_string())?;
    #[expect(clippy::cast_possible_truncation, reason = "within the range of instants")]
    Ok((run, ready as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(member: &str, score: &str) -> DueEntry {
        DueEntry { member: member.to_owned(), score: score.to_owned() }
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
