//! Facts about due runs from earlier replies of Redis. Redis refuses fewer claims that were made
//! with these facts.
//!
//! Invariant: an outdated fact does no harm, because the script in Redis judges each claim again.
//! When there are more than [`KEPT`] facts of one kind, all facts of this kind are forgotten.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use schedd_core::domain::queue::gate::Gate;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The most facts of one kind that are kept.
const KEPT: usize = 10_000;
/// The time for which a run is not tried again after it could be neither claimed nor skipped.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// Facts about due runs from earlier replies of Redis.
#[derive(Default)]
pub(crate) struct RunHints {
    /// For each run, a later occurrence of its job that already has a record.
    occupied: HashMap<RunId, UnixMillis>,
    /// The runs that could be neither claimed nor skipped, each with the time of the failure.
    refused: HashMap<RunId, BootInstant>,
    /// The jobs that other jobs name in `not_while`, as reported by claims.
    excluded: HashSet<JobName>,
    /// For each run, the gates that its definition does not name, but at which the run has a place
    /// or waits.
    known_places: HashMap<RunId, Vec<Gate>>,
}

impl RunHints {
    /// Returns the due time of a later occurrence of the same job that already has a run record, if
    /// known. The next run of the job is planned after this occurrence.
    pub(crate) fn occupied(&self, run: &RunId) -> Option<UnixMillis> {
        self.occupied.get(run).copied()
    }

    /// Records that the occurrence at `until`, which is later than `run`, has a record.
    pub(crate) fn note_occupied(&mut self, run: &RunId, until: UnixMillis) {
        note(&mut self.occupied, run.clone(), until);
    }

    /// Forgets the occurrence that `note_occupied` recorded for `run`, because `run` was claimed.
    pub(crate) fn forget_occupied(&mut self, run: &RunId) {
        self.occupied.remove(run);
    }

    /// Returns true if another job names `job` in `not_while`.
    pub(crate) fn is_excluded(&self, job: &JobName) -> bool {
        self.excluded.contains(job)
    }

    /// Records that another job names `job` in `not_while`.
    pub(crate) fn note_excluded(&mut self, job: JobName) {
        if self.excluded.len() > KEPT {
            self.excluded.clear();
        }
        self.excluded.insert(job);
    }

    /// Removes and returns the known gates of `run`. They are used for one claim.
    pub(crate) fn take_gates(&mut self, run: &RunId) -> Vec<Gate> {
        self.known_places.remove(run).unwrap_or_default()
    }

    /// Records the gates at which `run` has a place or waits.
    pub(crate) fn note_gates(&mut self, run: RunId, gates: Vec<Gate>) {
        note(&mut self.known_places, run, gates);
    }

    /// Records that `run` could be neither claimed nor skipped at `now`. The run is not tried again
    /// for `REFUSED_FOR`.
    pub(crate) fn refuse(&mut self, run: RunId, now: BootInstant) {
        note(&mut self.refused, run, now);
    }

    /// Returns the number of runs that were refused, at least of those of the last few seconds.
    pub(crate) fn refused_count(&self) -> usize {
        self.refused.len()
    }

    /// Returns true if `refuse` was called for `run` within the last `REFUSED_FOR`, so that the run
    /// is not tried now.
    pub(crate) fn is_refused(&mut self, run: &RunId, now: BootInstant) -> bool {
        let Some(at) = self.refused.get(run) else { return false };
        let is_refused = now.since(*at) < REFUSED_FOR;
        if !is_refused {
            self.refused.remove(run);
        }
        is_refused
    }
}

/// Adds a fact to `facts`. Forgets all earlier facts there if they are too many.
fn note<K: Eq + Hash, V>(facts: &mut HashMap<K, V>, of: K, fact: V) {
    if facts.len() > KEPT {
        facts.clear();
    }
    facts.insert(of, fact);
}
