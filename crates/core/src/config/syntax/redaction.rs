//! The places of a text that may contain a secret, by design or by mistake. No message repeats a
//! value at such a place.
//!
//! Messages appear in logs and in Redis. So secrecy depends on the place in the tree, and not on
//! the type of the value. For example `env = "PGPASSWORD=..."` is not a table, but still a secret.

use std::borrow::Cow;

use super::problem::key_text;
use crate::domain::job::notice::NoticeKind;

/// The kind of a place in the tree, which decides if a value at the place may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrecy {
    /// The place of a file as a whole.
    File,
    /// The place of `[jobs]`, a table whose keys are the names of jobs.
    Jobs,
    /// The place of a table with an action or rules: a job, `[defaults]`, a request, a notice. If a
    /// user writes a text there instead of a table, the text may be a command line or a URL.
    Action,
    /// The place of `[redis]`. If a user writes a text there instead of a table, the text may be an
    /// address with a password.
    Redis,
    /// The place of a value that may be secret, together with all values below it.
    Secret,
    /// The place of a value that may be shown, together with all values below it.
    Open,
}

/// The keys of an action whose values may all be secret.
const SECRET: &[&str] = &[
    "env",
    "env_file",
    "command",
    "shell",
    "stdin",
    "webhook_secret",
    "ping_url",
    "url",
    "headers",
    "body",
    "payload",
];
/// The keys of an action that contain another action. The keys of notices, such as `on_failure`,
/// contain actions too.
const ACTIONS: &[&str] = &["http", "done_check"];

impl Secrecy {
    /// Returns the secrecy of the value of `key`, in a table at a place of this secrecy.
    pub(crate) fn under(self, key: &str) -> Self {
        match (self, key) {
            (Self::File, "jobs") => Self::Jobs,
            (Self::File, "defaults") | (Self::Jobs, _) => Self::Action,
            (Self::File, "redis") => Self::Redis,
            (Self::Redis, "allow_eviction" | "shards") => Self::Open,
            (Self::Redis | Self::Secret, _) => Self::Secret,
            (Self::Action, key) if SECRET.contains(&key) => Self::Secret,
            (Self::Action, key)
                if ACTIONS.contains(&key)
                    || NoticeKind::ASKED.iter().any(|kind| kind.as_str() == key) =>
            {
                Self::Action
            }
            (Self::File | Self::Action | Self::Open, _) => Self::Open,
        }
    }

    /// Returns true if a value at this place may be shown.
    pub(crate) fn is_open(self) -> bool {
        self == Self::Open
    }

    /// Formats a key at this place for the path of a problem. Names of jobs are shown whole.
    pub(crate) fn key(self, key: &str) -> String {
        if matches!(self, Self::Jobs | Self::Open) {
            key_text(key)
        } else {
            key_text(&as_name(key))
        }
    }
}

/// Returns the part of a key that can be a name. The text after an equals sign, a colon or a space
/// may be a secret value and is cut off.
pub(crate) fn as_name(key: &str) -> Cow<'_, str> {
    match key.split_once(|c: char| matches!(c, '=' | ':') || c.is_whitespace()) {
        Some((name, _)) => Cow::Owned(format!("{name}…")),
        None => Cow::Borrowed(key),
    }
}
