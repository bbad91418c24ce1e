//! The engine of a node for one namespace: starts its loops, applies its configuration, and stops in
//! stages.
//!
//! The first stage of a stop is *draining*: the node claims nothing more, and running jobs
//! continue. After the grace time comes *aborting*: all jobs are stopped, and at-least-once runs go
//! back to the due set without a counted attempt. Leases are renewed until Redis has recorded the
//! end of the last run. The record of the node's presence is removed last. Each wait is limited in
//! time, so a stop ends even if Redis or the keeper does not answer.

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
use super::node_share::NodeShare;
use super::planning::wanted_file::Removal;
use super::recovery::journal::Journal;
use super::settings::EngineSettings;
use super::status::node_status::StatusView;
use super::status::note_writer;
use super::traces::LAST_SPANS;
use super::workers::worker_desk::WorkerDesk;
use super::workers::{worker_claim_loop, worker_reports};
use crate::attempts::{Execute, StopReason};
use schedd_core::config::Config;
use schedd_schedule::time::zone::Zone;
use schedd_store::Store;

/// The longest time for which a stop waits until the ticker has finished its last claim.
const LAST_CLAIM: Duration = Duration::from_secs(15);
/// The longest time that a stop uses to give back claims without an answer.
const LAST_RELEASE: Duration = Duration::from_secs(5);
/// The longest time for which a stop waits until Redis has recorded the end of an aborted run. The
/// kill grace of the run is added to this time.
const ABORT_SLACK: Duration = Duration::from_secs(10);
/// The longest time that a stop uses to write the last node events.
const LAST_NOTES: Duration = Duration::from_secs(1);
const LOG_DRAIN_EVERY: Duration = Duration::from_secs(5);

/// The engine of a node for one namespace: the loops that claim and execute its runs.
pub(super) struct Engine {
    parts: NodeParts,
    executors: Arc<dyn Execute>,
    reaper: Arc<Reaper>,
    workers: WorkerDesk,
    /// The token that stops the loops that claim and plan runs.
    intake: CancellationToken,
    /// The token that stops the loops that running jobs depend on, such as the renewal of leases.
    upkeep: CancellationToken,
    ticker: JoinHandle<()>,
    tasks: TaskTracker,
}

impl Engine {
    /// Starts the loops of the node, and applies `file` if given. The queue limits in the file
    /// apply from the first claim.
    pub(super) fn start(
        (store, journal): (Store, Journal),
        executors: Arc<dyn Execute>,
        settings: EngineSettings,
        host_zone: Zone,
        file: Option<&Config>,
        share: NodeShare,
    ) -> Self {
        let parts = NodeParts::new(store, journal, settings, share);
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
        let (worker_claims, workers) = parts.workers(abandoned.clone());
        let reaper = Arc::new(parts.reaper(abandoned));
        // These loops may stop at any moment, because each of their steps is one script in Redis.
        let until_stop = Loops { tasks: &tasks, stop: &intake };
        until_stop.spawn("reaper", reaper.clone(), reaper::run);
        parts.spawn_intake(&until_stop, host_zone);
        let until_end = Loops { tasks: &tasks, stop: &upkeep };
        // At a stop this loop answers the workers that wait, so that they ask another node.
        until_end.spawn("worker claims", worker_claims, worker_claim_loop::run);
        until_end.spawn("worker timeouts", workers.reports().clone(), worker_reports::end_overdue);
        parts.spawn_upkeep(&until_end, executors.clone());
        tasks.close();
        Self { parts, executors, reaper, workers, intake, upkeep, ticker, tasks }
    }

    /// Applies a compiled jobs file: uses its queue settings from now on, and writes its jobs to
    /// Redis.
    pub(super) fn configure(&self, config: &Config, removal: Removal) {
        self.parts.configure(config, removal);
    }

    /// Reads the time zone data of this host again. Planned runs that have another time in the new
    /// data are moved.
    pub(super) fn take_zone_data(&self) {
        jiff::tz::db().reset();
        self.parts.zone_readings.note();
        self.parts.node.wakeups.zone_check.notify_one();
    }

    /// Records an error of the jobs file. The configuration applied before still applies.
    pub(super) fn report_config_error(&self, error: String) {
        self.parts.health.notes.file_refused(&error);
        self.parts.health.problems.set_file(error);
        self.parts.node.wakeups.presence.notify_one();
    }

    /// Records the reason why the HTTP API of this node did not start.
    pub(super) fn report_api_error(&self, error: String) {
        self.parts.health.problems.set_api(error);
        self.parts.node.wakeups.presence.notify_one();
    }

    /// Returns a view of the status of this node, for the service manager (systemd) and the API.
    pub(super) fn status_view(&self) -> StatusView {
        let (node, leases) = (self.parts.node.clone(), self.parts.leases.clone());
        StatusView {
            node,
            leases,
            health: self.parts.health.clone(),
            wanted: self.parts.wanted.clone(),
            limits: self.parts.limits.clone(),
            slots: self.parts.slots.clone(),
            executors: self.executors.clone(),
            shards: Arc::default(),
        }
    }

    /// Returns the desk where workers ask this engine for runs.
    pub(super) fn worker_desk(&self) -> WorkerDesk {
        self.workers.clone()
    }

    /// Returns the longest possible duration of a stop that begins now, up to the end of the loops.
    pub(super) fn longest_stop(&self) -> Duration {
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
            LAST_SPANS,
        ];
        stages.into_iter().fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Stops the node in stages. `urgent` resolves when a second signal requests an immediate stop.
    pub(super) async fn stop(mut self, urgent: impl Future<Output = ()>) {
        self.parts.node.enter(Phase::Draining);
        self.parts.health.notes.stopped();
        self.intake.cancel();
        // The last claim may still succeed, so the runs to drain are known only after the ticker
        // has ended.
        if tokio::time::timeout(LAST_CLAIM, &mut self.ticker).await.is_err() {
            self.ticker.abort();
        }
        self.drain(urgent).await;
        if self.lease_count() > 0 {
            self.abort().await;
        }
        // Claims that are not given back in this time are recovered by other nodes.
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
        self.parts.slots.leave();
        let settings = &self.parts.node.settings;
        if let Err(error) =
            self.parts.node.store.leave_node(&settings.node, &settings.incarnation).await
        {
            warn!(
                "The stop of this node could not be recorded: {error}. The node stays listed until other nodes notice that it is gone."
            );
        }
        self.parts.loss_watch.journal().close().await;
        self.parts.node.traces.stop().await;
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
