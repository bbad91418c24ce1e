//! The setup before the loops start: chooses the Redis, and registers the node's name there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use super::daemon_args::DaemonArgs;
use super::setup_failure::SetupFailure;
use super::systemd::ServiceManager;
use crate::executor::ResultDirectory;
use crate::private_redis::{Access, PrivateServer, PrivateServerError, state_dir};
use crate::secrets::{Credentials, RedisUrl};
use schedd::engine;
use schedd::engine::{HostFacts, Journal, Naming, PresenceError};
use schedd_core::config::{Config, has_password};
use schedd_core::domain::queue::lane_serving::Serving;
use schedd_core::files;
use schedd_core::host::end_mark::EndedMark;
use schedd_schedule::names::NodeName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Address, Eviction, Store};

const TRY_AGAIN: Duration = Duration::from_millis(500);

/// The Redis that this process uses.
pub(super) enum Redis {
    /// A private redis-server, which stops together with this process.
    Private(PrivateServer, Address),
    /// A Redis that this process did not start.
    Shared {
        address: Address,
        /// The URL, which jobs may know. `None` if the URL has a password.
        open_url: Option<String>,
        /// True if the jobs file names this Redis.
        is_in_file: bool,
    },
}

impl Redis {
    /// Returns the Redis that is named by the flags, the environment or the jobs file, in this
    /// order. If none of them names a Redis, starts a private redis-server.
    pub(super) async fn find(args: &DaemonArgs, config: &Config) -> Result<Self, SetupFailure> {
        let eviction =
            if config.redis.allow_eviction { Eviction::Allowed } else { Eviction::Refused };
        let parse = |url: &str| {
            Address::parse(url)
                .map(|address| address.with_eviction(eviction))
                .map_err(SetupFailure::usage)
        };
        let given = args.redis.clone().map(RedisUrl::of_text);
        let named = given.or_else(|| RedisUrl::of_file(&config.redis));
        if let Some(at) = named {
            let credentials = Credentials::of_this_process();
            let url = at
                .read(&credentials)
                .map_err(|error| SetupFailure::config(format_args!("[redis]: {error}")))?;
            if let Some(file) = at.open_file().filter(|_| has_password(&url)) {
                warn!(
                    "The file {} (redis.url_file) has a password, and every user of this host can read the file. Use chmod o-r.",
                    file.display()
                );
            }
            return Ok(Self::Shared {
                address: parse(&url)?.read_anew_by(Arc::new(move || at.read(&credentials).ok())),
                open_url: Some(url.trim().to_owned()).filter(|url| !has_password(url)),
                is_in_file: args.redis.is_none(),
            });
        }
        let start = async { PrivateServer::start(&state_dir()?, Access::from_env()).await };
        let server = start.await.map_err(|error| match error {
            PrivateServerError::InUse { .. } => SetupFailure::conflict(error),
            other => SetupFailure::redis(other),
        })?;
        let address = parse(&server.url())?;
        Ok(Self::Private(server, address))
    }

    pub(super) fn address(&self) -> &Address {
        match self {
            Self::Private(_, address) | Self::Shared { address, .. } => address,
        }
    }

    /// Returns the variables by which `schedctl` in a job finds this Redis and `namespace`.
    ///
    /// A URL with a password is not given to jobs. If `jobs_file` names that URL, jobs get the path
    /// of the file instead: users who may read the file and its `url_file` can use this Redis.
    pub(super) fn variables(
        &self,
        namespace: &str,
        jobs_file: Option<PathBuf>,
    ) -> BTreeMap<String, String> {
        let (url, file) = match self {
            Self::Private(server, _) => (Some(server.url()), None),
            Self::Shared { open_url: None, is_in_file: true, .. } => (None, jobs_file),
            Self::Shared { open_url, .. } => (open_url.clone(), None),
        };
        let file = file.map(|file| ("SCHEDD_JOBS", file.display().to_string()));
        let url = url.map(|url| ("SCHEDD_REDIS_URL", url));
        let namespace = ("SCHEDD_NAMESPACE", namespace.to_owned());
        let all = [Some(namespace), url, file].into_iter().flatten();
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Stops a private redis-server. A shared Redis is left running.
    pub(super) async fn stop(self) {
        if let Self::Private(server, _) = self {
            server.stop().await;
        }
    }
}

/// Raises the soft limit of open files of this process to its hard limit, because each connection of
/// the API is an open file. Returns the limit before, which jobs get. `None` means no limit.
pub(super) fn raise_open_files() -> Option<u64> {
    let before = getrlimit(Resource::Nofile);
    // An error leaves the limit as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    before.current
}

/// Returns a random identifier for this start of the process.
pub(super) fn incarnation() -> String {
    format!("{:016x}", fastrand::u64(..))
}

/// Returns the path of the end mark: the file in which this node's keeper records that all its jobs
/// are dead. Returns `None` if no state directory can be made, or another user may write there.
pub(super) fn ended_mark(node: &NodeName) -> Option<PathBuf> {
    let dir = state_dir().ok()?;
    std::fs::create_dir_all(&dir).ok()?;
    if let Some(doubt) = doubt_of(&dir) {
        warn!(
            "schedd does not use its state directory, because another user could write false results of runs there: {doubt}."
        );
        return None;
    }
    Some(EndedMark::file(&dir, node))
}

/// Makes the directory for the results of jobs: in the runtime directory that systemd made, else in
/// the state directory. Returns no directory if there is none that only this user may change.
pub(super) fn results() -> ResultDirectory {
    let runtime = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
    let parent = runtime.filter(|dir| dir.is_absolute()).or_else(|| state_dir().ok());
    ResultDirectory::within(parent.filter(|dir| doubt_of(dir).is_none()).as_deref())
}

/// Returns this node's journal, read from its file in the state directory. If another user may
/// write in the directory, the journal is only in memory.
pub(super) fn journal(store: &Store, node: &NodeName) -> Journal {
    let dir = state_dir().ok();
    if dir.as_deref().is_some_and(|dir| doubt_of(dir).is_some()) {
        return Journal::in_memory();
    }
    Journal::open(dir.as_deref(), store.namespace(), node)
}

/// Returns the reason why the state directory `dir` is not safe: it names the other user who may
/// write there. Returns `None` if the directory is safe or missing.
fn doubt_of(dir: &Path) -> Option<String> {
    files::doubt_of_directory(dir).ok().flatten()
}

/// A node whose name is registered in Redis.
pub(super) struct Announced {
    pub(super) node: NodeName,
    pub(super) now: UnixMillis,
    pub(super) server: String,
}

/// Registers the node's name in Redis. If Redis is out of reach, tries again without a time limit.
/// Any other error is returned, such as a name that is in use.
pub(super) async fn announce(
    store: &Store,
    wanted: &NodeName,
    naming: Naming,
    incarnation: &str,
    host: &HostFacts,
    serving: &Serving,
    manager: &ServiceManager,
) -> Result<Announced, SetupFailure> {
    let mut is_waiting = false;
    loop {
        let attempt = async {
            let findings = store.findings().await?;
            let (node, now) =
                engine::announce(store, wanted, naming, incarnation, host, serving).await?;
            Ok::<_, PresenceError>((findings, Announced { node, now, server: String::new() }))
        };
        match attempt.await {
            Ok((findings, announced)) => {
                for warning in &findings.warnings {
                    warn!("Redis at {}: {warning}.", store.address());
                }
                return Ok(Announced { server: findings.server, ..announced });
            }
            Err(error @ PresenceError::Taken { .. }) => return Err(SetupFailure::conflict(error)),
            Err(PresenceError::Store(error)) if error.is_outage() => {
                if !is_waiting {
                    info!("{error}; schedd waits for Redis.");
                    manager.waiting(format!("Waiting for Redis: {error}"));
                    is_waiting = true;
                }
                tokio::time::sleep(TRY_AGAIN).await;
            }
            Err(PresenceError::Store(error)) => return Err(SetupFailure::redis(error)),
        }
    }
}
