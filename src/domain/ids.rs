//! Names and ids: what may be called what. A run's id is made in [`super::run_id`].
//!
//! Invariant: a value of one of these types is always well formed, so a name that came from a user or out of Redis can be
//! put into a key, a log line or a path without another check.

use std::fmt;
use std::str::FromStr;

use super::notice::NoticeKind;
pub use super::run_id::{RunId, RunKind};

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

pub(super) fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(SHOWN).collect();
    cut.push('…');
    cut
}

/// The queue of notices: no host can be called so.
const NOTICES: &str = "@@notices";

/// A name, or that of a host's own queue, or that of notices.
fn is_queue_name(text: &str) -> bool {
    is_name(text.strip_prefix('@').unwrap_or(text)) || text == NOTICES
}

/// A name, or that of the hidden job whose runs are notices.
fn is_job_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((job, kind)) => is_name(job) && NoticeKind::parse(kind).is_some(),
        None => is_name(text),
    }
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
    /// A job's name: `[a-z0-9][a-z0-9._-]{0,62}`; that of a hidden job, whose runs are notices, has the kind behind it: `backup/on_failure`.
    JobName,
    "job",
    is_job_name
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

impl JobName {
    /// The hidden job whose runs are the notices of `kind` of `told`.
    pub fn of_notice(told: &Self, kind: NoticeKind) -> Self {
        Self(format!("{told}/{kind}"))
    }

    /// The job whose runs a hidden job tells of, and in which case; none for a job of people.
    pub fn told_of(&self) -> Option<(Self, NoticeKind)> {
        let (job, kind) = self.0.split_once('/')?;
        Some((Self(job.to_owned()), NoticeKind::parse(kind)?))
    }

    /// The name, if people may define a job of it; else what is wrong with it.
    pub fn for_people(self) -> Result<Self, IdError> {
        if self.is_hidden() { Err(IdError::Name { kind: "job", found: shortened(&self.0) }) } else { Ok(self) }
    }

    /// Whether it is that of a hidden job, which people cannot define.
    pub fn is_hidden(&self) -> bool {
        self.0.contains('/')
    }
}

impl QueueName {
    /// The queue of notices, which every node serves.
    pub fn of_notices() -> Self {
        Self(NOTICES.to_owned())
    }

    /// The queue of a job that names none: `default`.
    pub fn default_queue() -> Self {
        Self("default".to_owned())
    }

    /// The queue of a host of that name.
    pub fn of_host(host: &str) -> Self {
        Self(format!("@{}", NodeName::from_host_name(host)))
    }

    /// Whether it is the queue of a host, or that of notices: not one a job or a file may name.
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
    fn any_host_name_gives_a_valid_node_name() {
        assert_eq!(NodeName::from_host_name("Web-1.example.ORG").as_str(), "web-1.example.org");
        assert_eq!(NodeName::from_host_name("_h").as_str(), "h");
        assert_eq!(NodeName::from_host_name("").as_str(), "node");
    }
}
