//! One node: starts its loops, applies its configuration, and stops in stages.
//!
//! The first stage is *draining*: the node claims nothing, running jobs go on, and the log names
//! these jobs. When the grace is over, *aborting* begins: every job is stopped. At-least-once runs
//! go back to the due set without counting an attempt. Leases are renewed until Redis has recorded
//! the end of the last run. The presence of the node in Redis ends last. Every wait during a stop
//! has a time limit, even if Redis or the keeper does not answer.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use super::Journal;
use super::dispatch::{nudges, ticker};
use super::execution::lease_keeper;
use super::maintenance::presence::HostFacts;
use super::maintenance::{background_check, janitor, presence, reaper};
use super::node_context::{Keeping, NodeContext, Phase};
use super::notification::{deadline_watch, notice_planter};
use super::planning::file_change::sections_of;
use super::planning::reconciler::{Removal, WantedJob, WantedJobs};
use super::planning::{boot_plan, reconciler, replan, zone_change};
use super::recovery::loss;
use super::status::node_status::Glance;
use super::status::{event_notes, suspend_detector};
use crate::config::{Config, ServingConfig};
use crate::domain::name::names::{Label, NodeName, QueueName};
use crate::domain::queue::lane_serving::Serving;
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::Zone;
use crate::executor::{Executors, StopReason};
use crate::keeper::OutputBounds;
use crate::store::Store;

/// The longest time a stop waits for the ticker to finish a claim under way.
const LAST_CLAIM: Duration = Duration::from_secs(15);
/// The longest time a stop spends on giving back claims whose answers never came.
const LAST_RELEASE: Duration = Duration::from_secs(5);
/// The longest time a stop waits, beyond the kill grace of an aborted run, until Redis has recorded
/// the run's end.
const ABORT_SLACK: Duration = Duration::from_secs(10);
/// The longest time a stop spends on writing the last node events.
const LAST_NOTES: Duration = Duration::from_secs(1);
const LOG_DRAIN_EVERY: Duration = Duration::from_secs(5);
/// The wait before a loop that panicked starts again.
const BEGIN_AGAIN: Duration = Duration::from_secs(1);

/// The settings of a node, which stay the same until the node stops.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// The name of the node.
    pub node: NodeName,
    /// The id of this start of the node. Each start has a new id.
    pub incarnation: String,
    /// Redis' time at the start of the node.
    pub started_at: UnixMillis,
    /// The facts about the host on which the node runs.
    pub host: HostFacts,
    /// The path of the file in which the keeper of this node records that all processes of the
    /// node's jobs are gone.
    pub ended_mark: Option<PathBuf>,
    /// The longest wait between two polls of Redis while runs are due.
    pub tick: Duration,
    /// The time for which a lease lasts unless the node renews it.
    pub lease: Duration,
    /// The time for which runs may go on after a stop of the node was requested.
    pub shutdown_grace: Duration,
    /// The bounds of the output kept of each attempt.
    pub output: OutputBounds,
    /// The queues and labels from flags or the environment, which take precedence over the jobs
    /// file.
    pub told: NodeReport,
    /// The reason why runs have no cgroups of their own, or why their cgroups lack some limits.
    /// `None` if each run has a cgroup with all limits.
    pub no_cgroups: Option<String>,
}

/// The queues and labels that flags or the environment give a node. For a field that is `None`, the
/// node's file decides.
#[derive(Debug, Clone, Default)]
pub struct NodeReport {
    /// The queues the node serves.
    pub queues: Option<BTreeSet<QueueName>>,
    /// The labels the node carries.
    pub labels: Option<BTreeSet<Label>>,
}

impl NodeReport {
    /// Returns the queues and labels the node serves. `file` supplies those that neither flags nor
    /// the environment set.
    pub fn over(&self, file: &Serving) -> Serving {
        Serving {
            queues: self.queues.clone().or_else(|| file.queues.clone()),
            labels: self.labels.clone().unwrap_or_else(|| file.labels.clone()),
        }
    }
}

/// A running node.
pub struct Engine {
    shared: Arc<NodeContext>,
    wish: Arc<WantedJob>,
    /// The token that stops the loops that take on work.
    intake: CancellationToken,
    /// The token that stops the loops that running jobs depend on, such as the renewal of leases.
    upkeep: CancellationToken,
    ticker: JoinHandle<()>,
    tasks: TaskTracker,
}

impl Engine {
    /// Starts the loops of the node, and applies `file` if given. The queue limits of the file are
    /// in force before the first claim.
    pub fn start(
        store: Store,
        executors: Executors,
        journal: Journal,
        settings: EngineSettings,
        host_zone: Zone,
        file: Option<&Config>,
    ) -> Self {
        let shared = Arc::new(NodeContext::new(store, executors, journal, settings));
        shared.slots.set_host(QueueName::of_host(&shared.settings.host.host));
        let wish = Arc::new(WantedJob::default());
        let (intake, upkeep, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        shared.slots.set_serving(shared.settings.told.over(&Serving::default()), None);
        if let Some(config) = file {
            take_config(&shared, &wish, config, Removal::Held);
        }
        let (node, until) = (shared.clone(), intake.clone());
        let ticker = tokio::spawn(go_on("ticker", move || ticker::run(node.clone(), until.clone())));
        // Each step of these loops is one script, done completely or not at all. So a stop need not
        // wait for their rounds.
        let until_stop = Loops { shared: &shared, tasks: &tasks, stop: &intake };
        until_stop.spawn("reaper", reaper::run);
        until_stop.spawn("janitor", janitor::run);
        until_stop.spawn("auditor", background_check::run);
        until_stop.spawn("lookout", deadline_watch::run);
        until_stop.spawn("teller", notice_planter::run);
        until_stop.spawn("replanning", replan::run);
        until_stop.spawn("zone data", zone_change::run);
        until_stop.spawn("watch for losses", loss::run);
        until_stop.spawn("catalog", loss::catalog::run);
        let wishes = wish.clone();
        until_stop.spawn("reboots", move |node| boot_plan::run(node, wishes.clone()));
        let wishes = wish.clone();
        until_stop.spawn("reconciler", move |node| reconciler::run(node, wishes.clone(), host_zone.clone()));
        let until_last = Loops { stop: &upkeep, ..until_stop };
        until_last.spawn("nudges", nudges::run);
        until_last.spawn("lease keeper", lease_keeper::run);
        until_last.spawn("presence", presence::run);
        until_last.spawn("pulse", suspend_detector::run);
        until_last.spawn("notes", event_notes::run);
        tasks.close();
        Self { shared, wish, intake, upkeep, ticker, tasks }
    }

    /// Applies a compiled jobs file: the file's queues count from now on, and its jobs are written
    /// to Redis.
    pub fn configure(&self, config: &Config, removal: Removal) {
        take_config(&self.shared, &self.wish, config, removal);
    }

    /// Loads the zone data of this host anew. Later times are computed from the new data. Planned
    /// runs that the new data puts at another time are moved.
    pub fn take_zone_data(&self) {
        jiff::tz::db().reset();
        self.shared.zones_read.fetch_add(1, Ordering::Release);
        self.shared.zones_now.notify_one();
    }

    /// Records an error of the jobs file. The configuration applied before stays in force.
    pub fn report_config_error(&self, error: String) {
        self.shared.note_file(error);
    }

    /// Returns the view through which the service manager reads the status of this node.
    pub fn glance(&self) -> Glance {
        Glance::new(self.shared.clone(), self.wish.clone())
    }

    /// Returns the longest duration of a stop that begins now. The steps after the end of the loops
    /// are not counted.
    pub fn longest_stop(&self) -> Duration {
        let longest_grace = self.shared.holdings.all().values().map(|held| held.kill_grace).max().unwrap_or_default();
        let stages = [LAST_CLAIM, self.shared.settings.shutdown_grace, longest_grace, ABORT_SLACK, LAST_RELEASE, LAST_NOTES];
        stages.into_iter().fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Stops the node in stages. `urgent` resolves when a second signal asks for an immediate stop.
    pub async fn stop(mut self, urgent: impl Future<Output = ()>) {
        self.shared.enter(Phase::Draining);
        self.shared.notes.stopped();
        self.intake.cancel();
        // A claim under way may still be won, so the runs here are known only when the ticker is
        // done.
        if tokio::time::timeout(LAST_CLAIM, &mut self.ticker).await.is_err() {
            self.ticker.abort();
        }
        self.drain(urgent).await;
        if self.held() > 0 {
            self.abort().await;
        }
        // Claims not given back in this time are left to recovery.
        let _ = tokio::time::timeout(LAST_RELEASE, reaper::release_all_abandoned(&self.shared)).await;
        self.upkeep.cancel();
        self.tasks.wait().await;
        let _ = tokio::time::timeout(LAST_NOTES, event_notes::write(&self.shared, event_notes::Nothing::IsNot)).await;
        let settings = &self.shared.settings;
        if let Err(error) = self.shared.store.leave_node(&settings.node, &settings.incarnation).await {
            warn!("{error}; this node stays listed until other nodes notice that it is gone.");
        }
        self.shared.watch.journal().close().await;
    }

    async fn drain(&self, urgent: impl Future<Output = ()>) {
        let mut urgent = std::pin::pin!(urgent);
        let end = Instant::now() + self.shared.settings.shutdown_grace;
        let mut log_at = Instant::now();
        loop {
            let running = self.held();
            let left = end.saturating_duration_since(Instant::now());
            if running == 0 || left.is_zero() {
                return;
            }
            if Instant::now() >= log_at {
                let mut names: Vec<String> = self.shared.holdings.all().keys().take(10).map(|(run, _)| run.to_string()).collect();
                names.sort();
                info!(running, left_s = left.as_secs(), runs = names.join(","), "This node waits until its runs end.");
                log_at += LOG_DRAIN_EVERY;
            }
            tokio::select! {
                () = &mut urgent => return,
                () = self.shared.poll_now.notified() => {}
                () = tokio::time::sleep(left.min(Duration::from_millis(500))) => {}
            }
        }
    }

    async fn abort(&self) {
        self.shared.enter(Phase::Aborting);
        let running = self.held();
        warn!(running, "This node stops the runs that have not ended.");
        let mut longest_grace = Duration::ZERO;
        for held in self.shared.holdings.all().values() {
            longest_grace = longest_grace.max(held.kill_grace);
            held.stop.send_if_modified(|stop| {
                let is_first = stop.is_none();
                stop.get_or_insert(StopReason::ShutDown);
                is_first
            });
        }
        let end = Instant::now() + longest_grace + ABORT_SLACK;
        while self.held() > 0 && Instant::now() < end {
            tokio::select! {
                () = self.shared.poll_now.notified() => {}
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
        }
        let left = self.held();
        if left > 0 {
            warn!(left, "The ends of some runs could not be recorded. Another node will recover these runs.");
        }
    }

    fn held(&self) -> usize {
        self.shared.holdings.all().len()
    }
}

fn take_config(shared: &NodeContext, wish: &WantedJob, config: &Config, removal: Removal) {
    let queues: BTreeMap<_, _> = config.queues.iter().map(|(name, queue)| (name.clone(), queue.concurrency)).collect();
    let sections = sections_of(config);
    shared.note_file(String::new());
    shared.keep(Keeping { history: config.history.clone(), output: config.output.clone() });
    shared.slots.set_own(queues);
    let ServingConfig { serving, flow } = &config.serving;
    shared.slots.set_serving(shared.settings.told.over(serving), flow.max_running);
    shared.flow.set_limits(*flow);
    shared.beat_now.notify_one();
    wish.set(WantedJobs { jobs: Arc::new(config.jobs.clone()), sections, removal });
    shared.reconcile_now.notify_one();
}

/// The starter of loops that all stop when the same token is cancelled.
struct Loops<'a> {
    shared: &'a Arc<NodeContext>,
    tasks: &'a TaskTracker,
    stop: &'a CancellationToken,
}

impl Loops<'_> {
    /// Starts the loop `run`. Once the token is cancelled, the loop is dropped at its next wait.
    fn spawn<F>(&self, name: &'static str, run: impl Fn(Arc<NodeContext>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (shared, stop) = (self.shared.clone(), self.stop.clone());
        self.tasks.spawn(go_on(name, move || stop.clone().run_until_cancelled_owned(run(shared.clone())).map(drop)));
    }
}

/// Runs a loop to its end, and starts the loop again if it panics. Without the restart, the node
/// would look alive and do nothing.
async fn go_on<F: Future<Output = ()>>(name: &'static str, begin: impl Fn() -> F) {
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        error!(part = name, "A loop of this node panicked and was restarted. Please report the preceding log lines.");
        tokio::time::sleep(BEGIN_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[tokio::test]
    async fn a_loop_that_panics_is_begun_again() {
        let begun = AtomicU32::new(0);
        go_on("test", || async {
            assert!(begun.fetch_add(1, Ordering::Relaxed) > 0, "a fault in this program (this test's own)");
        })
        .await;
        assert_eq!(begun.into_inner(), 2);
    }
}
