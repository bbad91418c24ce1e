//! One node: its loops started, its configuration changed, and its stop in stages.
//!
//! Stop: *draining* (no new claims, what runs goes on, who still runs is logged) until the grace is over, then *aborting*
//! (everything is stopped; at-least-once runs go back without counting an attempt). Leases are renewed until the last run is
//! told to Redis; presence goes last. Every wait of a stop has an end, whatever became of Redis and the keeper.

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

use super::applying::sections_of;
use super::presence::HostFacts;
use super::reconciler::{Removal, Wanted, Wish};
use super::shared::{Keeping, Phase, Shared};
use super::standing::Glance;
use super::{
    Journal, auditor, janitor, lease_keeper, lookout, loss, notes, nudges, presence, pulse, reaper, rebooting, reconciler,
    replanning, rezoning, teller, ticker,
};
use crate::config::{Config, ServingConfig};
use crate::domain::ids::{Label, NodeName, QueueName};
use crate::domain::serving::Serving;
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;
use crate::executor::{Executors, StopReason};
use crate::keeper::OutputBounds;
use crate::store::Store;

/// How long the ticker may take to bring a claim under way to its end.
const LAST_CLAIM: Duration = Duration::from_secs(15);
/// How long it may take to give back what claims won whose answers never came.
const LAST_RELEASE: Duration = Duration::from_secs(5);
/// How long an aborted run may take beyond its kill grace to be gone and told.
const ABORT_SLACK: Duration = Duration::from_secs(10);
/// How long writing down what befell it may take it.
const LAST_NOTES: Duration = Duration::from_secs(1);
const LOG_DRAIN_EVERY: Duration = Duration::from_secs(5);
/// The wait before a loop that panicked is begun again.
const BEGIN_AGAIN: Duration = Duration::from_secs(1);

/// What a node goes by; fixed for its life.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Its name.
    pub node: NodeName,
    /// Fresh at each start.
    pub incarnation: String,
    /// Redis' time when it started.
    pub started_at: UnixMillis,
    /// Its host.
    pub host: HostFacts,
    /// Where the keeper of a node of this name leaves word that all of its jobs are gone.
    pub ended_mark: Option<PathBuf>,
    /// The longest wait while runs are ripe.
    pub tick: Duration,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How long runs may go on once a stop was asked for.
    pub shutdown_grace: Duration,
    /// How much of what an attempt prints is kept.
    pub output: OutputBounds,
    /// What it was told to serve beside its file, which this beats.
    pub told: Told,
    /// Why its runs have no cgroups of their own, or these not all limits; none if they have.
    pub no_cgroups: Option<String>,
}

/// What a node was told to serve by flags or the environment; none = what its file says.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The queues it serves.
    pub queues: Option<BTreeSet<QueueName>>,
    /// The labels it carries.
    pub labels: Option<BTreeSet<Label>>,
}

impl Told {
    /// What a node serves that was told this and whose file says `file`.
    pub fn over(&self, file: &Serving) -> Serving {
        Serving {
            queues: self.queues.clone().or_else(|| file.queues.clone()),
            labels: self.labels.clone().unwrap_or_else(|| file.labels.clone()),
        }
    }
}

/// A running node.
pub struct Engine {
    shared: Arc<Shared>,
    wish: Arc<Wish>,
    /// Ends what takes on work.
    intake: CancellationToken,
    /// Ends what keeps running work alive.
    upkeep: CancellationToken,
    ticker: JoinHandle<()>,
    tasks: TaskTracker,
}

impl Engine {
    /// Starts the loops, with what the file says if there is one: its queues' concurrency counts before anything is claimed.
    pub fn start(
        store: Store,
        executors: Executors,
        journal: Journal,
        settings: EngineSettings,
        host_zone: Zone,
        file: Option<&Config>,
    ) -> Self {
        let shared = Arc::new(Shared::new(store, executors, journal, settings));
        shared.slots.set_host(QueueName::of_host(&shared.settings.host.host));
        let wish = Arc::new(Wish::default());
        let (intake, upkeep, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        shared.slots.set_serving(shared.settings.told.over(&Serving::default()), None);
        if let Some(config) = file {
            take_config(&shared, &wish, config, Removal::Held);
        }
        let (node, until) = (shared.clone(), intake.clone());
        let ticker = tokio::spawn(go_on("ticker", move || ticker::run(node.clone(), until.clone())));
        // One script does each change of these loops whole or not at all, so a stop need not wait for their rounds.
        let until_stop = Loops { shared: &shared, tasks: &tasks, stop: &intake };
        until_stop.spawn("reaper", reaper::run);
        until_stop.spawn("janitor", janitor::run);
        until_stop.spawn("auditor", auditor::run);
        until_stop.spawn("lookout", lookout::run);
        until_stop.spawn("teller", teller::run);
        until_stop.spawn("replanning", replanning::run);
        until_stop.spawn("zone data", rezoning::run);
        until_stop.spawn("watch for losses", loss::run);
        until_stop.spawn("catalog", loss::catalog::run);
        let wishes = wish.clone();
        until_stop.spawn("reboots", move |node| rebooting::run(node, wishes.clone()));
        let wishes = wish.clone();
        until_stop.spawn("reconciler", move |node| reconciler::run(node, wishes.clone(), host_zone.clone()));
        let until_last = Loops { stop: &upkeep, ..until_stop };
        until_last.spawn("nudges", nudges::run);
        until_last.spawn("lease keeper", lease_keeper::run);
        until_last.spawn("presence", presence::run);
        until_last.spawn("pulse", pulse::run);
        until_last.spawn("notes", notes::run);
        tasks.close();
        Self { shared, wish, intake, upkeep, ticker, tasks }
    }

    /// Takes a compiled file: its queues count from now on, its jobs are pushed.
    pub fn configure(&self, config: &Config, removal: Removal) {
        take_config(&self.shared, &self.wish, config, removal);
    }

    /// Takes the zone data as it is on this host now: times are computed from it, and planned runs it has moved are moved.
    pub fn take_zone_data(&self) {
        jiff::tz::db().reset();
        self.shared.zones_read.fetch_add(1, Ordering::Release);
        self.shared.zones_now.notify_one();
    }

    /// Says what is wrong with the file; what was taken before stays.
    pub fn report_config_error(&self, error: String) {
        self.shared.note_file(error);
    }

    /// What tells others how this node stands.
    pub fn glance(&self) -> Glance {
        Glance::new(self.shared.clone(), self.wish.clone())
    }

    /// How long a stop that begins now takes at the most, what comes after the loops left out.
    pub fn longest_stop(&self) -> Duration {
        let longest_grace = self.shared.holdings.all().values().map(|held| held.kill_grace).max().unwrap_or_default();
        let stages = [LAST_CLAIM, self.shared.settings.shutdown_grace, longest_grace, ABORT_SLACK, LAST_RELEASE, LAST_NOTES];
        stages.into_iter().fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Stops in stages. `urgent` resolves when a second signal asks to stop at once.
    pub async fn stop(mut self, urgent: impl Future<Output = ()>) {
        self.shared.enter(Phase::Draining);
        self.shared.notes.stopped();
        self.intake.cancel();
        // A claim under way may still be won: what runs here is known only when the ticker is done.
        if tokio::time::timeout(LAST_CLAIM, &mut self.ticker).await.is_err() {
            self.ticker.abort();
        }
        self.drain(urgent).await;
        if self.held() > 0 {
            self.abort().await;
        }
        // What cannot be given back in this time is left to recovery.
        let _ = tokio::time::timeout(LAST_RELEASE, reaper::release_all_abandoned(&self.shared)).await;
        self.upkeep.cancel();
        self.tasks.wait().await;
        let _ = tokio::time::timeout(LAST_NOTES, notes::write(&self.shared, notes::Nothing::IsNot)).await;
        let settings = &self.shared.settings;
        if let Err(error) = self.shared.store.leave_node(&settings.node, &settings.incarnation).await {
            warn!("{error}; this node stays on the list until it is seen to be gone.");
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
                info!(running, left_s = left.as_secs(), runs = names.join(","), "Waiting for runs to end.");
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
        warn!(running, "Stopping the runs that are left.");
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
            warn!(left, "Runs whose end could not be told are left to recovery.");
        }
    }

    fn held(&self) -> usize {
        self.shared.holdings.all().len()
    }
}

fn take_config(shared: &Shared, wish: &Wish, config: &Config, removal: Removal) {
    let queues: BTreeMap<_, _> = config.queues.iter().map(|(name, queue)| (name.clone(), queue.concurrency)).collect();
    let sections = sections_of(config);
    shared.note_file(String::new());
    shared.keep(Keeping { history: config.history.clone(), output: config.output.clone() });
    shared.slots.set_own(queues);
    let ServingConfig { serving, flow } = &config.serving;
    shared.slots.set_serving(shared.settings.told.over(serving), flow.max_running);
    shared.flow.set_limits(*flow);
    shared.beat_now.notify_one();
    wish.set(Wanted { jobs: Arc::new(config.jobs.clone()), sections, removal });
    shared.reconcile_now.notify_one();
}

/// Starts the loops of a node that end with one token.
struct Loops<'a> {
    shared: &'a Arc<Shared>,
    tasks: &'a TaskTracker,
    stop: &'a CancellationToken,
}

impl Loops<'_> {
    /// Starts the loop `run`, which is dropped at its next wait once the token is cancelled.
    fn spawn<F>(&self, name: &'static str, run: impl Fn(Arc<Shared>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (shared, stop) = (self.shared.clone(), self.stop.clone());
        self.tasks.spawn(go_on(name, move || stop.clone().run_until_cancelled_owned(run(shared.clone())).map(drop)));
    }
}

/// Runs a loop to its end, and begins it again if it panics: a node that lost one of its loops would look alive and do nothing.
async fn go_on<F: Future<Output = ()>>(name: &'static str, begin: impl Fn() -> F) {
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        error!(part = name, "A part of this node failed unexpectedly and is begun again; please report the lines before.");
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
