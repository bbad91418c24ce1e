//! One node: an engine for its namespace, and one for each shard of the namespace.
//!
//! The engines share the slots, the executors and the counters of the node. Each has its own
//! connections and loops, so a shard that is lost stops only its own jobs. The jobs of the file
//! belong to the namespace itself; an engine of a shard applies only the other settings of the file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::maintenance::presence;
use super::maintenance::presence::{Naming, PresenceError};
use super::node::Engine;
use super::node_share::NodeShare;
use super::planning::file_change::sections_of;
use super::planning::wanted_file::Removal;
use super::recovery::journal::Journal;
use super::settings::{EngineSettings, WorkerServing};
use super::status::node_status::StatusView;
use super::status::outage_log::OutageLog;
use super::workers::worker_desks::WorkerDesks;
use crate::attempts::Execute;
use schedd_core::config::Config;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::lane_serving::Serving;
use schedd_core::domain::queue::queue_rules::{QueueChange, QueueKey};
use schedd_core::domain::queue::shard_map::ShardMap;
use schedd_schedule::names::QueueName;
use schedd_schedule::time::zone::Zone;
use schedd_store::{QueueRecord, QueueSwitch, Section, ShardsError, Store, StoreError};

/// The time between two looks for new shards.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The time after which a shard that did not answer is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// A function that opens the journal of the node for a namespace.
pub type OpenJournal = Box<dyn Fn(&Store) -> Journal + Send + Sync>;

/// A running node. It serves its namespace, and the shards of the namespace.
pub struct NodeEngines {
    home: Engine,
    shards: Arc<ShardEngines>,
    /// The loop that starts engines for shards.
    watch: JoinHandle<()>,
    stop: CancellationToken,
}

/// The engines of the shards, and what a new one needs.
struct ShardEngines {
    home: Store,
    executors: Arc<dyn Execute>,
    journal_of: OpenJournal,
    settings: EngineSettings,
    host_zone: Zone,
    share: NodeShare,
    views: StatusView,
    desks: WorkerDesks,
    state: Mutex<ShardState>,
    /// The log of the errors for which no engine could be started for a shard. A started engine has
    /// a log of its own.
    shard_log: OutageLog,
}

/// The queues with `spread`, and the record of the settings of each, in the same order.
type SpreadSettings = (Vec<QueueName>, Vec<QueueRecord>);

#[derive(Default)]
struct ShardState {
    engines: BTreeMap<u32, Engine>,
    /// The jobs file without its jobs. `None` if the node has no file.
    file: Option<Config>,
}

impl NodeEngines {
    /// Starts the loops of the node, and applies `file` if given. The queue limits in the file
    /// apply from the first claim.
    pub fn start(
        store: Store,
        executors: Arc<dyn Execute>,
        journal_of: OpenJournal,
        settings: EngineSettings,
        host_zone: Zone,
        file: Option<&Config>,
    ) -> Self {
        let share = NodeShare::default();
        let home = Engine::start(
            (store.clone(), journal_of(&store)),
            executors.clone(),
            settings.clone(),
            host_zone.clone(),
            file,
            share.clone(),
        );
        let shards = Arc::new(ShardEngines {
            home: store,
            executors,
            journal_of,
            settings,
            host_zone,
            share,
            views: home.status_view(),
            desks: WorkerDesks::new(home.worker_desk()),
            state: Mutex::new(ShardState { file: file.map(without_jobs), ..ShardState::default() }),
            shard_log: OutageLog::default(),
        });
        let stop = CancellationToken::new();
        let watch = tokio::spawn(shards.clone().watch(stop.clone()));
        Self { home, shards, watch, stop }
    }

    /// Applies a compiled jobs file: uses its queue settings from now on, and writes its jobs to
    /// Redis.
    pub fn configure(&self, config: &Config, removal: Removal) {
        self.home.configure(config, removal);
        let mut state = self.shards.lock();
        let of_shards = without_jobs(config);
        for engine in state.engines.values() {
            engine.configure(&of_shards, removal);
        }
        state.file = Some(of_shards);
    }

    /// Reads the time zone data of this host again. Planned runs that have another time in the new
    /// data are moved.
    pub fn take_zone_data(&self) {
        self.home.take_zone_data();
    }

    /// Records an error of the jobs file. The configuration applied before still applies.
    pub fn report_config_error(&self, error: String) {
        self.home.report_config_error(error);
    }

    /// Records the reason why the HTTP API of this node did not start.
    pub fn report_api_error(&self, error: String) {
        self.home.report_api_error(error);
    }

    /// Returns a view of the status of this node, for the service manager (systemd) and the API.
    pub fn status_view(&self) -> StatusView {
        self.shards.views.clone()
    }

    /// Returns the desks at which workers ask this node for runs.
    pub fn worker_desks(&self) -> WorkerDesks {
        self.shards.desks.clone()
    }

    /// Returns the longest time that [`NodeEngines::stop`] can take if it is called now.
    pub fn longest_stop(&self) -> Duration {
        let state = self.shards.lock();
        let of_shards = state.engines.values().map(Engine::longest_stop);
        of_shards.chain([self.home.longest_stop()]).max().unwrap_or_default()
    }

    /// Stops the node in stages. `urgent` resolves when a second signal requests an immediate stop.
    pub async fn stop(self, urgent: impl Future<Output = ()>) {
        let Self { home, shards, watch, stop } = self;
        stop.cancel();
        let starting = async {
            // The loop ends after the shard that it is starting, if any.
            let _ = watch.await;
            std::mem::take(&mut shards.lock().engines)
        };
        let urgent = urgent.shared();
        let of_shards = async {
            let engines = starting.await.into_values();
            join_all(engines.map(|engine| Box::pin(engine.stop(urgent.clone())))).await;
        };
        tokio::join!(Box::pin(home.stop(urgent.clone())), Box::pin(of_shards));
    }
}

/// Returns the file without its jobs, which belong to the namespace and not to a shard.
fn without_jobs(config: &Config) -> Config {
    Config { jobs: Arc::default(), ..config.clone() }
}

impl ShardEngines {
    fn lock(&self) -> MutexGuard<'_, ShardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the outage log of the engine for the namespace itself. The search for shards uses the
    /// same log, so that an outage of the namespace's Redis is logged once.
    fn home_log(&self) -> &OutageLog {
        &self.views.node.outage_log
    }

    /// Starts an engine for each shard that has none, until `stop`.
    async fn watch(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let are_all_served = self.look(&stop).await;
            let sleep = if are_all_served { LOOK_EVERY } else { TRY_AGAIN };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// Records the shards of the file, and starts an engine for each shard that has none. Returns
    /// true if each shard has an engine then.
    async fn look(&self, stop: &CancellationToken) -> bool {
        let wanted = self.lock().file.as_ref().and_then(|file| file.redis.shards.clone());
        match wanted {
            Some(wanted) => self.record(&wanted).await,
            None => self.note_refusal(""),
        }
        let places = match self.home.with_shards().await {
            Ok(places) => places,
            Err(error) => {
                self.home_log().failed(&error, "this node finds no new shards");
                return false;
            }
        };
        let open = {
            let state = self.lock();
            let has_none = |place: &Store| {
                place.shard_number().is_some_and(|shard| !state.engines.contains_key(&shard))
            };
            places.into_iter().filter(has_none).collect::<Vec<_>>()
        };
        let starts = open.into_iter().map(|store| self.start(store, stop));
        let are_all_served = join_all(starts).await.into_iter().all(|is_started| is_started);
        if are_all_served {
            self.shard_log.answered();
        }
        are_all_served
    }

    async fn record(&self, wanted: &ShardMap) {
        let refusal = match self.home.record_shards(wanted).await {
            Ok(recorded) => {
                if recorded != *wanted && self.home_log().is_new("fewer shards") {
                    info!(
                        "The namespace has more shards than [redis] shards of the jobs file. This node serves all of them."
                    );
                }
                String::new()
            }
            Err(ShardsError::Store(error)) => {
                self.home_log().failed(&error, "the shards of the jobs file are not recorded");
                return;
            }
            Err(error) => {
                let refusal = format!("[redis] shards was refused: {error}");
                if self.home_log().is_new(&refusal) {
                    warn!("{refusal}.");
                }
                refusal
            }
        };
        self.note_refusal(&refusal);
    }

    /// Sets the reason why the shards of the file were refused. Empty if they were not.
    fn note_refusal(&self, reason: &str) {
        if self.views.health.problems.set_shards(reason) {
            self.views.node.wakeups.presence.notify_one();
        }
    }

    /// Reads the settings of the queues with `spread` from the namespace itself.
    async fn read_spread_settings(&self) -> Result<SpreadSettings, StoreError> {
        let queues = self.home.read_queues().await?.into_keys().collect();
        let spread: Vec<QueueName> = self.home.read_spread(&queues).await?.into_iter().collect();
        let at_home = self.home.read_queue_settings(&spread).await?;
        Ok((spread, at_home))
    }

    /// Copies to a shard the pauses and settings that operators gave to queues with `spread`. A shard
    /// lacks them if it is new, or if it did not answer when an operator made them.
    async fn copy_settings_by_hand(
        &self,
        (spread, at_home): SpreadSettings,
        shard: &Store,
    ) -> Result<(), StoreError> {
        let here = shard.read_queue_settings(&spread).await?;
        let sections = self.lock().file.as_ref().map(sections_of).unwrap_or_default();
        let source = SourceName::from(&self.settings.node);
        for ((queue, home), here) in spread.iter().zip(at_home).zip(here) {
            let is_set = home.set.is_some() && here.set.is_none();
            let is_paused = home.paused.is_some() && here.paused.is_none();
            let section = Section::Queue(queue.clone());
            if let Some(text) = sections.get(&section).filter(|_| is_set || is_paused) {
                // The declaration by the file comes first, because it would end settings by hand.
                shard.declare_section(&source, &section, Some(text)).await?;
            }
            if is_set {
                let named = [QueueKey::Concurrency, QueueKey::Share].into_iter();
                let named = named
                    .filter(|key| *key != QueueKey::Concurrency || home.is_concurrency_by_hand);
                let change =
                    QueueChange { settings: home.settings.clone(), named: named.collect() };
                shard.set_queue(queue, &change).await?;
            }
            if is_paused {
                shard.switch_queue(queue, QueueSwitch::Pause).await?;
            }
        }
        Ok(())
    }

    /// Starts the engine of a shard. Returns false if the shard does not answer.
    async fn start(&self, store: Store, stop: &CancellationToken) -> bool {
        let Some(shard) = store.shard_number() else { return true };
        let settings = &self.settings;
        let serving = match &settings.worker {
            Some(_) => WorkerServing::of_node(),
            None => settings.serving.over(&Serving::default(), &settings.node),
        };
        let (wanted, incarnation) = (&settings.node, &settings.incarnation);
        let announced = presence::announce(
            &store,
            wanted,
            Naming::Asked,
            incarnation,
            &settings.host,
            &serving,
        );
        let started_at = match announced.await {
            Ok((_, started_at)) => started_at,
            Err(PresenceError::Store(error)) => {
                self.shard_log.failed(&error, &format!("no run of shard {shard} starts"));
                return false;
            }
            Err(error @ PresenceError::Taken { .. }) => {
                if self.shard_log.is_new(&format!("name taken in shard {shard}")) {
                    warn!("No run of shard {shard} starts on this node: {error}.");
                }
                return false;
            }
        };
        let at_home = match self.read_spread_settings().await {
            Ok(settings) => settings,
            Err(error) => {
                self.home_log().failed(&error, &format!("no run of shard {shard} starts"));
                return false;
            }
        };
        if let Err(error) = self.copy_settings_by_hand(at_home, &store).await {
            self.shard_log.failed(&error, &format!("no run of shard {shard} starts"));
            return false;
        }
        let mut state = self.lock();
        if stop.is_cancelled() {
            return true;
        }
        let file = state.file.clone();
        let engine = Engine::start(
            (store.clone(), (self.journal_of)(&store)),
            self.executors.clone(),
            EngineSettings { started_at, ..settings.clone() },
            self.host_zone.clone(),
            file.as_ref(),
            self.share.clone(),
        );
        self.views
            .shards
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(shard, engine.status_view());
        self.desks.add(shard, engine.worker_desk());
        state.engines.insert(shard, engine);
        info!(shard, redis = store.address(), "This node serves the shard.");
        true
    }
}
