//! What the loops of one node share.

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

/// What the loops of one node share.
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) executors: Executors,
    pub(super) settings: EngineSettings,
    pub(super) slots: Slots,
    pub(super) flow: Flow,
    pub(super) weather: Weather,
    pub(super) notes: Notes,
    pub(super) said: Said,
    /// By what this node knows its data again.
    pub(super) watch: Watch,
    /// Whether Redis' clock was stepped.
    pub(super) redis_clock: RedisClock,
    /// Wakes the ticker: something earlier was planted, or a slot was given back.
    pub(super) poll_now: Arc<Notify>,
    /// Wakes the teller: somebody is to be told something.
    pub(super) tell_now: Notify,
    /// Wakes the lease keeper: a run was asked to stop.
    pub(super) renew_now: Notify,
    /// Wakes the janitor: more is kept of a job than its bounds say.
    pub(super) tidy_now: Notify,
    /// Wakes the reconciler: the data is other than it was.
    pub(super) reconcile_now: Notify,
    /// This node's file has been told to Redis.
    pub(super) file_taken: Notify,
    /// Wakes what holds planned runs against the zone data.
    pub(super) zones_now: Notify,
    /// How often the zone data was read again: what was computed from it before is old.
    pub(super) zones_read: AtomicU64,
    /// Leases in the namespace at the last poll.
    pub(super) leases_seen: AtomicU64,
    overfull: Mutex<BTreeSet<JobName>>,
    keeping: Mutex<Keeping>,
    /// The runs this node executes or has to tell the end of.
    pub(super) holdings: Arc<Holdings>,
    /// Whether this node itself stood still.
    pub(super) pulse: Pulse,
    /// Whether the loops it cannot do without come round.
    pub(super) progress: Progress,
    /// The claims it never got the answers to.
    pub(super) abandoned: Abandoned,
    /// Wakes presence: the phase or the configuration's state changed.
    pub(super) beat_now: Notify,
    phase: Mutex<Phase>,
    troubles: Mutex<Troubles>,
}

/// How much is kept of what was.
#[derive(Clone, Default)]
pub(super) struct Keeping {
    pub(super) history: HistoryConfig,
    pub(super) output: OutputConfig,
}

/// What is wrong with the configuration.
#[derive(Default)]
struct Troubles {
    /// The file as it is now cannot be taken.
    file: String,
    /// Of the file taken last, this could not be applied.
    jobs: String,
}

/// What the node does: it only ever moves on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Phase {
    /// Claims and executes.
    #[default]
    Running,
    /// Claims no more; what runs goes on.
    Draining,
    /// Stops what runs.
    Aborting,
}

impl Phase {
    /// The word `schedctl nodes` shows.
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

    /// How much is kept, as the file last said it.
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

    /// The jobs the janitor is to trim at once; they are taken.
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

    /// What is wrong with this node's configuration; empty if nothing is.
    pub(super) fn config_error(&self) -> String {
        let troubles = self.troubles();
        [&*troubles.file, &*troubles.jobs].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// Notes why the file is not taken; empty = it is.
    pub(super) fn note_file(&self, error: String) {
        if !error.is_empty() {
            self.notes.file_refused(&error);
        }
        self.troubles().file = error;
        self.beat_now.notify_one();
    }

    /// Notes what of the file taken last could not be applied; empty = all was.
    pub(super) fn note_jobs(&self, problems: String) {
        self.troubles().jobs = problems;
        self.beat_now.notify_one();
    }

    fn troubles(&self) -> MutexGuard<'_, Troubles> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when a lease taken or renewed by a call sent at `sent` may be used: a tenth before any node may take it over.
    pub(super) fn deadline(&self, sent: BootInstant) -> BootInstant {
        let lease = self.settings.lease;
        sent.saturating_add(lease.saturating_sub(lease / 10))
    }
}
