//! Gates: limits that several runs share. A run may have to wait at a gate before it starts.
//!
//! A gate is a concurrency key (`key = "customer-42"`), a group, or a job that another job names in
//! `not_while`.
//!
//! Invariant: each run passes its gates in the same order: the group first, then the jobs in the
//! order of their names, the key last. So two runs never wait for each other.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use super::rate::Rate;
use crate::domain::job::node_choice::EACH_NODE;
use schedd_schedule::names::{GroupName, JobName};

/// The name of a gate in Redis: `group:X`, `job:NAME` or `key:K`. Every byte of `K` except `A-Z a-z
/// 0-9 . _ -` is written `%XX`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gate(String);

/// A concurrency key: 1 to 256 characters without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedKey(String);

/// The limits of a concurrency key: a maximum of runs at once, and a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerKey {
    /// The maximum number of runs with the key at once, 1 to 1,000,000. `None` means any number.
    pub limit: Option<u32>,
    /// The rate limit for starts of runs with the key. `None` means no rate limit.
    pub rate: Option<Rate>,
}

/// The error for a text that is not a concurrency key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key {found:?} is not valid: wanted 1 to 256 characters without control characters")]
pub struct KeyError {
    found: String,
}

/// The maximum number of characters of an invalid key in a message.
const SHOWN: usize = 40;

impl SharedKey {
    /// The maximum number of characters in a concurrency key.
    pub const LONGEST: usize = 256;

    /// Returns the concurrency key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SharedKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let is_sound = (1..=Self::LONGEST).contains(&text.chars().count())
            && !text.chars().any(char::is_control);
        if is_sound {
            Ok(Self(text.to_owned()))
        } else {
            Err(KeyError { found: text.chars().take(SHOWN).collect() })
        }
    }
}

impl Default for PerKey {
    fn default() -> Self {
        Self { limit: Some(1), rate: None }
    }
}

impl PerKey {
    /// The maximum value of `limit`.
    pub const MOST: u32 = 1_000_000;
}

impl Gate {
    /// Returns the gate of a group.
    pub fn of_group(group: &GroupName) -> Self {
        Self(format!("group:{group}"))
    }

    /// Returns the gate between `job` and the jobs that name `job` in `not_while`.
    pub fn of_job(job: &JobName) -> Self {
        Self(format!("job:{job}"))
    }

    /// Returns the gate of a concurrency key.
    pub fn of_key(key: &SharedKey) -> Self {
        let mut name = "key:".to_owned();
        for byte in key.as_str().bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
                name.push(char::from(byte));
            } else {
                let _ = write!(name, "%{byte:02X}");
            }
        }
        Self(name)
    }

    /// Returns the gate with this name, from a Lua script or a record. Returns `None` if the name
    /// is invalid.
    pub fn from_name(name: &str) -> Option<Self> {
        let (kind, of) = name.split_once(':')?;
        let is_one = matches!(kind, "group" | "job" | "key")
            && !of.is_empty()
            && !name.contains(|c: char| c.is_ascii_whitespace());
        is_one.then(|| Self(name.to_owned()))
    }

    /// Returns the gates that a run's record names. `text` has the names of the gates with blanks
    /// between them. Invalid names are left out.
    pub fn all_in(text: &str) -> Vec<Self> {
        text.split_ascii_whitespace().filter_map(Self::from_name).take(MOST_GATES).collect()
    }

    /// Returns the name of the gate.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the group of this gate. Returns `None` if this is not the gate of a group.
    pub fn group(&self) -> Option<GroupName> {
        self.0.strip_prefix("group:")?.parse().ok()
    }

    /// Returns the job of this gate. Returns `None` if this is not the gate of a job.
    pub fn job(&self) -> Option<JobName> {
        self.0.strip_prefix("job:")?.parse().ok()
    }

    /// Returns true if this is the gate of a concurrency key.
    pub fn is_of_key(&self) -> bool {
        self.0.starts_with("key:")
    }

    /// Returns the gate as text for a message: `key customer-42`, `group x`, `job backup`, or
    /// `max_parallel of job clean` for the key of a job on each node.
    pub fn words(&self) -> String {
        let (kind, of) = self.0.split_once(':').unwrap_or_default();
        let of = if kind == "key" { unescaped(of) } else { of.to_owned() };
        match of.strip_prefix(EACH_NODE).and_then(|job| job.strip_prefix('/')) {
            Some(job) if kind == "key" => format!("max_parallel of job {job}"),
            _ => format!("{kind} {of}"),
        }
    }
}

/// The maximum number of gates that a run may have to pass.
const MOST_GATES: usize = 32;

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let code = behind
            .get(..2)
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = code.filter(|_| first == b'%') {
            bytes.push(byte);
            rest = &behind[2..];
        } else {
            bytes.push(first);
            rest = behind;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_characters_makes_a_name_without_blanks_that_reads_back() {
        for text in ["customer-42", "a b", "{x}:y", "ü\u{202e}", "100%", "%41", "a/b#c@d~e"] {
            let gate = Gate::of_key(&text.parse().unwrap());
            assert!(!gate.as_str().contains([' ', '{', '}', '/']), "{gate}");
            assert_eq!(Gate::from_name(gate.as_str()), Some(gate.clone()));
            assert_eq!(gate.words(), format!("key {text}"));
        }
        let rolling = Gate::of_key(&"each-node/clean".parse().unwrap());
        assert_eq!(rolling.words(), "max_parallel of job clean");
        assert_eq!(Gate::of_key(&"customer-42".parse().unwrap()).as_str(), "key:customer-42");
    }

    #[test]
    fn an_invalid_key_is_refused() {
        for bad in ["", "a\n", "\0", "\u{1b}[1m", &"x".repeat(257)] {
            assert!(bad.parse::<SharedKey>().is_err(), "{bad:?}");
        }
        assert!("ü".repeat(256).parse::<SharedKey>().is_ok());
    }

    #[test]
    fn invalid_names_of_gates_in_a_record_are_left_out() {
        let found: Vec<String> = Gate::all_in("group:x nonsense job: key:a%20b other:y")
            .iter()
            .map(Gate::words)
            .collect();
        assert_eq!(found, ["group x", "key a b"]);
    }
}
