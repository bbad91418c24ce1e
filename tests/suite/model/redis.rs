//! The content of Redis in the model, the calls of its scripts and their replies.
//!
//! The model has no times. A run in `due` is ready, and a step marks a lease as run out.

use schedd_core::domain::run::run_state::RunState;

/// The runs of the model: the occurrences of one cron job, and last a one-shot.
pub(super) const RUNS: usize = 4;
/// The one-shot's run.
pub(super) const ONCE: usize = RUNS - 1;
/// The recoveries in a row after which a run fails as poison. The daemon's 3 would only give more
/// states.
pub(super) const POISON: u8 = 2;

/// The part of a namespace that the model's scripts touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Redis {
    pub(super) runs: [Run; RUNS],
    pub(super) cron: Job,
    /// The cron job's planned run.
    pub(super) pending: Option<u8>,
    /// True if the one-shot's run is planted and not yet claimed.
    pub(super) is_once_pending: bool,
    /// True if the one-shot is over.
    pub(super) is_once_over: bool,
}

/// The cron job's record. Its revisions count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Job {
    /// The revision at which the job was added; nothing edits it.
    pub(super) rev: u8,
    /// The revision of the first job in the unbroken row of jobs with this name and definition.
    pub(super) same_since: u8,
    pub(super) is_removed: bool,
}

/// The indexes that have one run, and its record.
#[expect(clippy::struct_excessive_bools, reason = "one for each index there is")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Run {
    pub(super) due: bool,
    pub(super) waiting: bool,
    pub(super) open: bool,
    pub(super) stop: bool,
    pub(super) lease: Option<Lease>,
    pub(super) record: Option<Record>,
}

/// A member of the leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    pub(super) fence: u8,
    /// A number for the lease's end. Only a renewal that matters changes it.
    pub(super) end: u8,
    /// True if a node has watched the lease unchanged for its whole length.
    pub(super) has_run_out: bool,
}

/// The content of a run's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) state: RunState,
    pub(super) attempt: u8,
    /// The last fence; 0 if the run was never claimed.
    pub(super) fence: u8,
    pub(super) claim: Token,
    pub(super) settled: Option<(u8, Verdict)>,
    pub(super) recoveries: u8,
    /// The number of unclear answers of its `done_check` in a row.
    pub(super) unclear: u8,
    /// The revision of its job at its last claim; 0 if there was none, or for the one-shot.
    pub(super) rev: u8,
}

/// The name of a claim: who made it, and by which call. Number 0 is a call that nobody repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Token {
    pub(super) node: u8,
    pub(super) incarnation: u8,
    pub(super) number: u8,
}

/// The verdict that a node reports of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Verdict {
    Succeeded,
    Cancelled,
    /// The run is dead: no attempt follows.
    Failed,
    /// An at-most-once run that was stopped with its node.
    Lost,
    Retry,
    Release,
    /// The `done_check` gave no clear answer and is asked again; nothing was started.
    AskLater,
}

/// A call of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Call {
    /// Adds the one-shot by `apply_job`.
    Add,
    Claim {
        run: u8,
        token: Token,
        /// The revision of its job, as read.
        rev: u8,
    },
    Renew {
        run: u8,
        fence: u8,
    },
    Finish {
        run: u8,
        fence: u8,
        verdict: Verdict,
    },
    Recover {
        run: u8,
        fence: u8,
        end: u8,
        is_poison: bool,
    },
    Skip {
        run: u8,
    },
    Cancel {
        run: u8,
    },
    /// Retries a dead run by `retry_run`, under the fence that was read.
    Retry {
        run: u8,
        fence: u8,
        /// The revision of its job, as read.
        rev: u8,
    },
    /// Removes the cron job by `remove_job`.
    Remove,
    /// Adds a cron job by `apply_job` under the name of the removed one.
    Readd {
        is_same: bool,
    },
    /// Makes the first of two calls of the broken claim.
    Zrem {
        run: u8,
    },
}

/// The reply of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Planted,
    Claimed(u8),
    Gone,
    Skipped,
    Waiting,
    Cancelled,
    Held,
    Stop,
    Lost,
    Finished,
    Retrying,
    Released,
    AskingLater,
    Recovered,
    Ended,
    Alive,
    Requested,
    Retried,
    Already,
    Over,
    Unknown,
    /// The job has another revision than the call names.
    Stale,
    Removed,
    /// The run's job was removed.
    NoJob,
    /// The run belongs to an earlier job of its name.
    Former,
}

/// The history of a walk, independent of what Redis has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Seen {
    /// The number of fences issued.
    pub(super) fences: u8,
    /// The number of times each run was planted.
    pub(super) planted: [u8; RUNS],
    /// The number of accepted ends of each run.
    pub(super) ended: [u8; RUNS],
    /// The number of times each run was retried after it was dead.
    pub(super) retried: [u8; RUNS],
    /// The number of times the process of each run started.
    pub(super) starts: [u8; RUNS],
    /// True if an end was accepted under a fence other than the run's.
    pub(super) took_stale_end: bool,
    /// The number of revisions issued.
    pub(super) revs: u8,
    /// The revision of the cron job that planted each run.
    pub(super) planted_by: [u8; RUNS],
    /// The definition with which each run was first claimed, by the first revision with that
    /// definition.
    pub(super) begun_as: [u8; RUNS],
    /// True if a run was claimed with a definition that it must not execute.
    pub(super) is_wrong: bool,
}

impl Verdict {
    /// Returns the number of unclear answers in a row after this verdict. A clear answer resets it.
    pub(super) fn unclear_after(self, unclear: u8) -> u8 {
        match self {
            Self::AskLater => unclear + 1,
            Self::Release => unclear,
            _ => 0,
        }
    }
}

impl Redis {
    /// Returns the revision of a run's job; 0 for the one-shot, which is never removed.
    pub(super) fn rev_of(&self, run: usize) -> u8 {
        if run == ONCE { 0 } else { self.cron.rev }
    }

    /// Returns the first of so many occurrences that Redis does not know.
    pub(super) fn next_unknown(&self, occurrences: usize) -> Option<usize> {
        (0..occurrences).find(|run| !self.runs[*run].is_known())
    }
}

impl Run {
    /// Returns true if Redis knows the run at all.
    pub(super) fn is_known(&self) -> bool {
        self.due || self.waiting || self.lease.is_some() || self.record.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.record.is_some_and(|record| record.state.is_final())
    }

    /// Returns true if the run is a dead letter, which an operator may retry.
    pub(super) fn is_dead(&self) -> bool {
        self.record.is_some_and(|record| record.state.is_dead())
    }

    pub(super) fn record(&mut self) -> &mut Record {
        self.record.get_or_insert(Record {
            state: RunState::Scheduled,
            attempt: 0,
            fence: 0,
            claim: Token { node: 0, incarnation: 0, number: 0 },
            settled: None,
            recoveries: 0,
            unclear: 0,
            rev: 0,
        })
    }
}
