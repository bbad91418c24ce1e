//! The state shared by the loops of one node.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::abandoned::Abandoned;
use super::flow::Flow;
use super::holdings::Holdings;
use super::journal::Journal;
use super::loss::Watch;
use super::node::EngineSettings;
use super::notes::Notes;
use super::progress::Progress;
use super::pulse::Pulse;
use super::redis_clock::RedisClock;
use super::slots::Slots;
use super::weather::{Said, Weather};
use crate::config::{HistoryConfig, OutputConfig};
use crate::domain::ids::JobName;
use crate::executor::Executors;
use crate::keeper::BootInstant;
use crate::store::Store;

/// The state shared by the loops of one node.
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) executors: Executors,
    pub(super) settings: EngineSettings,
    pub(super) slots: Slots,
    pub(super) flow: Flow,
    pub(super) weather: Weather,
    pub(super) notes: Notes,
    pub(super) said: Said,
    /// The facts by which this node knows its data again.
    pub(super) watch: Watch,
    /// The check for steps of Redis' clock.
    pub(super) redis_clock: RedisClock,
    /// Wakes the ticker: an earlier run was planted, or a slot was freed.
    pub(super) poll_now: Arc<Notify>,
    /// Wakes the teller: a notice waits.
    pub(super) tell_now: Notify,
    /// Wakes the lease keeper: a run was asked to stop.
    pub(super) renew_now: Notify,
    /// Wakes the janitor: a job exceeds its bounds.
    pub(super) tidy_now: Notify,
    /// Wakes the reconciler: the data has changed.
    pub(super) reconcile_now: Notify,
    /// Notified when this node's file has been applied to Redis.
    pub(super) file_taken: Notify,
    /// Wakes the loop that compares planned runs with the zone data.
    pub(super) zones_now: Notify,
    /// The number of times the zone data was read again. Times computed before the last reading are
    /// old.
    pub(super) zones_read: AtomicU64,
    /// The number of leases in the namespace at the last poll.
    pub(super) leases_seen: AtomicU64,
    overfull: Mutex<BTreeSet<JobName>>,
    keeping: Mutex<Keeping>,
    /// The runs this node executes, or whose end it still has to record.
    pub(super) holdings: Arc<Holdings>,
    /// The detection of suspensions of this node.
    pub(super) pulse: Pulse,
    /// The heartbeats of the loops this node depends on.
    pub(super) progress: Progress,
    /// The claims whose answer never came.
    pub(super) abandoned: Abandoned,
    /// Wakes presence: the phase or the state of the configuration changed.
    pub(super) beat_now: Notify,
    phase: Mutex<Phase>,
    troubles: Mutex<Troubles>,
}

/// The bounds of kept history and output.
#[derive(Clone, Default)]
pub(super) struct Keeping {
    pub(super) history: HistoryConfig,
    pub(super) output: OutputConfig,
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
pub(super) enum Phase {
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
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Aborting => "aborting",
        }
    }
}

impl Shared {
    pub(super) fn new(store: Store, executors: Executors, journal: Journal, settings: EngineSettings) -> Self {
        let poll_now = Arc::new(Notify::new());
        let watch = Watch::new(journal, store.address());
        let notes = Notes::new(settings.started_at);
        Self {
            store,
            watch,
            executors,
            pulse: Pulse::new(settings.lease),
            settings,
            notes,
            slots: Slots::new(poll_now.clone()),
            flow: Flow::default(),
            weather: Weather::default(),
            said: Said::default(),
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
            progress: Progress::default(),
            abandoned: Abandoned::default(),
            beat_now: Notify::new(),
            phase: Mutex::default(),
            troubles: Mutex::default(),
        }
    }

    /// Returns the bounds of kept data, from the last accepted file.
    pub(super) fn keeping(&self) -> Keeping {
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn keep(&self, keeping: Keeping) {
        *self.keeping.lock().unwrap_or_else(PoisonError::into_inner) = keeping;
    }

    /// Has the janitor trim a job at once.
    pub(super) fn have_tidied(&self, job: &JobName) {
        self.overfull.lock().unwrap_or_else(PoisonError::into_inner).insert(job.clone());
        self.tidy_now.notify_one();
    }

    /// Removes and returns the jobs the janitor has to trim at once.
    pub(super) fn take_overfull(&self) -> BTreeSet<JobName> {
        std::mem::take(&mut *self.overfull.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.beat_now.notify_one();
    }

    /// Returns the problems of this node's configuration, or an empty text.
    pub(super) fn config_error(&self) -> String {
        let troubles = self.troubles();
        [&*troubles.file, &*troubles.jobs].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// Notes why the file is refused. Empty if it is accepted.
    pub(super) fn note_file(&self, error: String) {
        if !error.is_empty() {
            self.notes.file_refused(&error);
        }
        self.troubles().file = error;
        self.beat_now.notify_one();
    }

    /// Notes which parts of the last accepted file could not be applied. Empty if all were.
    pub(super) fn note_jobs(&self, problems: String) {
        self.troubles().jobs = problems;
        self.beat_now.notify_one();
    }

    fn troubles(&self) -> MutexGuard<'_, Troubles> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time until which a lease may be used that a call sent at `sent` took or renewed.
    /// It is a tenth of a lease before any node may take the lease over.
    pub(super) fn deadline(&self, sent: BootInstant) -> BootInstant {
        let lease = self.settings.lease;
        sent.saturating_add(lease.saturating_sub(lease / 10))
    }
}
