//! The state shared by the loops of one node.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::dispatch::abandoned_claims::Abandoned;
use super::dispatch::node_limits::NodeLimits;
use super::dispatch::slots::Slots;
use super::execution::running_leases::RunningLeases;
use super::node::EngineSettings;
use super::recovery::journal::Journal;
use super::recovery::loss::LossWatch;
use super::status::event_notes::Notes;
use super::status::loop_watchdog::LoopProgress;
use super::status::outage_log::{LogOnce, OutageLog};
use super::status::redis_clock::RedisClock;
use super::status::suspend_detector::Pulse;
use crate::config::{HistoryConfig, OutputConfig};
use crate::domain::name::names::JobName;
use crate::executor::Executors;
use crate::keeper::BootInstant;
use crate::store::Store;

/// The state shared by the loops of one node.
pub(crate) struct NodeContext {
    pub(crate) store: Store,
    pub(crate) executors: Executors,
    pub(crate) settings: EngineSettings,
    pub(crate) slots: Slots,
    pub(crate) flow: NodeLimits,
    pub(crate) weather: OutageLog,
    pub(crate) notes: Notes,
    pub(crate) said: LogOnce,
    /// The facts by which this node knows its data again.
    pub(crate) watch: LossWatch,
    /// The check for steps of Redis' clock.
    pub(crate) redis_clock: RedisClock,
    /// Wakes the ticker: an earlier run was planted, or a slot was freed.
    pub(crate) poll_now: Arc<Notify>,
    /// Wakes the teller: a notice waits.
    pub(crate) tell_now: Notify,
    /// Wakes the lease keeper: a run was asked to stop.
    pub(crate) renew_now: Notify,
    /// Wakes the janitor: a job exceeds its bounds.
    pub(crate) tidy_now: Notify,
    /// Wakes the reconciler: the data has changed.
    pub(crate) reconcile_now: Notify,
    /// Notified when this node's file has been applied to Redis.
    pub(crate) file_taken: Notify,
    /// Wakes the loop that compares planned runs with the zone data.
    pub(crate) zones_now: Notify,
    /// The number of times the zone data was read again. Times computed before the last reading are
    /// old.
    pub(crate) zones_read: AtomicU64,
    /// The number of leases in the namespace at the last poll.
    pub(crate) leases_seen: AtomicU64,
    overfull: Mutex<BTreeSet<JobName>>,
    keeping: Mutex<Keeping>,
    /// The runs this node executes, or whose end it still has to record.
    pub(crate) holdings: Arc<RunningLeases>,
    /// The detection of suspensions of this node.
    pub(crate) pulse: Pulse,
    /// The heartbeats of the loops this node depends on.
    pub(crate) progress: LoopProgress,
    /// The claims whose answer never came.
    pub(crate) abandoned: Abandoned,
    /// Wakes presence: the phase or the state of the configuration changed.
    pub(crate) beat_now: Notify,
    phase: Mutex<Phase>,
    troubles: Mutex<Troubles>,
}

/// The bounds of kept history and output.
#[derive(Clone, Default)]
pub(crate) struct Keeping {
    pub(crate) history: HistoryConfig,
    pub(crate) output: OutputConfig,
}

/// The problems of the configuration.
#[derive(Default)]
struct Troubles {
    /// The reason why the present file is refused.
    file: String,
    /// The parts of the last accepted file that could not be applied.
    jobs: String,
}

/// The phase of a node. It only moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Phase {
    /// Claims and executes.
    #[default]
    Running,
    /// Claims nothing more. Running jobs go on.
    Draining,
    /// Stops running jobs.
    Aborting,
}

impl Phase {
    /// Returns the name of the phase that `schedctl nodes` shows.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Aborting => "aborting",
        }
    }
}

impl NodeContext {
    pub(crate) fn new(store: Store, executors: Executors, journal: Journal, settings: EngineSettings) -> Self {
        let poll_now = Arc::new(Notify::new());
        let watch = LossWatch::new(journal, store.address());
        let notes = Notes::new(settings.started_at);
        Self {
            store,
            watch,
            executors,
            pulse: Pulse::new(settings.lease),
            settings,
            notes,
            slots: Slots::new(poll_now.clone()),
            flow: NodeLimits::default(),
            weather: OutageLog::default(),
            said: LogOnce::default(),
            redis_clock: RedisClock::default(),
            poll_now,
            tell_now: Notify::new(),
            renew_now: Notify::new(),
            tidy_now: Notify::new(),
            reconcile_now: Notify::new(),
            file_taken: Notify::new(),
            zones_now: Notify::new(),
            zones_read: AtomicU64::new(0),
            leases_seen: AtomicU64::new(0),
            overfull: Mutex::default(),
            keeping: Mutex::default(),
            holdings: Arc::default(),
            progress: LoopProgress::default(),
            abandoned: Abandoned::default(),
            beat_now: Notify::new(),
            phase: Mutex::default(),
            troubles: Mutex::default(),
        }
    }

    /// Returns the bounds of kept data, from the last accepted file.
    pub(crate) fn keeping(&self) -> Keeping {
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn keep(&self, keeping: Keeping) {
        *self.keeping.lock().unwrap_or_else(PoisonError::into_inner) = keeping;
    }

    /// Has the janitor trim a job at once.
    pub(crate) fn have_tidied(&self, job: &JobName) {
        self.overfull.lock().unwrap_or_else(PoisonError::into_inner).insert(job.clone());
        self.tidy_now.notify_one();
    }

    /// Removes and returns the jobs the janitor has to trim at once.
    pub(crate) fn take_overfull(&self) -> BTreeSet<JobName> {
        std::mem::take(&mut *self.overfull.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.beat_now.notify_one();
    }

    /// Returns the problems of this node's configuration, or an empty text.
    pub(crate) fn config_error(&self) -> String {
        let troubles = self.troubles();
        [&*troubles.file, &*troubles.jobs].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// Notes why the file is refused. Empty if it is accepted.
    pub(crate) fn note_file(&self, error: String) {
        if !error.is_empty() {
            self.notes.file_refused(&error);
        }
        self.troubles().file = error;
        self.beat_now.notify_one();
    }

    /// Notes which parts of the last accepted file could not be applied. Empty if all were.
    pub(crate) fn note_jobs(&self, problems: String) {
        self.troubles().jobs = problems;
        self.beat_now.notify_one();
    }

    fn troubles(&self) -> MutexGuard<'_, Troubles> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time until which a lease may be used that a call sent at `sent` took or renewed.
    /// It is a tenth of a lease before any node may take the lease over.
    pub(crate) fn deadline(&self, sent: BootInstant) -> BootInstant {
        let lease = self.settings.lease;
        sent.saturating_add(lease.saturating_sub(lease / 10))
    }
}
