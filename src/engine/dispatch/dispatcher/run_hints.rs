//! The hints that earlier replies of Redis gave about due runs. A claim order is made from them.
//!
//! Invariant: a hint saves a call and never decides. The script in Redis judges each claim anew.
//! Each kind of hint is bounded: past [`KEPT`] all hints of that kind are forgotten.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::domain::name::names::{JobName, RunId};
use crate::domain::queue::gate::Gate;
use crate::domain::time::unix_millis::UnixMillis;
use crate::keeper::BootInstant;

/// The most hints kept of each kind.
const KEPT: usize = 10_000;
/// The time for which a run is left alone after it could not be handled.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// The hints that earlier replies of Redis gave about due runs.
#[derive(Default)]
pub(crate) struct RunHints {
    /// The later occurrences that already have a record, one for each run.
    occupied: HashMap<RunId, UnixMillis>,
    /// The runs that could not be handled, each with the time of the failure.
    refused: HashMap<RunId, BootInstant>,
    /// The jobs that other jobs name in `not_while`, as far as claims reported such jobs.
    excluded: HashSet<JobName>,
    /// The gates at which a run has a place or waits, in addition to the gates of its definition.
    known_places: HashMap<RunId, Vec<Gate>>,
}

impl RunHints {
    /// Returns the later occurrence that is known to have a record. The next occurrence of the
    /// run's job comes after it.
    pub(crate) fn occupied(&self, run: &RunId) -> Option<UnixMillis> {
        self.occupied.get(run).copied()
    }

    /// Notes that the occurrence at `until`, later than `run`, has a record.
    pub(crate) fn note_occupied(&mut self, run: &RunId, until: UnixMillis) {
        if self.occupied.len() > KEPT {
            self.occupied.clear();
        }
        self.occupied.insert(run.clone(), until);
    }

    /// Forgets which later occurrence has a record, because `run` was claimed.
    pub(crate) fn forget_occupied(&mut self, run: &RunId) {
        self.occupied.remove(run);
    }

    /// Returns true if another job names `job` in `not_while`.
    pub(crate) fn is_excluded(&self, job: &JobName) -> bool {
        self.excluded.contains(job)
    }

    /// Notes that another job names `job` in `not_while`.
    pub(crate) fn note_excluded(&mut self, job: JobName) {
        if self.excluded.len() > KEPT {
            self.excluded.clear();
        }
        self.excluded.insert(job);
    }

    /// Returns the gates at which `run` has a place or waits, for one claim order.
    pub(crate) fn take_gates(&mut self, run: &RunId) -> Vec<Gate> {
        self.known_places.remove(run).unwrap_or_default()
    }

    /// Notes the gates at which `run` has a place or waits.
    pub(crate) fn note_gates(&mut self, run: RunId, gates: Vec<Gate>) {
        if self.known_places.len() > KEPT {
            self.known_places.clear();
        }
        self.known_places.insert(run, gates);
    }

    /// Leaves `run`, which could not be handled at `now`, alone for `REFUSED_FOR`.
    pub(crate) fn refuse(&mut self, run: RunId, now: BootInstant) {
        if self.refused.len() > KEPT {
            self.refused.clear();
        }
        self.refused.insert(run, now);
    }

    /// Returns true if an attempt to handle `run` failed within the last `REFUSED_FOR`.
    pub(crate) fn is_refused(&mut self, run: &RunId, now: BootInstant) -> bool {
        let Some(at) = self.refused.get(run) else { return false };
        let is_refused = now.since(*at) < REFUSED_FOR;
        if !is_refused {
            self.refused.remove(run);
        }
        is_refused
    }
}
