//! The ids of runs: how one is made of its job and its due time, and what it tells of how the run came about.
//!
//! Invariant: an id reads back as itself, and planting the same occurrence twice names the same run.

use std::fmt;
use std::str::FromStr;

use super::ids::{IdError, JobName, shortened};
use super::time::UnixMillis;

/// How a run came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// By its job's schedule.
    Regular,
    /// By `schedctl run`.
    Manual,
    /// By `schedctl backfill`, for an occurrence of the past.
    Backfill,
    /// By `schedctl rerun`, to do the work of a run anew.
    Rerun,
    /// By `@reboot`, after a boot of a host.
    Boot,
}

impl RunKind {
    /// The word for it.
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

/// The word behind a backfill run's id, and what that of a rerun begins with, before so many letters and digits.
const BACKFILL: &str = "backfill";
const RERUN: &str = "rerun";
const RERUN_WORD_LEN: usize = 6;
/// What the word behind the id of a run planted by `@reboot` begins with, and how many letters and digits follow.
const BOOT: &str = "boot";
const BOOT_WORD_LEN: usize = 8;

/// The id of a run: `job@due_ms`, and `~word` behind it for a manual run. The due time in it never moves, so planting the
/// same occurrence twice names the same run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    job: JobName,
    due: UnixMillis,
    manual: Option<String>,
}

impl RunId {
    /// The id of the regular run of `job` due at `due`.
    pub fn regular(job: JobName, due: UnixMillis) -> Self {
        Self { job, due, manual: None }
    }

    /// The id of a manual run; `word` keeps two of one millisecond apart. Fails unless `word` is 1 to 16 of a-z 0-9.
    pub fn manual(job: JobName, due: UnixMillis, word: &str) -> Result<Self, IdError> {
        if is_word(word) {
            Ok(Self { job, due, manual: Some(word.to_owned()) })
        } else {
            Err(IdError::Run { found: shortened(word) })
        }
    }

    /// The id of the run that makes up for the occurrence of `job` at `due`: there is one.
    pub fn backfill(job: JobName, due: UnixMillis) -> Self {
        Self { job, due, manual: Some(BACKFILL.to_owned()) }
    }

    /// The id of a run that does the work due at `due` anew; `word` keeps several apart. Fails unless `word` is 6 of a-z 0-9.
    pub fn rerun(job: JobName, due: UnixMillis, word: &str) -> Result<Self, IdError> {
        if word.len() == RERUN_WORD_LEN {
            Self::manual(job, due, &format!("{RERUN}{word}"))
        } else {
            Err(IdError::Run { found: shortened(word) })
        }
    }

    /// The id of a run planted by `@reboot`; `word` keeps boots apart. Fails unless `word` is 8 of a-z 0-9.
    pub fn boot(job: JobName, at: UnixMillis, word: &str) -> Result<Self, IdError> {
        if word.len() == BOOT_WORD_LEN {
            Self::manual(job, at, &format!("{BOOT}{word}"))
        } else {
            Err(IdError::Run { found: shortened(word) })
        }
    }

    /// How it came about.
    pub fn kind(&self) -> RunKind {
        match self.manual.as_deref() {
            None => RunKind::Regular,
            Some(BACKFILL) => RunKind::Backfill,
            Some(word) if word.len() == RERUN.len() + RERUN_WORD_LEN && word.starts_with(RERUN) => RunKind::Rerun,
            Some(word) if word.len() == BOOT.len() + BOOT_WORD_LEN && word.starts_with(BOOT) => RunKind::Boot,
            Some(_) => RunKind::Manual,
        }
    }

    /// The job this is a run of.
    pub fn job(&self) -> &JobName {
        &self.job
    }

    /// The planned instant.
    pub fn due(&self) -> UnixMillis {
        self.due
    }

    /// Whether it is of another kind than regular: none of the schedule's own occurrences.
    pub fn is_manual(&self) -> bool {
        self.manual.is_some()
    }
}

fn is_word(text: &str) -> bool {
    (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
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
        Some((due, word)) if is_word(word) => (due, Some(word.to_owned())),
        Some(_) => return None,
        None => (rest, None),
    };
    let canonical = due.bytes().all(|b| b.is_ascii_digit()) && (due == "0" || !due.starts_with('0'));
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
    fn an_id_tells_how_its_run_came_about() {
        let (job, due): (JobName, _) = ("a".parse().unwrap(), UnixMillis::new(5).unwrap());
        let rerun = RunId::rerun(job.clone(), due, "x1y2z3").unwrap();
        for (run, id, kind) in [
            (RunId::regular(job.clone(), due), "a@5", RunKind::Regular),
            (RunId::manual(job.clone(), due, "k3x9ab").unwrap(), "a@5~k3x9ab", RunKind::Manual),
            (RunId::backfill(job.clone(), due), "a@5~backfill", RunKind::Backfill),
            (rerun, "a@5~rerunx1y2z3", RunKind::Rerun),
        ] {
            assert_eq!((run.to_string().as_str(), run.kind(), id.parse::<RunId>().unwrap()), (id, kind, run));
        }
        assert!(RunId::rerun(job.clone(), due, "x").is_err() && RunId::rerun(job, due, "A1B2C3").is_err());
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
