//! The ids of runs. An id is made from a job and a due time, and shows the origin of its run.
//!
//! Invariant: an id parses back to itself. The same occurrence always gives the same id, so an
//! occurrence is added to the due set only once.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::name_types::{IdError, JobName, shortened};
use crate::time::unix_millis::UnixMillis;

/// The origin of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// The run comes from the schedule of the job.
    Regular,
    /// The run comes from the command `schedctl run`.
    Manual,
    /// The run comes from the command `schedctl backfill`, for a past occurrence.
    Backfill,
    /// The run comes from the command `schedctl rerun`, which repeats the work of an earlier run.
    Rerun,
    /// The run comes from an `@reboot` schedule, after a boot of a host.
    Boot,
}

impl RunKind {
    /// Returns the name of this origin.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Regular => "regular",
            Self::Manual => "manual",
            Self::Backfill => "backfill",
            Self::Rerun => "rerun",
            Self::Boot => "boot",
        }
    }
}

/// The suffix in the id of a backfill run.
const BACKFILL: &str = "backfill";
/// The start of the suffix in the id of a rerun.
const RERUN: &str = "rerun";
/// The number of letters and digits after `rerun` in the suffix of a rerun's id.
const RERUN_WORD_LEN: usize = 6;
/// The start of the suffix in the id of a run by `@reboot`.
const BOOT: &str = "boot";
/// The number of letters and digits after `boot` in the suffix of the id of a run by `@reboot`.
const BOOT_WORD_LEN: usize = 8;

/// The id of a run: `job@due_ms`, with a suffix `~word` for a run that is not regular. The due time
/// in the id never changes, so the same occurrence always gives the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    job: JobName,
    due: UnixMillis,
    manual: Option<Arc<str>>,
}

impl RunId {
    /// Returns the id of the regular run of `job` due at `due`.
    pub fn regular(job: JobName, due: UnixMillis) -> Self {
        Self { job, due, manual: None }
    }

    /// Returns the id of a manual run. `word` distinguishes manual runs of the job with the same
    /// due time. Fails unless `word` is 1 to 16 characters of a-z 0-9.
    pub fn manual(job: JobName, due: UnixMillis, word: &str) -> Result<Self, IdError> {
        if is_word(word) {
            Ok(Self { job, due, manual: Some(word.into()) })
        } else {
            Err(IdError::Run { found: shortened(word) })
        }
    }

    /// Returns the id of the only backfill run for the occurrence of `job` at `due`.
    pub fn backfill(job: JobName, due: UnixMillis) -> Self {
        Self { job, due, manual: Some(BACKFILL.into()) }
    }

    /// Returns the id of a rerun, which repeats the run of `job` that was due at `due`. `word`
    /// distinguishes several reruns of that run. Fails unless `word` is 6 characters of a-z 0-9.
    pub fn rerun(job: JobName, due: UnixMillis, word: &str) -> Result<Self, IdError> {
        if word.len() == RERUN_WORD_LEN {
            Self::manual(job, due, &format!("{RERUN}{word}"))
        } else {
            Err(IdError::Run { found: shortened(word) })
        }
    }

    /// Returns the id of a run of an `@reboot` job, due at `at`. `word` distinguishes the boots.
    /// Fails unless `word` is 8 characters of a-z 0-9.
    pub fn boot(job: JobName, at: UnixMillis, word: &str) -> Result<Self, IdError> {
        if word.len() == BOOT_WORD_LEN {
            Self::manual(job, at, &format!("{BOOT}{word}"))
        } else {
            Err(IdError::Run { found: shortened(word) })
        }
    }

    /// Returns the origin of the run.
    pub fn kind(&self) -> RunKind {
        match self.manual.as_deref() {
            None => RunKind::Regular,
            Some(BACKFILL) => RunKind::Backfill,
            Some(word) if word.len() == RERUN.len() + RERUN_WORD_LEN && word.starts_with(RERUN) => {
                RunKind::Rerun
            }
            Some(word) if word.len() == BOOT.len() + BOOT_WORD_LEN && word.starts_with(BOOT) => {
                RunKind::Boot
            }
            Some(_) => RunKind::Manual,
        }
    }

    /// Returns the job of the run.
    pub fn job(&self) -> &JobName {
        &self.job
    }

    /// Returns the due time of the run, which its id contains.
    pub fn due(&self) -> UnixMillis {
        self.due
    }

    /// Returns the id of the run of `job` that has the due time and the word of this run.
    #[must_use]
    pub fn of_job(&self, job: JobName) -> Self {
        Self { job, ..self.clone() }
    }

    /// Returns the word behind `~` in the id, or `None` for a regular run.
    pub fn word(&self) -> Option<&str> {
        self.manual.as_deref()
    }

    /// Returns true if the run is not regular: a manual run, a backfill run, a rerun or an
    /// `@reboot` run.
    pub fn is_manual(&self) -> bool {
        self.manual.is_some()
    }
}

fn is_word(text: &str) -> bool {
    (1..=16).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.job, self.due.as_i64())?;
        match &self.manual {
            Some(word) => write!(f, "~{word}"),
            None => Ok(()),
        }
    }
}

impl FromStr for RunId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse_run_id(text).ok_or_else(|| IdError::Run { found: shortened(text) })
    }
}

fn parse_run_id(text: &str) -> Option<RunId> {
    let (job, rest) = text.split_once('@')?;
    let (due, manual) = match rest.split_once('~') {
        Some((due, word)) if is_word(word) => (due, Some(word.into())),
        Some(_) => return None,
        None => (rest, None),
    };
    let canonical =
        due.bytes().all(|b| b.is_ascii_digit()) && (due == "0" || !due.starts_with('0'));
    if !canonical {
        return None;
    }
    let due = UnixMillis::new(due.parse().ok()?)?;
    Some(RunId { job: job.parse().ok()?, due, manual })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_reads_back_as_itself() {
        for id in ["backup@1790000000000", "a.b@0", "backup@1790000000000~k3x9"] {
            assert_eq!(id.parse::<RunId>().unwrap().to_string(), id);
        }
    }

    #[test]
    fn an_id_reports_how_its_run_came_about() {
        let (job, due): (JobName, _) = ("a".parse().unwrap(), UnixMillis::new(5).unwrap());
        let rerun = RunId::rerun(job.clone(), due, "x1y2z3").unwrap();
        for (run, id, kind) in [
            (RunId::regular(job.clone(), due), "a@5", RunKind::Regular),
            (RunId::manual(job.clone(), due, "k3x9ab").unwrap(), "a@5~k3x9ab", RunKind::Manual),
            (RunId::backfill(job.clone(), due), "a@5~backfill", RunKind::Backfill),
            (rerun, "a@5~rerunx1y2z3", RunKind::Rerun),
        ] {
            assert_eq!(
                (run.to_string().as_str(), run.kind(), id.parse::<RunId>().unwrap()),
                (id, kind, run)
            );
        }
        assert!(
            RunId::rerun(job.clone(), due, "x").is_err()
                && RunId::rerun(job, due, "A1B2C3").is_err()
        );
    }

    #[test]
    fn what_is_no_run_id_is_refused() {
        for bad in [
            "",
            "backup",
            "backup@",
            "@1",
            "backup@-1",
            "backup@01",
            "backup@+1",
            "backup@1~",
            "backup@1~A",
            "backup@1~a~b",
            "b@99999999999999999999",
            "B@1",
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad:?} was taken");
        }
    }
}
