//! The counters of a node since its start: runs, claims, leases and recoveries. Only the API reads
//! them.
//!
//! Invariant: an event costs a few atomic additions. Only the first run of a queue takes a lock that
//! others wait for, and allocates.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::QueueName;
use schedd_schedule::time::time_histogram::{TimeCounts, TimeHistogram};

/// The most queues with counters of their own besides the declared queues. The runs of further
/// queues are counted together.
const MOST_UNDECLARED: usize = 50;

/// The upper bounds of the buckets of lateness.
const LATENESS: &[Duration] = &[
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
    Duration::from_secs(3_600),
    Duration::from_secs(21_600),
];

/// The upper bounds of the buckets of durations.
const DURATION: &[Duration] = &[
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
    Duration::from_secs(1_800),
    Duration::from_secs(3_600),
    Duration::from_secs(14_400),
    Duration::from_secs(86_400),
];

/// The answer of Redis to the claim of one run, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimOutcome {
    /// The node got the run.
    Claimed,
    /// Another run or a gate blocks the run, so it waits or ended.
    Blocked,
    /// Another node claimed the run first, or the run is no longer due.
    Gone,
    /// The queue has no room: its limit, its rate limit or a pause.
    NoRoom,
    /// Earlier runs of the same call took all slots of the node.
    NoSlot,
    /// The node decides about the run again, because the job or the time changed.
    Again,
    /// The run or its job cannot be used.
    Unusable,
    /// The call failed, or no answer came.
    Unanswered,
}

impl ClaimOutcome {
    /// All outcomes, in the order of their declaration.
    const ALL: [Self; 8] = [
        Self::Claimed,
        Self::Blocked,
        Self::Gone,
        Self::NoRoom,
        Self::NoSlot,
        Self::Again,
        Self::Unusable,
        Self::Unanswered,
    ];

    /// Returns the value of the label `outcome`.
    fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Blocked => "blocked",
            Self::Gone => "gone",
            Self::NoRoom => "no_room",
            Self::NoSlot => "no_slot",
            Self::Again => "again",
            Self::Unusable => "unusable",
            Self::Unanswered => "unanswered",
        }
    }
}

/// The counters of a node since its start.
#[derive(Default)]
pub(crate) struct NodeCounters {
    queues: RwLock<CountedQueues>,
    claims: [AtomicU64; ClaimOutcome::ALL.len()],
    leases_lost: AtomicU64,
    recoveries: AtomicU64,
}

/// The counters of each queue.
#[derive(Default)]
struct CountedQueues {
    by_name: BTreeMap<QueueName, QueueCounters>,
    /// The number of listed queues that were not declared when they were listed.
    undeclared: usize,
    /// The counters of all queues that have no counters of their own.
    others: QueueCounters,
}

/// The counters of one queue.
struct QueueCounters {
    /// The number of ended runs in each state, in the order of [`RunState::ALL`].
    ends: [AtomicU64; RunState::ALL.len()],
    lateness: TimeHistogram,
    durations: TimeHistogram,
}

impl Default for QueueCounters {
    fn default() -> Self {
        Self {
            ends: Default::default(),
            lateness: TimeHistogram::new(LATENESS),
            durations: TimeHistogram::new(DURATION),
        }
    }
}

/// The counts of a node since its start.
#[derive(Debug, Clone)]
pub struct NodeCounts {
    /// The counts of each queue.
    pub queues: Vec<QueueCounts>,
    /// The number of answers to claims, by outcome.
    pub claims: Vec<(&'static str, u64)>,
    /// The number of runs whose lease this node lost.
    pub leases_lost: u64,
    /// The number of runs that this node took back from lost nodes.
    pub recoveries: u64,
}

/// The counts of one queue since the start of the node.
#[derive(Debug, Clone)]
pub struct QueueCounts {
    /// The name of the queue. `None` for all queues without counts of their own.
    pub queue: Option<QueueName>,
    /// The number of ended runs in each final state.
    pub ends: Vec<(RunState, u64)>,
    /// The time from due to start, of runs that started for the first time.
    pub lateness: TimeCounts,
    /// The duration of attempts.
    pub durations: TimeCounts,
}

impl NodeCounters {
    /// Gives these declared queues counters of their own.
    pub(crate) fn declare<'q>(&self, queues: impl IntoIterator<Item = &'q QueueName>) {
        let mut all = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        for queue in queues {
            if !all.by_name.contains_key(queue) {
                all.by_name.insert(queue.clone(), QueueCounters::default());
            }
        }
    }

    /// Counts the first start of a run, which was late by `late`.
    pub(crate) fn run_started(&self, queue: &QueueName, late: Duration) {
        self.with(queue, |counters| counters.lateness.add(late));
    }

    /// Counts an attempt that took the time `took`.
    pub(crate) fn attempt_ended(&self, queue: &QueueName, took: Duration) {
        self.with(queue, |counters| counters.durations.add(took));
    }

    /// Counts `runs` runs that ended in `state`.
    pub(crate) fn runs_ended(&self, queue: &QueueName, state: RunState, runs: u64) {
        self.with(queue, |counters| {
            let counts = RunState::ALL.iter().zip(&counters.ends);
            for (_, count) in counts.filter(|(other, _)| **other == state) {
                count.fetch_add(runs, Ordering::Relaxed);
            }
        });
    }

    /// Counts `runs` claims with this outcome.
    pub(crate) fn claims_answered(&self, outcome: ClaimOutcome, runs: u64) {
        if let Some(count) = self.claims.get(outcome as usize) {
            count.fetch_add(runs, Ordering::Relaxed);
        }
    }

    /// Counts a run whose lease this node lost.
    pub(crate) fn lease_lost(&self) {
        self.leases_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a run that this node took back from a lost node.
    pub(crate) fn run_recovered(&self) {
        self.recoveries.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls `count` with the counters of a queue.
    fn with(&self, queue: &QueueName, count: impl Fn(&QueueCounters)) {
        let known = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = known.by_name.get(queue) {
            return count(counters);
        }
        if known.undeclared >= MOST_UNDECLARED {
            return count(&known.others);
        }
        drop(known);
        let mut all = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        if !all.by_name.contains_key(queue) {
            all.undeclared += 1;
        }
        count(all.by_name.entry(queue.clone()).or_default());
    }

    /// Returns the present counts.
    pub(crate) fn counts(&self) -> NodeCounts {
        let all = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        let queues = all.by_name.iter().map(|(queue, counters)| counters.counts(Some(queue)));
        let others = (all.undeclared >= MOST_UNDECLARED).then(|| all.others.counts(None));
        let claims = ClaimOutcome::ALL.iter().zip(&self.claims);
        NodeCounts {
            queues: queues.chain(others).collect(),
            claims: claims
                .map(|(outcome, count)| (outcome.as_str(), count.load(Ordering::Relaxed)))
                .collect(),
            leases_lost: self.leases_lost.load(Ordering::Relaxed),
            recoveries: self.recoveries.load(Ordering::Relaxed),
        }
    }
}

impl QueueCounters {
    fn counts(&self, queue: Option<&QueueName>) -> QueueCounts {
        let ends = RunState::ALL.into_iter().zip(&self.ends);
        QueueCounts {
            queue: queue.cloned(),
            ends: ends
                .filter(|(state, _)| state.is_final())
                .map(|(state, count)| (state, count.load(Ordering::Relaxed)))
                .collect(),
            lateness: self.lateness.counts(),
            durations: self.durations.counts(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        name.parse().unwrap()
    }

    #[test]
    fn runs_are_counted_by_queue_and_state_and_claims_by_outcome() {
        let counters = NodeCounters::default();
        counters.declare([&queue("a")]);
        counters.runs_ended(&queue("b"), RunState::Failed, 1);
        counters.runs_ended(&queue("b"), RunState::Skipped, 7);
        for outcome in ClaimOutcome::ALL {
            counters.claims_answered(outcome, outcome as u64 + 1);
        }
        let counts = counters.counts();
        let [a, b] = counts.queues.as_slice() else { panic!("{counts:?}") };
        assert!(a.ends.iter().all(|(_, count)| *count == 0), "{a:?}");
        assert!(
            b.ends.contains(&(RunState::Failed, 1)) && b.ends.contains(&(RunState::Skipped, 7))
        );
        assert_eq!(b.ends.len(), 6, "no run has ended in a state that is not final");
        assert_eq!(counts.claims.first(), Some(&("claimed", 1)));
        assert_eq!(counts.claims.last(), Some(&("unanswered", 8)));
    }

    #[test]
    fn queues_beyond_the_bound_are_counted_together_but_declared_queues_never() {
        let counters = NodeCounters::default();
        for number in 0..MOST_UNDECLARED + 5 {
            counters.run_started(&queue(&format!("q{number}")), Duration::ZERO);
        }
        counters.declare([&queue("declared")]);
        counters.run_started(&queue("declared"), Duration::ZERO);
        let counts = counters.counts();
        assert_eq!(counts.queues.len(), MOST_UNDECLARED + 2);
        let count = |name: Option<QueueName>| {
            counts.queues.iter().find(|counts| counts.queue == name).unwrap().lateness.count()
        };
        assert_eq!((count(None), count(Some(queue("declared")))), (5, 1));
    }
}
