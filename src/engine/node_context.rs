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
    /// The check whether the data in Redis is the data this node saw before, or was lost.
    pub(crate) watch: LossWatch,
    /// The detector of steps of Redis' clock.
    pub(crate) redis_clock: RedisClock,
    /// The signal that wakes the ticker, because an earlier run was added to the due set or a slot
    /// was freed.
    pub(crate) poll_now: Arc<Notify>,
    /// The signal that wakes the loop that plants notices, because a notice waits.
    pub(crate) tell_now: Notify,
    /// The signal that wakes the lease keeper, because a run was asked to stop.
    pub(crate) renew_now: Notify,
    /// The signal that wakes the janitor, because a job exceeds the bounds of its history or
    /// output.
    pub(crate) tidy_now: Notify,
    /// The signal that wakes the reconciler, because the jobs file or the data in Redis has
    /// changed.
    pub(crate) reconcile_now: Notify,
    /// The signal that this node's jobs file has been applied to Redis.
    pub(crate) file_taken: Notify,
    /// The signal that wakes the loop that compares planned runs with the zone data.
    pub(crate) zones_now: Notify,
    /// The number of times the zone data was read again. Times computed before the last reading are
    /// outdated.
    pub(crate) zones_read: AtomicU64,
    /// The number of leases in Redis, of all nodes, at the last poll.
    pub(crate) leases_seen: AtomicU64,
    overfull: Mutex<BTreeSet<JobName>>,
    keeping: Mutex<Keeping>,
    /// The runs that this node executes, or whose end this node still has to record.
    pub(crate) holdings: Arc<RunningLeases>,
    /// The detector of suspensions of this node.
    pub(crate) pulse: Pulse,
    /// The heartbeats of the loops this node depends on.
    pub(crate) progress: LoopProgress,
    /// The claims of this node whose answer never came.
    pub(crate) abandoned: Abandoned,
    /// The signal that wakes the presence loop, because the phase or the state of the configuration
    /// changed.
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
    /// The reason why the present jobs file is refused. Empty if the file is accepted.
    file: String,
    /// The reasons why parts of the last accepted file could not be applied. Empty if all parts
    /// were.
    jobs: String,
}

/// The phase of a node. A node never returns to an earlier phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Phase {
    /// The node claims and executes runs.
    #[default]
    Running,
    /// The node claims nothing more. Running jobs go on.
    Draining,
    /// The node stops running jobs.
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

    /// Asks the janitor to trim the history and output of a job at once.
    pub(crate) fn have_tidied(&self, job: &JobName) {
        self.overfull.lock().unwrap_or_else(PoisonError::into_inner).insert(job.clone());
        self.tidy_now.notify_one();
    }

    /// Returns the jobs the janitor has to trim at once, and empties the list of these jobs.
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

    /// Notes the error for which the jobs file is refused. An empty `error` means that the file is
    /// accepted.
    pub(crate) fn note_file(&self, error: String) {
        if !error.is_empty() {
            self.notes.file_refused(&error);
        }
        self.troubles().file = error;
        self.beat_now.notify_one();
    }

    /// Notes why parts of the last accepted file could not be applied. An empty text means that all
    /// parts were applied.
    pub(crate) fn note_jobs(&self, problems: String) {
        self.troubles().jobs = problems;
        self.beat_now.notify_one();
    }

    fn troubles(&self) -> MutexGuard<'_, Troubles> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time until which this node may use a lease that a call sent at `sent` took or
    /// renewed. This deadline comes a tenth of the lease time before any other node may take the
    /// lease over.
    pub(crate) fn deadline(&self, sent: BootInstant) -> BootInstant {
        let lease = self.settings.lease;
        sent.saturating_add(lease.saturating_sub(lease / 10))
    }
}
