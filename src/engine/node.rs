//! One node: starts its loops, applies its configuration, and stops in stages.
//!
//! The first stage is *draining*: the node claims nothing, running jobs go on, and the log names
//! these jobs. When the grace is over, *aborting* begins: every job is stopped. At-least-once runs
//! go back to the due set without counting an attempt. Leases are renewed until Redis has recorded
//! the end of the last run. The presence of the node in Redis ends last. Every wait during a stop
//! has a time limit, even if Redis or the keeper does not answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::dispatch::abandoned_claims::AbandonedClaims;
use super::dispatch::ticker;
use super::loops::{Loops, go_on};
use super::maintenance::reaper;
use super::maintenance::reaper::Reaper;
use super::node_context::Phase;
use super::node_parts::NodeParts;
use super::planning::reconciler::Removal;
use super::recovery::journal::Journal;
use super::settings::EngineSettings;
use super::status::node_status::StatusView;
use super::status::note_writer;
use crate::config::Config;
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

/// A running node.
pub struct Engine {
    parts: NodeParts,
    reaper: Arc<Reaper>,
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
        executors: Arc<dyn Execute>,
        journal: Journal,
        settings: EngineSettings,
        host_zone: Zone,
        file: Option<&Config>,
    ) -> Self {
        let parts = NodeParts::new(store, journal, settings);
        if let Some(config) = file {
            parts.configure(config, Removal::Refused);
        }
        let (intake, upkeep, tasks) =
            (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let abandoned = Arc::<AbandonedClaims>::default();
        let (ticker, until) =
            (Arc::new(parts.ticker(executors.clone(), abandoned.clone())), intake.clone());
        let ticker =
            tokio::spawn(go_on("ticker", move || ticker::run(ticker.clone(), until.clone())));
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
        StatusView {
            node,
            leases,
            health: self.parts.health.clone(),
            wanted: self.parts.wanted.clone(),
        }
    }

    /// Returns the longest duration of a stop that begins now. The steps after the end of the loops
    /// are not counted.
    pub fn longest_stop(&self) -> Duration {
        let longest_grace = self
            .parts
            .leases
            .all()
            .values()
            .map(|state| state.kill_grace)
            .max()
            .unwrap_or_default();
        let stages = [
            LAST_CLAIM,
            self.parts.node.settings.shutdown_grace,
            longest_grace,
            ABORT_SLACK,
            LAST_RELEASE,
            LAST_NOTES,
        ];
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
        if self.lease_count() > 0 {
            self.abort().await;
        }
        // Claims not given back in this time are left to recovery.
        let _ =
            tokio::time::timeout(LAST_RELEASE, reaper::release_all_abandoned(&self.reaper)).await;
        self.upkeep.cancel();
        self.tasks.wait().await;
        let _ = tokio::time::timeout(
            LAST_NOTES,
            note_writer::write(
                &self.parts.node,
                &self.parts.health.notes,
                note_writer::Nothing::IsNot,
            ),
        )
        .await;
        let settings = &self.parts.node.settings;
        if let Err(error) =
            self.parts.node.store.leave_node(&settings.node, &settings.incarnation).await
        {
            warn!("{error}; this node stays listed until other nodes notice that it is gone.");
        }
        self.parts.loss_watch.journal().close().await;
    }

    async fn drain(&self, urgent: impl Future<Output = ()>) {
        let mut urgent = std::pin::pin!(urgent);
        let end = Instant::now() + self.parts.node.settings.shutdown_grace;
        let mut log_at = Instant::now();
        loop {
            let running = self.lease_count();
            let left = end.saturating_duration_since(Instant::now());
            if running == 0 || left.is_zero() {
                return;
            }
            if Instant::now() >= log_at {
                let mut names: Vec<String> = self
                    .parts
                    .leases
                    .all()
                    .keys()
                    .take(10)
                    .map(|(run, _)| run.to_string())
                    .collect();
                names.sort();
                info!(
                    running,
                    left_s = left.as_secs(),
                    runs = names.join(","),
                    "This node waits until its runs end."
                );
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
        let running = self.lease_count();
        warn!(running, "This node stops the runs that have not ended.");
        let mut longest_grace = Duration::ZERO;
        for state in self.parts.leases.all().values() {
            longest_grace = longest_grace.max(state.kill_grace);
            state.stop.send_if_modified(|stop| {
                let is_first = stop.is_none();
                stop.get_or_insert(StopReason::ShutDown);
                is_first
            });
        }
        let end = Instant::now() + longest_grace + ABORT_SLACK;
        while self.lease_count() > 0 && Instant::now() < end {
            tokio::select! {
                () = self.parts.node.wakeups.ticker.notified() => {}
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
        }
        let left = self.lease_count();
        if left > 0 {
            warn!(
                left,
                "The ends of some runs could not be recorded. Another node will recover these runs."
            );
        }
    }

    fn lease_count(&self) -> usize {
        self.parts.leases.all().len()
    }
}
