//! One node: starts its loops, applies its configuration, and stops in stages.
//!
//! The first stage is *draining*: the node claims nothing, running jobs go on, and the log names
//! these jobs. When the grace is over, *aborting* begins: every job is stopped. At-least-once runs
//! go back to the due set without counting an attempt. Leases are renewed until Redis has recorded
//! the end of the last run. The presence of the node in Redis ends last. Every wait during a stop
//! has a time limit, even if Redis or the keeper does not answer.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use super::dispatch::abandoned_claims::AbandonedClaims;
use super::dispatch::definitions::ZoneReadings;
use super::dispatch::node_limits::NodeLimits;
use super::dispatch::slots::Slots;
use super::dispatch::ticker::Ticker;
use super::dispatch::{nudges, ticker};
use super::execution::lease_keeper;
use super::execution::lease_keeper::LeaseKeeper;
use super::execution::runner::Runner;
use super::execution::running_leases::RunningLeases;
use super::maintenance::background_check::BackgroundCheck;
use super::maintenance::janitor::Janitor;
use super::maintenance::presence::Presence;
use super::maintenance::reaper::Reaper;
use super::maintenance::retained_bounds::{RetainedBounds, Retention};
use super::maintenance::{background_check, janitor, presence, reaper};
use super::node_context::{NodeContext, Phase};
use super::notification::{deadline_watch, notice_planter};
use super::planning::boot_plan::BootPlanner;
use super::planning::file_change::sections_of;
use super::planning::reconciler::{Reconciler, Removal, WantedFile, WantedJobs};
use super::planning::replan::Replanner;
use super::planning::{boot_plan, reconciler, replan, zone_change};
use super::recovery::journal::Journal;
use super::recovery::loss;
use super::recovery::loss::LossRecovery;
use super::recovery::loss::job_catalog;
use super::recovery::loss::job_catalog::JobCatalog;
use super::recovery::loss::loss_watch::LossWatch;
use super::settings::EngineSettings;
use super::status::node_health::NodeHealth;
use super::status::node_status::StatusView;
use super::status::note_writer;
use super::status::note_writer::NoteWriter;
use crate::config::{Config, ServingConfig};
use crate::domain::name::names::QueueName;
use crate::domain::queue::lane_serving::Serving;
use crate::domain::time::zone::Zone;
use crate::executor::{Execute, StopReason};
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

/// The parts of a node that several loops share.
struct Parts {
    node: Arc<NodeContext>,
    slots: Slots,
    limits: Arc<NodeLimits>,
    leases: Arc<RunningLeases>,
    retention: Arc<Retention>,
    health: Arc<NodeHealth>,
    loss_watch: Arc<LossWatch>,
    zone_readings: Arc<ZoneReadings>,
    wanted: Arc<WantedFile>,
}

/// A running node.
pub struct Engine {
    parts: Parts,
    reaper: Arc<Reaper>,
    /// The token that stops the loops that take on work.
    intake: CancellationToken,
    /// The token that stops the loops that running jobs depend on, such as the renewal of leases.
    upkeep: CancellationToken,
    ticker: JoinHandle<()>,
    tasks: TaskTracker,
}

impl Parts {
    fn new(store: Store, journal: Journal, settings: EngineSettings) -> Self {
        let health = Arc::new(NodeHealth::new(settings.started_at, settings.lease));
        let loss_watch = Arc::new(LossWatch::new(journal, store.address()));
        let node = Arc::new(NodeContext::new(store, settings));
        let slots = Slots::new(node.wakeups.ticker.clone());
        slots.set_host(QueueName::of_host(&node.settings.host.host));
        slots.set_serving(node.settings.serving.over(&Serving::default()), None);
        Self {
            node,
            slots,
            limits: Arc::default(),
            leases: Arc::default(),
            retention: Arc::default(),
            health,
            loss_watch,
            zone_readings: Arc::default(),
            wanted: Arc::default(),
        }
    }

    fn configure(&self, config: &Config, removal: Removal) {
        let queues: BTreeMap<_, _> = config.queues.iter().map(|(name, queue)| (name.clone(), queue.concurrency)).collect();
        let sections = sections_of(config);
        self.health.problems.set_file(String::new());
        self.retention.set_bounds(RetainedBounds { history: config.history.clone(), output: config.output.clone() });
        self.slots.set_own(queues);
        let ServingConfig { serving, flow } = &config.serving;
        self.slots.set_serving(self.node.settings.serving.over(serving), flow.max_running);
        self.limits.set_limits(*flow);
        self.node.wakeups.presence.notify_one();
        self.wanted.set(WantedJobs { jobs: Arc::new(config.jobs.clone()), sections, removal });
        self.node.wakeups.reconciler.notify_one();
    }

    fn reaper(&self, abandoned: Arc<AbandonedClaims>) -> Reaper {
        Reaper {
            node: self.node.clone(),
            leases: self.leases.clone(),
            abandoned,
            loss_watch: self.loss_watch.clone(),
            health: self.health.clone(),
        }
    }

    fn ticker(&self, executors: Arc<dyn Execute>, abandoned: Arc<AbandonedClaims>) -> Ticker {
        let runner = Runner {
            node: self.node.clone(),
            slots: self.slots.clone(),
            executors,
            leases: self.leases.clone(),
            loss_watch: self.loss_watch.clone(),
            retention: self.retention.clone(),
        };
        Ticker {
            node: self.node.clone(),
            limits: self.limits.clone(),
            health: self.health.clone(),
            abandoned,
            zone_readings: self.zone_readings.clone(),
            runner: Arc::new(runner),
        }
    }

    fn presence(&self, executors: Arc<dyn Execute>) -> Presence {
        Presence {
            node: self.node.clone(),
            slots: self.slots.clone(),
            limits: self.limits.clone(),
            leases: self.leases.clone(),
            executors,
            health: self.health.clone(),
        }
    }

    /// Starts the loops that take on work.
    fn spawn_intake(&self, loops: &Loops, host_zone: Zone) {
        let (node, health) = (|| self.node.clone(), || self.health.clone());
        let janitor = Janitor { node: node(), retention: self.retention.clone(), health: health() };
        loops.spawn("janitor", Arc::new(janitor), janitor::run);
        loops.spawn("consistency check", Arc::new(BackgroundCheck { node: node(), health: health() }), background_check::run);
        loops.spawn("deadline watch", node(), deadline_watch::run);
        loops.spawn("notice planter", node(), notice_planter::run);
        loops.spawn("replanner", Arc::new(Replanner { node: node(), health: health() }), replan::run);
        loops.spawn("zone check", node(), zone_change::run);
        let loss_watch = self.loss_watch.clone();
        let recovery = LossRecovery { node: node(), loss_watch: loss_watch.clone(), retention: self.retention.clone() };
        loops.spawn("loss recovery", Arc::new(recovery), loss::run);
        loops.spawn("job catalog", Arc::new(JobCatalog { node: node(), loss_watch }), job_catalog::run);
        let planner = BootPlanner { node: node(), slots: self.slots.clone(), wanted: self.wanted.clone() };
        loops.spawn("boot planner", Arc::new(planner), boot_plan::run);
        let reconciler = Reconciler { node: node(), health: health(), wanted: self.wanted.clone(), host_zone };
        loops.spawn("reconciler", Arc::new(reconciler), reconciler::run);
    }

    /// Starts the loops that running jobs depend on.
    fn spawn_upkeep(&self, loops: &Loops, executors: Arc<dyn Execute>) {
        let (node, health) = (|| self.node.clone(), || self.health.clone());
        loops.spawn("nudges", node(), nudges::run);
        let keeper = LeaseKeeper { node: node(), leases: self.leases.clone(), health: health() };
        loops.spawn("lease keeper", Arc::new(keeper), lease_keeper::run);
        loops.spawn("presence", Arc::new(self.presence(executors)), presence::run);
        loops.spawn("suspend detector", health(), |health| async move { health.suspends.run().await });
        let writer = NoteWriter { node: node(), slots: self.slots.clone(), health: health() };
        loops.spawn("event notes", Arc::new(writer), note_writer::run);
    }
}

impl Engine {
    /// Starts the loops of the node, and applies `file` if given. The queue limits of the file are
    /// in force before the first claim.
    pub fn start(
        store: Store,
        executors: Arc<dyn Execute>,
        journal: Journal,
        settings: EngineSettings,
        host_zone: Zone,
        file: Option<&Config>,
    ) -> Self {
        let parts = Parts::new(store, journal, settings);
        if let Some(config) = file {
            parts.configure(config, Removal::Held);
        }
        let (intake, upkeep, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let abandoned = Arc::<AbandonedClaims>::default();
        let (ticker, until) = (Arc::new(parts.ticker(executors.clone(), abandoned.clone())), intake.clone());
        let ticker = tokio::spawn(go_on("ticker", move || ticker::run(ticker.clone(), until.clone())));
        let reaper = Arc::new(parts.reaper(abandoned));
        // Each step of these loops is one script, done completely or not at all. So a stop need not
        // wait for their rounds.
        let until_stop = Loops { tasks: &tasks, stop: &intake };
        until_stop.spawn("reaper", reaper.clone(), reaper::run);
        parts.spawn_intake(&until_stop, host_zone);
        parts.spawn_upkeep(&Loops { tasks: &tasks, stop: &upkeep }, executors);
        tasks.close();
        Self { parts, reaper, intake, upkeep, ticker, tasks }
    }

    /// Applies a compiled jobs file: the file's queues count from now on, and its jobs are written
    /// to Redis.
    pub fn configure(&self, config: &Config, removal: Removal) {
        self.parts.configure(config, removal);
    }

    /// Loads the zone data of this host anew. Later times are computed from the new data. Planned
    /// runs that the new data puts at another time are moved.
    pub fn take_zone_data(&self) {
        jiff::tz::db().reset();
        self.parts.zone_readings.note();
        self.parts.node.wakeups.zone_check.notify_one();
    }

    /// Records an error of the jobs file. The configuration applied before stays in force.
    pub fn report_config_error(&self, error: String) {
        self.parts.health.notes.file_refused(&error);
        self.parts.health.problems.set_file(error);
        self.parts.node.wakeups.presence.notify_one();
    }

    /// Returns the view through which the service manager reads the status of this node.
    pub fn status_view(&self) -> StatusView {
        let (node, leases) = (self.parts.node.clone(), self.parts.leases.clone());
        StatusView { node, leases, health: self.parts.health.clone(), wanted: self.parts.wanted.clone() }
    }

    /// Returns the longest duration of a stop that begins now. The steps after the end of the loops
    /// are not counted.
    pub fn longest_stop(&self) -> Duration {
        let longest_grace = self.parts.leases.all().values().map(|held| held.kill_grace).max().unwrap_or_default();
        let stages = [LAST_CLAIM, self.parts.node.settings.shutdown_grace, longest_grace, ABORT_SLACK, LAST_RELEASE, LAST_NOTES];
        stages.into_iter().fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Stops the node in stages. `urgent` resolves when a second signal asks for an immediate stop.
    pub async fn stop(mut self, urgent: impl Future<Output = ()>) {
        self.parts.node.enter(Phase::Draining);
        self.parts.health.notes.stopped();
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
        let _ = tokio::time::timeout(LAST_RELEASE, reaper::release_all_abandoned(&self.reaper)).await;
        self.upkeep.cancel();
        self.tasks.wait().await;
        let _ = tokio::time::timeout(
            LAST_NOTES,
            note_writer::write(&self.parts.node, &self.parts.health.notes, note_writer::Nothing::IsNot),
        )
        .await;
        let settings = &self.parts.node.settings;
        if let Err(error) = self.parts.node.store.leave_node(&settings.node, &settings.incarnation).await {
            warn!("{error}; this node stays on the list until it is seen to be gone.");
        }
        self.parts.loss_watch.journal().close().await;
    }

    async fn drain(&self, urgent: impl Future<Output = ()>) {
        let mut urgent = std::pin::pin!(urgent);
        let end = Instant::now() + self.parts.node.settings.shutdown_grace;
        let mut log_at = Instant::now();
        loop {
            let running = self.held();
            let left = end.saturating_duration_since(Instant::now());
            if running == 0 || left.is_zero() {
                return;
            }
            if Instant::now() >= log_at {
                let mut names: Vec<String> = self.parts.leases.all().keys().take(10).map(|(run, _)| run.to_string()).collect();
                names.sort();
                info!(running, left_s = left.as_secs(), runs = names.join(","), "Waiting for runs to end.");
                log_at += LOG_DRAIN_EVERY;
            }
            tokio::select! {
                () = &mut urgent => return,
                () = self.parts.node.wakeups.ticker.notified() => {}
                () = tokio::time::sleep(left.min(Duration::from_millis(500))) => {}
            }
        }
    }

    async fn abort(&self) {
        self.parts.node.enter(Phase::Aborting);
        let running = self.held();
        warn!(running, "Stopping the runs that are left.");
        let mut longest_grace = Duration::ZERO;
        for held in self.parts.leases.all().values() {
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
                () = self.parts.node.wakeups.ticker.notified() => {}
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
        }
        let left = self.held();
        if left > 0 {
            warn!(left, "Runs whose end could not be recorded are left to recovery.");
        }
    }

    fn held(&self) -> usize {
        self.parts.leases.all().len()
    }
}

/// The starter of loops that all stop when the same token is cancelled.
struct Loops<'a> {
    tasks: &'a TaskTracker,
    stop: &'a CancellationToken,
}

impl Loops<'_> {
    /// Starts the loop `run` of `part`. Once the token is cancelled, the loop is dropped at its next
    /// wait.
    fn spawn<T, F>(&self, name: &'static str, part: Arc<T>, run: impl Fn(Arc<T>) -> F + Send + Sync + 'static)
    where
        T: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stop.clone();
        self.tasks.spawn(go_on(name, move || stop.clone().run_until_cancelled_owned(run(part.clone())).map(drop)));
    }
}

/// Runs a loop to its end, and starts the loop again if it panics. Without the restart, the node
/// would look alive and do nothing.
async fn go_on<F: Future<Output = ()>>(name: &'static str, begin: impl Fn() -> F) {
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        error!(part = name, "A part of this node failed unexpectedly and is restarted; please report the preceding log lines.");
        tokio::time::sleep(BEGIN_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

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
