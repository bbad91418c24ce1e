//! Names and ids: what may be called what, and how a run's id is made of its job and its due time.
//!
//! Invariant: a value of one of these types is always well formed, so a name that came from a user or out of Redis can be
//! put into a key, a log line or a path without another check.

use std::fmt;
use std::str::FromStr;

use super::time::UnixMillis;

/// Why a text is no name or id; the text names what was found and what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not of the form of a name.
    #[error("{kind} name {found:?} is not valid: wanted 1 to 63 of a-z 0-9 . _ - beginning with a letter or digit")]
    Name {
        /// What kind of thing was to be named: job, queue, group, node or label.
        kind: &'static str,
        /// The text found, cut to a length that fits a line.
        found: String,
    },
    /// Not of the form of a lane.
    #[error("lane {found:?} is not valid: wanted QUEUE, QUEUE!PRIORITY or either with +LABEL,LABEL behind it")]
    Lane {
        /// The text found, cut to a length that fits a line.
        found: String,
    },
    /// Not of the form of a run id.
    #[error("run id {found:?} is not valid: wanted JOB@DUE_MS, or JOB@DUE_MS~WORD for a manual run")]
    Run {
        /// The text found, cut to a length that fits a line.
        found: String,
    },
}

impl IdError {
    pub(super) fn lane(found: &str) -> Self {
        Self::Lane { found: shortened(found) }
    }
}

/// The longest name of a job, queue, group or node, in bytes.
pub const MAX_NAME_LEN: usize = 63;

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let first_ok = bytes.first().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let rest_ok = bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'));
    first_ok && rest_ok && bytes.len() <= MAX_NAME_LEN
}

fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(SHOWN).collect();
    cut.push('…');
    cut
}

/// A name, or that of a host's own queue.
fn is_queue_name(text: &str) -> bool {
    is_name(text.strip_prefix('@').unwrap_or(text))
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $is_name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                if $is_name(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(IdError::Name { kind: $kind, found: shortened(text) })
                }
            }
        }
    };
}

name_type!(
    /// A job's name: `[a-z0-9][a-z0-9._-]{0,62}`.
    JobName,
    "job",
    is_name
);
name_type!(
    /// A queue's name, of the same form as a job's; with `@` before it that of a host, which only its own nodes serve.
    QueueName,
    "queue",
    is_queue_name
);
name_type!(
    /// A group's name, of the same form as a job's.
    GroupName,
    "group",
    is_name
);
name_type!(
    /// A node's name, of the same form as a job's. Also the name of the source its `jobs.toml` is known by.
    NodeName,
    "node",
    is_name
);

name_type!(
    /// A word for what a node has and a job may require, of the same form as a job's name.
    Label,
    "label",
    is_name
);

impl QueueName {
    /// The queue of a job that names none: `default`.
    pub fn default_queue() -> Self {
        Self("default".to_owned())
    }

    /// The queue of a host of that name.
    pub fn of_host(host: &str) -> Self {
        Self(format!("@{}", NodeName::from_host_name(host)))
    }

    /// Whether it is the queue of a host: not one a job or a file may name.
    pub fn is_of_host(&self) -> bool {
        self.0.starts_with('@')
    }
}

impl NodeName {
    /// The nearest valid name to a host's name: lower case, other characters turned into `-`. `node` if nothing is left.
    pub fn from_host_name(host: &str) -> Self {
        let mapped: String = host
            .to_ascii_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
            .take(MAX_NAME_LEN)
            .collect();
        let trimmed = mapped.trim_start_matches(['.', '_', '-']);
        if trimmed.is_empty() { Self("node".to_owned()) } else { Self(trimmed.to_owned()) }
    }
}

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

/// The strictly rising number of a lease: it tells a job's receiver, and Redis, which of two holders is the later one.
/// Below 2^53, so exact as a number in Lua and JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The largest fence: 2^53 - 1.
    pub const MAX: u64 = (1 << 53) - 1;

    /// The fence of that number; none if it is past [`Fence::MAX`].
    pub fn new(number: u64) -> Option<Self> {
        (number <= Self::MAX).then_some(Self(number))
    }

    /// The number.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_design_allows_and_nothing_else() {
        for good in ["a", "0", "backup", "a.b_c-d", &"x".repeat(63)] {
            assert_eq!(good.parse::<JobName>().unwrap().as_str(), good);
        }
        let bad = ["", " ", "A", "-rf", ".a", "a b", "a/b", "../../etc/x", "{x}", "a\n", "a\0", "é", "a\u{202e}b", "a@1", "a~b"];
        for bad in bad.into_iter().chain([&*"x".repeat(64)]) {
            assert!(bad.parse::<JobName>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn the_queue_of_a_host_has_a_name_no_other_queue_has() {
        let queue = QueueName::of_host("Web-1.example");
        assert_eq!((queue.as_str(), queue.is_of_host()), ("@web-1.example", true));
        assert_eq!("@web-1.example".parse(), Ok(queue));
        assert!(
            !QueueName::default_queue().is_of_host() && "@".parse::<QueueName>().is_err() && "@a".parse::<JobName>().is_err()
        );
    }

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

    #[test]
    fn any_host_name_gives_a_valid_node_name() {
        assert_eq!(NodeName::from_host_name("Web-1.example.ORG").as_str(), "web-1.example.org");
        assert_eq!(NodeName::from_host_name("_h").as_str(), "h");
        assert_eq!(NodeName::from_host_name("").as_str(), "node");
    }
}
