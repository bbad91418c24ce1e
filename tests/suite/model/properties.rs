//! The promises of schedd, as properties of a state.

use schedd_core::domain::job::job_spec::Overlap;

use super::redis::{ONCE, RUNS};
use super::rules::Rules;
use super::state::State;

/// A promise of schedd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    /// No planted run is lost: it is due, waits, has a lease, or is over.
    NothingLost,
    /// A final state is final, except for a dead run that an operator retries.
    /// One end of a run is accepted, and one more for each such retry.
    OneResult,
    /// No end is accepted under a fence other than the run's own.
    NoStaleEnd,
    /// A dead run comes back only as often as an operator asks.
    RetriedAsAsked,
    /// An at-most-once run starts once, and once more for each retry by an operator.
    OneStart,
    /// A run starts again only after a fault: at most once for each fault.
    StartsHaveCauses,
    /// Two attempts of one run never execute at the same time.
    NoOverlap,
    /// Two runs of a job never execute at the same time, unless its overlap rule is `allow`.
    OneOfAJob,
    /// No run is planted twice.
    PlantedOnce,
    /// If a run of a cron job has a record, the next run is known.
    SuccessorPlanted,
    /// A run is claimed only with the definition of the job that planted it.
    /// A run that has begun may go on if the definition is the same.
    OwnDefinition,
    /// Every run comes to its end if no more faults happen.
    EveryRunEnds,
}

impl Property {
    pub(super) const ALL: [Self; 12] = [
        Self::NothingLost,
        Self::OneResult,
        Self::NoStaleEnd,
        Self::RetriedAsAsked,
        Self::OneStart,
        Self::StartsHaveCauses,
        Self::NoOverlap,
        Self::OneOfAJob,
        Self::PlantedOnce,
        Self::SuccessorPlanted,
        Self::OwnDefinition,
        Self::EveryRunEnds,
    ];

    /// Returns true if the promise holds in `state`. The search judges promises about the future.
    pub(super) fn holds(self, state: &State, rules: &Rules) -> bool {
        let (redis, seen) = (&state.redis, &state.seen);
        let is_taken =
            |run| state.nodes.iter().any(|node| node.taken.map(usize::from) == Some(run));
        match self {
            Self::NothingLost => (0..RUNS).all(|run| {
                let found = &redis.runs[run];
                let is_somewhere =
                    found.due || found.waiting || found.lease.is_some() || found.is_over();
                seen.planted[run] == 0 || is_somewhere || is_taken(run)
            }),
            Self::OneResult => (0..RUNS).all(|run| {
                seen.ended[run] == seen.retried[run] + u8::from(redis.runs[run].is_over())
            }),
            Self::NoStaleEnd => !seen.took_stale_end,
            Self::RetriedAsAsked => {
                seen.retried.iter().sum::<u8>() <= rules.may.retries - state.may.retries
            }
            Self::OneStart => {
                !rules.is_at_most_once()
                    || (0..RUNS).all(|run| seen.starts[run] <= 1 + seen.retried[run])
            }
            Self::StartsHaveCauses => {
                let removals = rules.may.removals - state.may.removals;
                let causes = rules.may.sum() - state.may.sum() - removals;
                seen.starts.iter().all(|starts| *starts <= 1 + causes)
            }
            Self::NoOverlap => (0..RUNS).all(|run| state.processes(run) <= 1),
            Self::OneOfAJob => {
                let executed =
                    (0..rules.occurrences).filter(|run| state.processes(*run) > 0).count();
                rules.overlap == Overlap::Allow || executed <= 1
            }
            Self::PlantedOnce => seen.planted.iter().all(|planted| *planted <= 1),
            Self::SuccessorPlanted => {
                let is_followed =
                    |run: usize| redis.runs[run - 1].record.is_none() || redis.runs[run].is_known();
                redis.cron.is_removed || (1..rules.occurrences).all(is_followed)
            }
            Self::OwnDefinition => !seen.is_wrong,
            Self::EveryRunEnds => true,
        }
    }
}

impl State {
    /// Returns true if every run that Redis must know is over.
    pub(super) fn is_settled(&self, rules: &Rules) -> bool {
        let once = &self.redis.runs[ONCE];
        self.redis.runs[..rules.occurrences].iter().all(super::redis::Run::is_over)
            && (once.is_over() || !once.is_known())
    }
}
