//! One configuration of the model: the job's policies, the faults and their number, and the broken
//! rule, if any.

use schedd_core::domain::job::job_spec::{Delivery, Overlap};

/// A configuration of the model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// The occurrences of the cron job, at most 3.
    pub(super) occurrences: usize,
    /// True if an operator adds the one-shot.
    pub(super) has_once: bool,
    pub(super) overlap: Overlap,
    pub(super) delivery: Delivery,
    pub(super) hosts: Hosts,
    pub(super) broken: Option<Broken>,
    pub(super) may: Budget,
}

/// The fate of a job's process whose lease runs out while its node lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosts {
    /// The keeper has stopped the process by then, and starts no other.
    Kept,
    /// The whole host, with its keeper, stood still; afterwards everything goes on for a while.
    Frozen,
}

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// `finish_run` accepts an end from anybody.
    NoTokenCheck,
    /// The claim removes the run from the due set in one call and writes the lease in another.
    ZremFirst,
    /// An at-most-once run whose lease ran out is tried again.
    NoStartMark,
    /// No node renews a lease.
    RenewNever,
    /// The next run is planted when a run succeeds, not when it is claimed.
    SuccessorAtCompletion,
    /// A lease is taken over without being watched.
    ReaperTrustsClock,
    /// `retry_run` accepts any dead run, under whichever fence it died.
    RetryOfAnyFence,
    /// A claim does not check to which of the jobs of a name a run belongs.
    FormerBegins,
}

/// The number of times each fault may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Budget {
    /// Kills of a node.
    pub(super) crashes: u8,
    /// Leases that run out although their holder lives.
    pub(super) expiries: u8,
    /// Lost answers, and calls that are done only after their caller gave up.
    pub(super) losses: u8,
    /// Attempts that fail by themselves.
    pub(super) failures: u8,
    /// Attempts handed back because their node stops.
    pub(super) hand_backs: u8,
    /// Answers of a `done_check` that are unclear.
    pub(super) unclear: u8,
    /// Runs cancelled by an operator.
    pub(super) cancels: u8,
    /// Dead runs retried by an operator.
    pub(super) retries: u8,
    /// Failovers to a replica that lags.
    pub(super) failovers: u8,
    /// Removals of the cron job by an operator, who adds it again.
    pub(super) removals: u8,
}

impl Rules {
    /// Two occurrences under the overlap rule `queue`, and no faults.
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
    /// Returns the number of faults that remain, of all kinds together.
    pub(super) fn sum(self) -> u8 {
        let Self {
            crashes,
            expiries,
            losses,
            failures,
            hand_backs,
            unclear,
            cancels,
            retries,
            failovers,
            removals,
        } = self;
        crashes
            + expiries
            + losses
            + failures
            + hand_backs
            + unclear
            + cancels
            + retries
            + failovers
            + removals
    }
}
