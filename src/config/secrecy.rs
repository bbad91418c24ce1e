//! What of a text no problem repeats: the one place that says where a secret may stand, or be put by a slip.
//!
//! A problem ends up in logs, in Redis and before whoever asks for it. So it is judged by the place in the tree and not by what was
//! wanted there: `env = "PGPASSWORD=..."` is no table, and yet a secret.

use std::borrow::Cow;

use super::problem::key_text;
use crate::domain::notice::NoticeKind;

/// What stands at a place of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    /// A file as a whole.
    File,
    /// Its jobs by their names.
    Jobs,
    /// What does something: a job, `[defaults]`, a request, a notice. A text in its place may be a command line or a URL.
    Action,
    /// `[redis]`, in the place of which an address may have been written.
    Redis,
    /// What may be secret, and all below it.
    Secret,
    /// What may be shown, and all below it.
    Open,
}

/// Keys of an action of which everything may be secret.
const SECRET: &[&str] = &["env", "env_file", "command", "shell", "stdin", "webhook_secret", "ping_url", "url", "headers", "body"];
/// Keys of an action with an action inside; the notices are others.
const ACTIONS: &[&str] = &["http", "done_check"];

impl Secrecy {
    /// What stands under `key` here.
    pub(super) fn under(self, key: &str) -> Self {
        match (self, key) {
            (Self::File, "jobs") => Self::Jobs,
            (Self::File, "defaults") | (Self::Jobs, _) => Self::Action,
            (Self::File, "redis") => Self::Redis,
            (Self::Redis, "allow_eviction") => Self::Open,
            (Self::Redis | Self::Secret, _) => Self::Secret,
            (Self::Action, key) if SECRET.contains(&key) => Self::Secret,
            (Self::Action, key) if ACTIONS.contains(&key) || NoticeKind::ASKED.iter().any(|kind| kind.as_str() == key) => {
                Self::Action
            }
            (Self::File | Self::Action | Self::Open, _) => Self::Open,
        }
    }

    /// Whether a value that stands here may be shown.
    pub(super) fn is_open(self) -> bool {
        self == Self::Open
    }

    /// A key that stands here, for the path of a problem: names people gave are shown whole.
    pub(super) fn key(self, key: &str) -> String {
        if matches!(self, Self::Jobs | Self::Open) { key_text(key) } else { key_text(&as_name(key)) }
    }
}

/// A key as far as it can be a name: what was meant to be its value may stand behind an equals sign, a colon or a space.
pub(super) fn as_name(key: &str) -> Cow<'_, str> {
    match key.split_once(|c: char| matches!(c, '=' | ':') || c.is_whitespace()) {
        Some((name, _)) => Cow::Owned(format!("{name}…")),
        None => Cow::Borrowed(key),
    }
}
