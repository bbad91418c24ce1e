//! Errors between schedd and Redis. Each message says in one line what to do.
//!
//! Invariant: no message contains a password.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The reason why a call to the store failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis gave no answer, or the answer asks to try later. The call may be repeated, and may
    /// already have been executed.
    #[error("Redis at {address} cannot be reached: {why}")]
    Unavailable {
        /// The address of Redis.
        address: String,
        /// The cause of the missing answer.
        why: String,
    },
    /// The slot of the namespace is on its way to another node of the cluster. The call may be repeated,
    /// and was not executed.
    #[error(
        "Redis at {address} cannot be reached: the slot of the namespace is on its way to another node of the cluster"
    )]
    SlotMoves {
        /// The address of Redis.
        address: String,
    },
    /// Redis answers, but accepts no writes for a while. The call may be repeated, and was not executed.
    #[error("Redis at {address} accepts no writes: {why}")]
    RefusesWrites {
        /// The address of Redis.
        address: String,
        /// The reason for the refusal.
        why: String,
    },
    /// Redis answers but refuses this client: wrong password or missing permission.
    #[error("Redis at {address} refuses this client: {why}")]
    Denied {
        /// The address of Redis.
        address: String,
        /// The reason for the refusal, in the words of Redis.
        why: String,
    },
    /// Redis answers, but its configuration makes it unusable for schedd.
    #[error("Redis at {address} cannot be used: {why}")]
    Unfit {
        /// The address of Redis.
        address: String,
        /// The setting found and the setting wanted.
        why: String,
    },
    /// The call relies on data that was read from another server, or before this server restarted.
    /// The caller must read the data again.
    #[error(
        "Redis at {address} was restarted or failed over; runs start after nodes have checked for lost data"
    )]
    Replaced {
        /// The address of Redis.
        address: String,
    },
    /// Too few replicas have a change. The change is written, and a failover may lose it.
    #[error(
        "Redis at {address} has the data, but a failover may lose it: {why}; durability = \"replicated\" demands more"
    )]
    NotReplicated {
        /// The address of Redis.
        address: String,
        /// The number of replicas found and wanted.
        why: String,
    },
    /// Redis has no memory left for new data. Existing jobs and runs continue.
    #[error(
        "Redis at {address} is out of memory and accepts no new data; raise its maxmemory or remove keys"
    )]
    OutOfMemory {
        /// The address of Redis.
        address: String,
    },
    /// Several places have a live job of this name, or this run. Nothing was changed.
    #[error(
        "{subject} is in several namespaces: {places}; wanted one of them, by --namespace and --redis"
    )]
    SeveralPlaces {
        /// The job or the run.
        subject: String,
        /// The namespaces with their addresses.
        places: String,
    },
    /// A key of the namespace has the wrong Redis type.
    #[error(
        "key {key} holds a {found}, wanted a {wanted}; schedctl doctor --fix moves the key to quarantine"
    )]
    WrongType {
        /// The key of the wrong type.
        key: String,
        /// The type that the key has.
        found: String,
        /// The type that schedd needs.
        wanted: String,
    },
    /// A script gave an unknown reply, or a record cannot be read.
    #[error("corrupt data in Redis: {subject}: {found}; schedctl doctor checks the stored data")]
    Corrupt {
        /// The script or key with the faulty data.
        subject: String,
        /// The reply or the data that was found.
        found: String,
    },
}

impl StoreError {
    /// Returns true if the same call may succeed later without a change to the data.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::SlotMoves { .. }
                | Self::RefusesWrites { .. }
                | Self::Denied { .. }
                | Self::Unfit { .. }
                | Self::Replaced { .. }
                | Self::NotReplicated { .. }
                | Self::OutOfMemory { .. }
        )
    }

    /// Returns true if Redis gave no answer, or asks to try later.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::SlotMoves { .. } | Self::RefusesWrites { .. }
        )
    }

    /// Returns the error for wrong data in Redis. `subject` is the script or key with the data, and
    /// `found` is the data.
    pub fn corrupt(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Corrupt { subject: subject.into(), found: found.into() }
    }

    pub(crate) fn from_redis(address: &str, error: &RedisError) -> Self {
        let address = address.to_owned();
        let why = describe(error);
        match error.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm) => {
                Self::Denied { address, why }
            }
            ErrorKind::InvalidClientConfig | ErrorKind::RESP3NotSupported => {
                Self::Unfit { address, why }
            }
            _ if lacks_scripts(error) => Self::Unfit {
                address,
                why: "the server runs no Lua scripts; wanted Redis 7.0 or later, or Valkey 7.2 or later with its Lua engine, and EVALSHA and SCRIPT LOAD under their own names"
                    .to_owned(),
            },
            _ => match error.code() {
                Some("OOM") => Self::OutOfMemory { address },
                Some("MISCONF") => Self::RefusesWrites {
                    address,
                    why: "it cannot save its data; see its log and its disk".to_owned(),
                },
                Some("NOREPLICAS") => Self::RefusesWrites {
                    address,
                    why: "fewer replicas than min-replicas-to-write are connected".to_owned(),
                },
                Some("ASK" | "TRYAGAIN") => Self::SlotMoves { address },
                Some("NOAUTH" | "WRONGPASS") => Self::Denied { address, why },
                _ => Self::Unavailable { address, why },
            },
        }
    }

    pub(crate) fn timed_out(address: &str, after: std::time::Duration) -> Self {
        Self::Unavailable {
            address: address.to_owned(),
            why: format!("no answer within {} ms", after.as_millis()),
        }
    }
}

/// Returns true if the server does not know the commands that run scripts, or has no engine for Lua.
fn lacks_scripts(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    error.code() == Some("ERR")
        && ["unknown command 'EVALSHA'", "unknown command 'SCRIPT'", "scripting engine"]
            .iter()
            .any(|sign| detail.contains(sign))
}

/// Returns the error of the Redis library in words, without the prefixes of the library.
fn describe(error: &RedisError) -> String {
    match error.kind() {
        // The library hides the server's answer to the password. A server without free connections
        // gives the same error.
        ErrorKind::AuthenticationFailed => {
            "the user name or password is wrong, or the server accepts no more connections (maxclients)".to_owned()
        }
        ErrorKind::Server(ServerErrorKind::BusyLoading) => "the server is loading its data".to_owned(),
        ErrorKind::Server(ServerErrorKind::ReadOnly) => {
            "the server is a read-only replica; give the address of the primary".to_owned()
        }
        ErrorKind::Parse => "the server does not use the Redis protocol; check the host and port".to_owned(),
        _ => match (error.code(), error.detail()) {
            (Some("NOAUTH"), _) => {
                "the server requires a password; add it to the Redis URL, as in redis://:PASSWORD@HOST:PORT".to_owned()
            }
            (Some("WRONGPASS"), _) => "the user name or password is wrong".to_owned(),
            (Some("BUSY"), _) => "the server is busy with a long Lua script of some client".to_owned(),
            (Some("MASTERDOWN"), _) => {
                "the server is a replica that has lost its primary; give the address of the primary".to_owned()
            }
            (_, Some(detail)) if detail.contains("max number of clients") => {
                "the server accepts no more connections (maxclients)".to_owned()
            }
            (Some(code), Some(detail)) => format!("{code} {detail}"),
            _ => without_number(error.to_string()),
        },
    }
}

/// Returns the text of a system error without its number, such as ` (os error 111)` at the end of
/// `Connection refused (os error 111)`.
fn without_number(text: String) -> String {
    match text.find(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
