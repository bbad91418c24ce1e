//! The daemon's side of the connection with its keeper, and the handles on the keeper's runs.
//!
//! Invariant: every [`Child`] ends, by the keeper's report or because the keeper is gone and its
//! runs were killed. A child that is dropped before its end is killed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::keeper_messages::{KeeperNews, KeeperOrder, Key, LaunchOrder, ProcessEnd, RunReport};
use super::wire;
use crate::limits::delegation::Delegation;
use crate::process::process_tree::Identity;
use schedd_core::domain::run::excerpt::{OutputBounds, OutputSink};
use schedd_core::host::boot_clock::BootInstant;

/// The number of checks in a row without a message from the keeper after which the keeper counts as
/// not ready. Such a keeper may hang, so the node claims no run for it.
const DOUBTFUL_LOOKS: u32 = 3;

/// The settings of a keeper.
#[derive(Debug, Clone)]
pub struct KeeperSettings {
    /// The path of the program `schedd`, which is started as the keeper.
    pub program: PathBuf,
    /// The file for the end mark, which the keeper writes when all processes it started are dead.
    /// `None` means that the keeper writes no mark.
    pub ended_file: Option<PathBuf>,
    /// The name of the node, which the end mark contains.
    pub node: String,
    /// The incarnation of the node, which the end mark contains.
    pub incarnation: String,
    /// The length of the node's leases, which bounds the time for which a keeper may be silent.
    pub lease: Duration,
    /// The number of bytes of a job's output that are kept while the daemon is slow.
    pub output: OutputBounds,
    /// The cgroup in which each run gets its own cgroup. `None` if the service manager delegated no
    /// cgroup.
    pub delegation: Option<Arc<Delegation>>,
    /// The soft limit of open files of the keeper and its jobs, because the daemon may have a higher
    /// limit. `None` keeps the limit of the daemon.
    pub open_files: Option<u64>,
}

/// The reason why a node has no keeper.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The keeper cannot be started.
    #[error("the keeper {} cannot be started: {source}", .program.display())]
    Start {
        /// The path of the program that was tried.
        program: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// A connection of the daemon with one keeper.
#[derive(Debug)]
pub(crate) struct KeeperLink {
    pub(crate) pid: u32,
    orders: mpsc::Sender<Vec<u8>>,
    /// True if the keeper sent anything since the last check.
    is_heard: AtomicBool,
    silent_looks: AtomicU32,
    /// The runs whose end the keeper has not reported; `None` once the keeper is gone.
    open_processes: Mutex<Option<HashMap<Key, OpenProcess>>>,
}

/// The state that the daemon keeps about a run in the keeper, until the keeper reports the end of
/// the run.
struct OpenProcess {
    identity: Identity,
    /// The end of the run's lease, by which the run must be dead unless the lease is renewed.
    deadline: BootInstant,
    output: Arc<dyn OutputSink>,
    ended: oneshot::Sender<RunReport>,
}

impl std::fmt::Debug for OpenProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.identity.fmt(f)
    }
}

impl KeeperLink {
    /// Creates a link to the keeper `pid`. The messages to the keeper go into the queue `orders`.
    pub(crate) fn new(pid: u32, orders: mpsc::Sender<Vec<u8>>) -> Self {
        Self {
            pid,
            orders,
            is_heard: AtomicBool::new(false),
            silent_looks: AtomicU32::new(0),
            open_processes: Mutex::new(Some(HashMap::new())),
        }
    }

    /// Starts the run `key` in the keeper. The report of the returned child says whether the
    /// program started.
    pub(crate) async fn start(
        link: Arc<Self>,
        key: Key,
        launch: LaunchOrder,
        output: Arc<dyn OutputSink>,
    ) -> Child {
        let identity = Identity { run: launch.run.clone(), fence: launch.fence, leader: None };
        let deadline = launch.deadline;
        let frame = match wire::order_frame(&KeeperOrder::Start { key, launch: Box::new(launch) }) {
            Ok(frame) => frame,
            Err(error) => {
                return Child::never(RunReport::of(
                    ProcessEnd::CannotStart,
                    format!("cannot start: {error}"),
                ));
            }
        };
        let (ended, report) = oneshot::channel();
        link.admit(key, OpenProcess { identity, deadline, output, ended });
        // If the keeper is gone, the link reports this run as ended, like all other runs of the
        // keeper.
        let _ = link.orders.send(frame).await;
        Child { state: State::Living { key, link, report } }
    }

    fn open_processes(&self) -> MutexGuard<'_, Option<HashMap<Key, OpenProcess>>> {
        self.open_processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, key: Key, open_process: OpenProcess) {
        // If the keeper is gone, the list is `None` and this run is not added. The wait for its end
        // is then over at once.
        if let Some(open_processes) = self.open_processes().as_mut() {
            open_processes.insert(key, open_process);
        }
    }

    /// Asks the keeper for a sign of life. The queue to a keeper that hangs may be full. In this
    /// case the question is dropped.
    pub(crate) fn ping(&self) {
        if let Ok(frame) = wire::order_frame(&KeeperOrder::Ping) {
            let _ = self.orders.try_send(frame);
        }
    }

    /// Stores the number of checks in a row in which the keeper had sent no message.
    pub(crate) fn note_silence(&self, looks: u32) {
        self.silent_looks.store(looks, Ordering::Relaxed);
    }

    /// Returns true unless the keeper was silent for so long that it may hang.
    pub(crate) fn is_answering(&self) -> bool {
        self.silent_looks.load(Ordering::Relaxed) < DOUBTFUL_LOOKS
    }

    /// Returns true if the keeper sent anything since the last call.
    pub(crate) fn was_heard(&self) -> bool {
        self.is_heard.swap(false, Ordering::Relaxed)
    }

    /// Returns the earliest end of a lease among the keeper's runs, by which the keeper must have
    /// killed that run. Returns `None` if the keeper has no run.
    pub(crate) fn first_deadline(&self) -> Option<BootInstant> {
        self.open_processes()
            .iter()
            .flat_map(HashMap::values)
            .map(|open_process| open_process.deadline)
            .min()
    }

    fn note_deadline(&self, key: Key, deadline: BootInstant) {
        if let Some(open_process) =
            self.open_processes().as_mut().and_then(|open_processes| open_processes.get_mut(&key))
        {
            open_process.deadline = open_process.deadline.max(deadline);
        }
    }

    /// Passes a message of the keeper to the run that the message names.
    pub(crate) fn hear(&self, news: KeeperNews) {
        self.is_heard.store(true, Ordering::Relaxed);
        let mut open_processes = self.open_processes();
        let Some(open_processes) = open_processes.as_mut() else { return };
        match news {
            KeeperNews::Started(key, pid) => {
                if let Some(open_process) = open_processes.get_mut(&key) {
                    open_process.identity.leader = Some(pid);
                }
            }
            KeeperNews::Output(key, stream, bytes) => {
                if let Some(open_process) = open_processes.get(&key) {
                    open_process.output.append(stream, &bytes);
                }
            }
            KeeperNews::Dropped(key, count) => {
                if let Some(open_process) = open_processes.get(&key) {
                    open_process.output.add_dropped(count);
                }
            }
            KeeperNews::Ended(key, report) => {
                if let Some(open_process) = open_processes.remove(&key) {
                    let _ = open_process.ended.send(report);
                }
            }
            KeeperNews::Pong => {}
        }
    }

    /// Returns the identities of the runs whose end the keeper did not report.
    pub(crate) fn identities(&self) -> Vec<Identity> {
        self.open_processes()
            .iter()
            .flat_map(HashMap::values)
            .map(|open_process| open_process.identity.clone())
            .collect()
    }

    /// Reports to all remaining runs that the keeper died and that the runs ended with `end`. The
    /// link accepts no more runs.
    pub(crate) fn close(&self, end: ProcessEnd) {
        for open_process in self.open_processes().take().into_iter().flat_map(HashMap::into_values)
        {
            let _ = open_process.ended.send(keeper_died(end));
        }
    }
}

fn keeper_died(end: ProcessEnd) -> RunReport {
    RunReport::of(end, "the keeper died")
}

/// The daemon's handle on a run in the keeper.
#[derive(Debug)]
pub struct Child {
    state: State,
}

#[derive(Debug)]
enum State {
    Living { key: Key, link: Arc<KeeperLink>, report: oneshot::Receiver<RunReport> },
    Over(RunReport),
}

impl Child {
    /// Returns a handle on a run that was never started and ends with `report`.
    pub(crate) fn never(report: RunReport) -> Self {
        Self { state: State::Over(report) }
    }

    /// Extends the lease of the run to `deadline`. If the queue to a slow keeper is full, the
    /// message is dropped. The next renewal then extends the lease.
    pub fn extend(&self, deadline: BootInstant) {
        if let State::Living { key, link, .. } = &self.state {
            link.note_deadline(*key, deadline);
        }
        self.try_send(|key| KeeperOrder::Extend { key, deadline });
    }

    /// Stops the run: SIGTERM, and SIGKILL after the grace of the run.
    pub async fn stop(&self) {
        self.send(|key| KeeperOrder::Stop { key }).await;
    }

    /// Kills the run at once, because its lease was lost and another node may have it.
    pub async fn abandon(&self) {
        self.send(|key| KeeperOrder::Abandon { key }).await;
    }

    /// Waits for the end of the run. The caller may drop the future and call again.
    pub async fn ended(&mut self) -> RunReport {
        let report = match &mut self.state {
            State::Living { report, .. } => {
                report.await.unwrap_or_else(|_| keeper_died(ProcessEnd::MaybeAlive))
            }
            State::Over(report) => return report.clone(),
        };
        self.state = State::Over(report.clone());
        report
    }

    async fn send(&self, order: impl Fn(Key) -> KeeperOrder) {
        if let State::Living { key, link, .. } = &self.state
            && let Ok(frame) = wire::order_frame(&order(*key))
        {
            let _ = link.orders.send(frame).await;
        }
    }

    fn try_send(&self, order: impl Fn(Key) -> KeeperOrder) {
        if let State::Living { key, link, .. } = &self.state
            && let Ok(frame) = wire::order_frame(&order(*key))
        {
            let _ = link.orders.try_send(frame);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // If this order is lost, the lease ends the run, because nothing renews it now.
        self.try_send(|key| KeeperOrder::Abandon { key });
    }
}
