//! What schedd promises, as things that can be said of a state.

use schedd::domain::job::Overlap;

use super::redis::{ONCE, RUNS};
use super::rules::Rules;
use super::state::State;

/// A promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    /// A run that was planted is due, waits, is leased or is over: nothing forgets it.
    NothingLost,
    /// Each final state is final, but for a dead run that a person retries: one end of a run is taken, and one more for each
    /// such retry.
    OneResult,
    /// No end is taken under a fence that is not the run's own.
    NoStaleEnd,
    /// A dead run comes back only as often as a person asks.
    RetriedAsAsked,
    /// An at-most-once run starts once, and once more each time a person retries it.
    OneStart,
    /// A run starts again only after something went wrong: as often as things did.
    StartsHaveCauses,
    /// Two attempts of one run are never executed at once.
    NoOverlap,
    /// Two runs of a job are never executed at once, unless its overlap rule is `allow`.
    OneOfAJob,
    /// No run is planted twice.
    PlantedOnce,
    /// Once a run of a cron job has a record, the one after it is known.
    SuccessorPlanted,
    /// No run is claimed with the definition of another job of its name than the one that planted it, but for one that has begun
    /// and goes on with the same definition.
    OwnDefinition,
    /// If nothing goes wrong any more, every run comes to its end.
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

    /// Whether it holds in `state`; what is said of the future is judged by the search.
    pub(super) fn holds(self, state: &State, rules: &Rules) -> bool {
        let (redis, seen) = (&state.redis, &state.seen);
        let is_taken = |run| state.nodes.iter().any(|node| node.taken.map(usize::from) == Some(run));
        match self {
            Self::NothingLost => (0..RUNS).all(|run| {
                let found = &redis.runs[run];
                let is_somewhere = found.due || found.waiting || found.lease.is_some() || found.is_over();
                seen.planted[run] == 0 || is_somewhere || is_taken(run)
            }),
            Self::OneResult => (0..RUNS).all(|run| seen.ended[run] == seen.retried[run] + u8::from(redis.runs[run].is_over())),
            Self::NoStaleEnd => !seen.took_stale_end,
            Self::RetriedAsAsked => seen.retried.iter().sum::<u8>() <= rules.may.retries - state.may.retries,
            Self::OneStart => !rules.is_at_most_once() || (0..RUNS).all(|run| seen.starts[run] <= 1 + seen.retried[run]),
            Self::StartsHaveCauses => {
                let removals = rules.may.removals - state.may.removals;
                let causes = rules.may.sum() - state.may.sum() - removals;
                seen.starts.iter().all(|starts| *starts <= 1 + causes)
            }
            Self::NoOverlap => (0..RUNS).all(|run| state.processes(run) <= 1),
            Self::OneOfAJob => {
                let executed = (0..rules.occurrences).filter(|run| state.processes(*run) > 0).count();
                rules.overlap == Overlap::Allow || executed <= 1
            }
            Self::PlantedOnce => seen.planted.iter().all(|planted| *planted <= 1),
            Self::SuccessorPlanted => {
                let is_followed = |run: usize| redis.runs[run - 1].record.is_none() || redis.runs[run].is_known();
                redis.cron.is_removed || (1..rules.occurrences).all(is_followed)
            }
            Self::OwnDefinition => !seen.is_wrong,
            Self::EveryRunEnds => true,
        }
    }
}

impl State {
    /// Every run Redis is to know of is over.
    pub(super) fn is_settled(&self, rules: &Rules) -> bool {
        let once = &self.redis.runs[ONCE];
        self.redis.runs[..rules.occurrences].iter().all(super::redis::Run::is_over) && (once.is_over() || !once.is_known())
    }
}
