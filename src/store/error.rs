//! What can go wrong between schedd and Redis, told so that one line says what to do.
//!
//! Invariant: no message holds a password.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why a call to the store gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No answer, or one that says "not now": the same call may be repeated, and may already have been done.
    #[error("Redis at {address} cannot be reached: {why}")]
    Unavailable {
        /// Where it was looked for.
        address: String,
        /// What happened.
        why: String,
    },
    /// It answers, but refuses us: password, permission.
    #[error("Redis at {address} refuses this client: {why}")]
    Denied {
        /// Where it is.
        address: String,
        /// What it refused.
        why: String,
    },
    /// It answers, but schedd cannot work with it as it is set up.
    #[error("Redis at {address} cannot be used: {why}")]
    Unfit {
        /// Where it is.
        address: String,
        /// What is wrong and what is wanted.
        why: String,
    },
    /// What was found out was found out on another server, or before this one was restarted: look again.
    #[error("Redis at {address} is not the server that was asked before; it is looked at first")]
    Replaced {
        /// Where it is.
        address: String,
    },
    /// No memory is left for something new. What is there goes on.
    #[error("Redis at {address} is out of memory: nothing can be added until its maxmemory is raised or keys are removed")]
    OutOfMemory {
        /// Where it is.
        address: String,
    },
    /// A key of ours holds something that is not ours.
    #[error("key {key} holds a {found}, wanted a {wanted}: schedctl doctor --fix moves it to quarantine, and it is made anew")]
    WrongType {
        /// The key.
        key: String,
        /// The type it has.
        found: String,
        /// The type it should have.
        wanted: String,
    },
    /// A reply that no script gives, or a record that cannot be read.
    #[error("{subject} in Redis is not understood: {found}")]
    Corrupt {
        /// The script or key.
        subject: String,
        /// What was found.
        found: String,
    },
}

impl StoreError {
    /// Whether the same call may succeed later without anybody doing anything to the data.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Denied { .. }
                | Self::Unfit { .. }
                | Self::Replaced { .. }
                | Self::OutOfMemory { .. }
        )
    }

    pub(crate) fn corrupt(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Corrupt { subject: subject.into(), found: found.into() }
    }

    pub(crate) fn from_redis(address: &str, error: &RedisError) -> Self {
        let address = address.to_owned();
        let why = describe(error);
        match error.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm) => Self::Denied { address, why },
            ErrorKind::InvalidClientConfig | ErrorKind::RESP3NotSupported => Self::Unfit { address, why },
            _ => match error.code() {
                Some("OOM") => Self::OutOfMemory { address },
                Some("NOAUTH" | "WRONGPASS") => Self::Denied { address, why },
                _ => Self::Unavailable { address, why },
            },
        }
    }

    pub(crate) fn timed_out(address: &str, after: std::time::Duration) -> Self {
        Self::Unavailable { address: address.to_owned(), why: format!("no answer within {} ms", after.as_millis()) }
    }
}

/// The error in words, without the library's own prefixes.
fn describe(error: &RedisError) -> String {
    match error.kind() {
        // The library does not say what was answered to the password, and a full server answers so to any.
        ErrorKind::AuthenticationFailed => "wrong user name or password, or it takes no more connections (maxclients)".to_owned(),
        ErrorKind::Server(ServerErrorKind::BusyLoading) => "it is loading its data".to_owned(),
        ErrorKind::Server(ServerErrorKind::ReadOnly) => "it is a read-only replica; give the address of the primary".to_owned(),
        ErrorKind::Parse => "it does not speak the Redis protocol".to_owned(),
        _ => match (error.code(), error.detail()) {
            (Some("NOAUTH"), _) => "it wants a password; put it into the URL file (url_file) or the URL".to_owned(),
            (Some("WRONGPASS"), _) => "wrong user name or password".to_owned(),
            (Some("BUSY"), _) => "it is busy running a script".to_owned(),
            (Some("MASTERDOWN"), _) => "it is a replica that has lost its primary; give the address of the primary".to_owned(),
            (Some("NOREPLICAS"), _) => "it takes nothing in, for too few replicas follow it (min-replicas-to-write)".to_owned(),
            (_, Some(detail)) if detail.contains("max number of clients") => {
                "it takes no more connections (maxclients)".to_owned()
            }
            (Some(code), Some(detail)) => format!("{code} {detail}"),
            _ => without_number(error.to_string()),
        },
    }
}

/// The text of a system error without the number behind it: `Connection refused (os error 111)`.
fn without_number(text: String) -> String {
    match text.find(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
