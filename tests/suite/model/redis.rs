//! What Redis holds in the model, the calls made of it and the words it answers.
//!
//! Times are left out. A run in `due` is ripe, and that a lease has run out is a mark that a step sets.

use schedd::domain::run::RunState;

/// The runs of the model: occurrences of one cron job, and last a one-shot.
pub(super) const RUNS: usize = 4;
/// The one-shot's run.
pub(super) const ONCE: usize = RUNS - 1;
/// Recoveries in a row after which a run is poison. The daemon's 3 would only make more states.
pub(super) const POISON: u8 = 2;

/// All of a namespace that the scripts of the model touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Redis {
    pub(super) runs: [Run; RUNS],
    pub(super) cron: Job,
    /// The cron job's one planted run.
    pub(super) pending: Option<u8>,
    /// Whether the one-shot's run is planted and not yet claimed.
    pub(super) is_once_pending: bool,
    /// Whether the one-shot is over.
    pub(super) is_once_over: bool,
}

/// The cron job's record. Its revs count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Job {
    /// The rev it was added at: nothing edits it.
    pub(super) rev: u8,
    /// The rev of the first job of this name, of those in a row with this definition.
    pub(super) same_since: u8,
    pub(super) is_removed: bool,
}

/// One run's place in the indexes, and its record.
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
    /// Stands for its end: moved by a renewal that matters.
    pub(super) end: u8,
    /// Somebody has watched it unchanged for its whole length.
    pub(super) has_run_out: bool,
}

/// What the hash of a run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) state: RunState,
    pub(super) attempt: u8,
    /// 0 = never claimed.
    pub(super) fence: u8,
    pub(super) claim: Token,
    pub(super) settled: Option<(u8, Verdict)>,
    pub(super) recoveries: u8,
    /// Answers in a row of its `done_check` that were none.
    pub(super) unclear: u8,
    /// The rev of its job it was last claimed at; 0 = never, or it is the one-shot's.
    pub(super) rev: u8,
}

/// Who claimed, and the call it did so by. Number 0 is a call nobody repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Token {
    pub(super) node: u8,
    pub(super) incarnation: u8,
    pub(super) number: u8,
}

/// How an attempt is said to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Verdict {
    Succeeded,
    Cancelled,
    /// Dead: no attempt follows.
    Failed,
    /// At-most-once, stopped with its node.
    Lost,
    Retry,
    Release,
    /// Its `done_check` gave no clear answer and is asked again; nothing was started.
    AskLater,
}

/// A call of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Call {
    /// `apply_job` of the one-shot.
    Add,
    Claim {
        run: u8,
        token: Token,
        /// Of its job as it was read.
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
    /// `retry_run` of a dead run, under the fence that was read.
    Retry {
        run: u8,
        fence: u8,
        /// Of its job as it was read.
        rev: u8,
    },
    /// `remove_job` of the cron job.
    Remove,
    /// `apply_job` of a cron job under the name of the removed one.
    Readd {
        is_same: bool,
    },
    /// Broken claim only: the first of two calls.
    Zrem {
        run: u8,
    },
}

/// The word a script answers.
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
    /// The job has another rev than the call names.
    Stale,
    Removed,
    /// Its job was removed.
    NoJob,
    /// It is of an earlier job of its name.
    Former,
}

/// What has happened, whatever Redis says by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Seen {
    /// Fences issued.
    pub(super) fences: u8,
    /// How often each run was planted.
    pub(super) planted: [u8; RUNS],
    /// How often an end of each run was taken.
    pub(super) ended: [u8; RUNS],
    /// How often each was brought back from the dead.
    pub(super) retried: [u8; RUNS],
    /// Starts of each run's job.
    pub(super) starts: [u8; RUNS],
    /// An end was taken under a fence that is not the run's.
    pub(super) took_stale_end: bool,
    /// Revs issued.
    pub(super) revs: u8,
    /// The rev of the cron job that planted each run.
    pub(super) planted_by: [u8; RUNS],
    /// The definition each run was first claimed with, by the first rev it had.
    pub(super) begun_as: [u8; RUNS],
    /// A run was claimed with a definition it is not to execute.
    pub(super) is_wrong: bool,
}

impl Verdict {
    /// How many unclear answers in a row there are after it: any clear one ends the row.
    pub(super) fn unclear_after(self, unclear: u8) -> u8 {
        match self {
            Self::AskLater => unclear + 1,
            Self::Release => unclear,
            _ => 0,
        }
    }
}

impl Redis {
    /// The rev of a run's job; 0 of the one-shot, which is never removed.
    pub(super) fn rev_of(&self, run: usize) -> u8 {
        if run == ONCE { 0 } else { self.cron.rev }
    }

    /// The first of so many occurrences of which nothing is known.
    pub(super) fn next_unknown(&self, occurrences: usize) -> Option<usize> {
        (0..occurrences).find(|run| !self.runs[*run].is_known())
    }
}

impl Run {
    /// Whether Redis knows of it at all.
    pub(super) fn is_known(&self) -> bool {
        self.due || self.waiting || self.lease.is_some() || self.record.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.record.is_some_and(|record| record.state.is_final())
    }

    /// Whether a person may have it tried again.
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
