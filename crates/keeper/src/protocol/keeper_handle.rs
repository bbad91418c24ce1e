//! The daemon's handle on its keeper. It stays valid when a new keeper replaces a dead keeper.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::keeper_link::{Child, KeeperError, KeeperLink, KeeperSettings};
use super::keeper_messages::{LaunchOrder, ProcessEnd, RunReport};
use super::supervisor;
use schedd_core::domain::job::process_limits::LimitKind;
use schedd_core::domain::run::excerpt::OutputSink;
use schedd_core::host::boot_clock::BootInstant;

/// A handle on the node's keeper. When the last handle is dropped, the keeper kills all runs and
/// exits.
#[derive(Debug, Clone)]
pub struct Keeper {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    link: watch::Receiver<Option<Arc<KeeperLink>>>,
    limits: BTreeSet<LimitKind>,
    has_cgroups: bool,
    closing: CancellationToken,
    next_key: AtomicU64,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl Keeper {
    /// Starts the keeper, and another keeper whenever the present keeper dies. Makes the calling
    /// process the parent of its orphaned descendants (a subreaper).
    ///
    /// Fails if the first keeper cannot be started. Must be called inside a runtime that lives as
    /// long as the keeper is needed.
    pub async fn start(settings: KeeperSettings) -> Result<Self, KeeperError> {
        let closing = CancellationToken::new();
        let limits = settings
            .delegation
            .as_ref()
            .map(|delegation| delegation.limits().clone())
            .unwrap_or_default();
        let has_cgroups = settings.delegation.is_some();
        let link = supervisor::start(settings, closing.clone()).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                link,
                limits,
                has_cgroups,
                closing,
                next_key: AtomicU64::new(0),
            }),
        })
    }

    /// Stops the keeper, which kills the runs that are left. Returns when the keeper is gone.
    pub async fn stop(self) {
        self.inner.closing.cancel();
        let mut link = self.inner.link.clone();
        while link.changed().await.is_ok() {}
    }

    /// Returns the limits that the keeper's cgroups can enforce; none without cgroups.
    pub fn limits(&self) -> &BTreeSet<LimitKind> {
        &self.inner.limits
    }

    /// Returns true if each run has its own cgroup.
    pub fn has_cgroups(&self) -> bool {
        self.inner.has_cgroups
    }

    /// Returns the process id of the present keeper; `None` while there is none.
    pub fn pid(&self) -> Option<u32> {
        self.inner.link.borrow().as_ref().map(|link| link.pid)
    }

    /// Returns true if a keeper answers, so that a run can start without a wait.
    pub fn is_ready(&self) -> bool {
        self.inner.link.borrow().as_ref().is_some_and(|link| link.is_answering())
    }

    /// Starts the program of `launch`. If no keeper runs, waits for a keeper at most until shortly
    /// before the end of the lease. The report of the returned child says whether the program
    /// started.
    pub async fn spawn(&self, launch: LaunchOrder, output: Arc<dyn OutputSink>) -> Child {
        let key = self.inner.next_key.fetch_add(1, Ordering::Relaxed);
        let mut links = self.inner.link.clone();
        let left = launch.deadline.saturating_sub(launch.margin).since(BootInstant::now());
        let link = match tokio::time::timeout(left, links.wait_for(Option::is_some)).await {
            Ok(Ok(link)) => link.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        let Some(link) = link else {
            return Child::never(RunReport::of(
                ProcessEnd::Refused,
                "not started: the keeper of this node is not running",
            ));
        };
        KeeperLink::start(link, key, launch, output).await
    }
}

/// Returns a path to the program file of this process, for the start of the keeper. The path still
/// works after an update has replaced the program file.
pub fn this_program() -> io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { Ok(own) } else { std::env::current_exe() }
}
