//! One configuration of the model: the job's policies, what can go wrong and how often, and the rule that is broken if one is.

use schedd::domain::job::{Delivery, Overlap};

/// A configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Occurrences of the cron job, at most 3.
    pub(super) occurrences: usize,
    /// Whether a person adds the one-shot.
    pub(super) has_once: bool,
    pub(super) overlap: Overlap,
    pub(super) delivery: Delivery,
    pub(super) hosts: Hosts,
    pub(super) broken: Option<Broken>,
    pub(super) may: Budget,
}

/// What becomes of a job whose lease runs out on a node that lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosts {
    /// The keeper has stopped it by then, and starts none later.
    Kept,
    /// The whole host stood still, its keeper too; afterwards all goes on for a while.
    Frozen,
}

/// A rule that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// `finish_run` takes an end from anybody.
    NoTokenCheck,
    /// The claim takes the run out of the due set in one call and writes the lease in another.
    ZremFirst,
    /// An at-most-once run whose lease ran out is tried again.
    NoStartMark,
    /// Nobody renews a lease.
    RenewNever,
    /// The next run is planted when one succeeds.
    SuccessorAtCompletion,
    /// A lease is taken over without being watched.
    ReaperTrustsClock,
    /// `retry_run` brings back whatever is dead, under whichever fence it died.
    RetryOfAnyFence,
    /// A claim does not ask which of the jobs of a name a run is of.
    FormerBegins,
}

/// How often each thing may happen that nobody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Budget {
    /// Nodes killed.
    pub(super) crashes: u8,
    /// Leases that run out although their holder lives.
    pub(super) expiries: u8,
    /// Answers lost, and calls done only after their caller gave up.
    pub(super) losses: u8,
    /// Attempts that fail by themselves.
    pub(super) failures: u8,
    /// Attempts handed back because their node stops.
    pub(super) hand_backs: u8,
    /// Questions whether a run is already done that get no clear answer.
    pub(super) unclear: u8,
    /// Runs cancelled by a person.
    pub(super) cancels: u8,
    /// Dead runs retried by a person.
    pub(super) retries: u8,
    /// Failovers to a replica that lags.
    pub(super) failovers: u8,
    /// The cron job removed by a person, who adds it again.
    pub(super) removals: u8,
}

impl Rules {
    /// Two occurrences that wait for each other; nothing goes wrong.
    pub(super) const CALM: Self = Self {
        occurrences: 2,
        has_once: false,
        overlap: Overlap::Queue { max: 1 },
        delivery: Delivery::AtLeastOnce,
        hosts: Hosts::Kept,
        broken: None,
        may: Budget {
            crashes: 0,
            expiries: 0,
            losses: 0,
            failures: 0,
            hand_backs: 0,
            unclear: 0,
            cancels: 0,
            retries: 0,
            failovers: 0,
            removals: 0,
        },
    };

    pub(super) fn is_at_most_once(&self) -> bool {
        self.delivery == Delivery::AtMostOnce
    }
}

impl Budget {
    /// How much of it is left, all kinds together.
    pub(super) fn sum(self) -> u8 {
        let Self { crashes, expiries, losses, failures, hand_backs, unclear, cancels, retries, failovers, removals } = self;
        crashes + expiries + losses + failures + hand_backs + unclear + cancels + retries + failovers + removals
    }
}
