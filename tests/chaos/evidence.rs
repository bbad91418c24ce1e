//! The evidence of a trial: what was planned, what jobs reported, what schedd recorded, and what
//! was done to schedd.
//! The checker sees this evidence and nothing else.
//!
//! Times are microseconds since 1970 by the clock of this host, which nodes, jobs, Redis and the
//! test share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::worker::Crew;
use crate::world::jobs::Job;
use crate::world::schedule::When;

/// Microseconds since 1970, or a duration in microseconds.
pub(crate) type Micros = i64;

/// One second.
pub(crate) const SECOND: Micros = 1_000_000;

/// The exit code of an attempt whose process was killed from outside.
pub(crate) const KILLED: i32 = 128 + 9;

/// Returns the current time.
pub(crate) fn now() -> Micros {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Micros::try_from(since.as_micros()).unwrap()
}

/// The settings of the nodes on which promises depend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) lease: Micros,
    /// The interval at which a node checks for ended leases.
    pub(crate) reap: Micros,
    pub(crate) kill_grace: Micros,
    /// The latest start after the due time when nothing is wrong.
    pub(crate) clean: Micros,
}

impl Timing {
    /// Returns the latest start after the loss of a node: lease + 2 * reap + 1 s.
    pub(crate) fn recovery(&self) -> Micros {
        self.lease + 2 * self.reap + SECOND
    }
}

/// The parts of a run's id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunName {
    pub(crate) id: String,
    pub(crate) job: String,
    pub(crate) due: Micros,
    pub(crate) is_manual: bool,
}

impl RunName {
    /// Returns the parts of `id`, or `None` if it is no run's id.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let (job, rest) = id.split_once('@')?;
        let (ms, by_hand) =
            rest.split_once('~').map_or((rest, None), |(ms, word)| (ms, Some(word)));
        let due = ms.parse::<Micros>().ok()?.checked_mul(1000)?;
        Some(Self { id: id.to_owned(), job: job.to_owned(), due, is_manual: by_hand.is_some() })
    }
}

/// One attempt, as reported by the job itself or by the store that got its request.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) run: RunName,
    pub(crate) number: u32,
    pub(crate) fence: u64,
    /// The node; empty for a request, which does not name it.
    pub(crate) node: String,
    pub(crate) pid: u32,
    pub(crate) began: Micros,
    /// The last report of the attempt, or of a process that it left behind.
    pub(crate) last_sign: Micros,
    /// The end by itself and its exit code; `None` if the attempt was cut short.
    pub(crate) ended: Option<(Micros, i32)>,
    pub(crate) reach: Reach,
    /// The version of the definition it executed, for a job that is removed and added again.
    pub(crate) version: Option<u32>,
}

/// The way an attempt acts on the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// By a process, which can be killed.
    Process,
    /// By a request, which cannot be called back: its receiver checks the fence.
    Request {
        /// True if the receiver accepted it.
        accepted: bool,
    },
}

impl Attempt {
    /// Returns true if the attempt finished its work.
    pub(crate) fn is_done(&self) -> bool {
        self.ended.is_some_and(|(_, code)| code == 0)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, number, fence, node, pid, .. } = self;
        write!(
            f,
            "{} attempt {number} fence {fence} node {node:?} pid {pid}: began due{:+.3} s",
            run.id,
            span(self.began - run.due)
        )?;
        match self.ended {
            Some((at, code)) => write!(f, ", ended {:+.3} s with {code}", span(at - run.due))?,
            None => write!(f, ", cut short")?,
        }
        write!(f, ", last sign {:+.3} s", span(self.last_sign - run.due))
    }
}

/// Returns a duration in seconds, for output.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn span(length: Micros) -> f64 {
    length as f64 / 1e6
}

/// One run, as `schedctl history --json` shows it.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) run: RunName,
    pub(crate) state: String,
    pub(crate) attempt: u32,
    pub(crate) fence: Option<u64>,
    /// The node of its last attempt.
    pub(crate) node: Option<String>,
    /// The claim of its last attempt.
    pub(crate) started: Option<Micros>,
    pub(crate) finished: Option<Micros>,
    /// The time from which it waited, if it did.
    pub(crate) waited_from: Option<Micros>,
    /// The time a gate gave it a place, if it waited at one.
    pub(crate) let_in: Option<Micros>,
    pub(crate) reason: String,
    /// The last due time of a skipped range, and the number of its occurrences.
    pub(crate) skipped_range: Option<(Micros, u64)>,
    /// The shard that has its record; `None` for the namespace itself.
    pub(crate) shard: Option<u32>,
}

/// The nodes or workers that a fault hits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hit {
    /// Only these nodes.
    Nodes(Vec<String>),
    /// All nodes, or something that they share.
    Everyone,
}

impl Hit {
    /// Returns true if the fault hit only workers.
    pub(crate) fn is_on_workers(&self) -> bool {
        match self {
            Self::Everyone => false,
            Self::Nodes(nodes) => {
                nodes.iter().all(|node| Crew::Pulling.has(node) || Crew::Apps.has(node))
            }
        }
    }

    /// Returns true if the fault hit this node.
    pub(crate) fn is_on(&self, node: &str) -> bool {
        match self {
            Self::Everyone => true,
            Self::Nodes(nodes) => nodes.iter().any(|hit| hit == node),
        }
    }
}

/// The delay of a start that a fault may cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delay {
    /// No delay.
    None,
    /// A delay of at most this length, while the fault lasts and just after.
    Brief(Micros),
    /// A run that was held when the fault began waits until its lease has ended. Later runs go to
    /// other nodes on time.
    AtBegin,
    /// Any run due while the fault lasts may wait for its end, and for the end of a lease.
    Throughout,
}

/// The harm that a fault may do, by its row in the table of faults.
#[derive(Debug, Clone)]
pub(crate) struct Harm {
    pub(crate) hit: Hit,
    pub(crate) delay: Delay,
    /// True if runs on the hit nodes may be attempted again.
    pub(crate) may_repeat: bool,
    /// True if a process of a hit node may live on past its lease (a frozen host).
    pub(crate) may_overlap: bool,
}

/// The further effects that a fault may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// Redis lost its last writes; these runs and jobs may be missing.
    Forgot(BTreeSet<String>),
    /// Attempts on the hit nodes may fail to start, with these words in the reason.
    CannotStart(&'static str),
    /// All nodes were down, and one round of catching up follows.
    AllDown,
}

/// A fault that was inflicted.
#[derive(Debug, Clone)]
pub(crate) struct Inflicted {
    pub(crate) row: String,
    pub(crate) what: String,
    pub(crate) from: Micros,
    pub(crate) to: Micros,
    pub(crate) harm: Harm,
    pub(crate) excuse: Option<Excuse>,
}

/// An action of an operator.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) from: Micros,
    pub(crate) to: Micros,
    pub(crate) what: Doing,
}

/// The kinds of actions that the checker must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doing {
    /// A job was paused in this whole interval.
    Paused(String),
    /// A run was asked to stop.
    Cancelled(String),
    /// A manual run was accepted.
    Ran(String),
    /// A backfill of a job was asked for.
    Backfilled(String),
}

/// One of several jobs that had the same name one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Generation {
    /// The version of its definition. Two generations in a row have the same version if the
    /// definition was the same.
    pub(crate) version: u32,
    pub(crate) when: When,
    /// The earliest and the latest time of its addition.
    pub(crate) added: (Micros, Micros),
    /// The earliest and the latest time of its removal.
    pub(crate) removed: (Micros, Micros),
    /// True if nobody saw the removal before the next addition: the next generation may be an edit
    /// of this one.
    pub(crate) may_be_edited: bool,
}

/// The whole evidence of a trial.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    pub(crate) timing: Timing,
    pub(crate) jobs: BTreeMap<String, Job>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) history: Vec<Recorded>,
    /// Runs as history showed them during the trial.
    pub(crate) reported: Vec<Recorded>,
    pub(crate) faults: Vec<Inflicted>,
    pub(crate) operations: Vec<Operation>,
    /// The generations of each name that had more than one job, in the order of time.
    pub(crate) generations: BTreeMap<String, Vec<Generation>>,
    /// The times at which this host was slow, each with how much slower than usual.
    pub(crate) host_lags: Vec<(Micros, Micros)>,
    /// The names of all nodes.
    pub(crate) nodes: Vec<String>,
    /// The nodes with the label that some jobs require.
    pub(crate) labelled: Vec<String>,
    /// The number of shards of the namespace.
    pub(crate) shards: u32,
    /// The small node, if there is one.
    pub(crate) small: Option<String>,
    /// The number of ends that workers reported and that were refused as stale.
    pub(crate) late_reports: usize,
    /// The number of handlers of apps that were stopped because their leases were gone.
    pub(crate) stopped_handlers: usize,
    /// The processes, keys and resources that were left at the end.
    pub(crate) leftovers: Vec<String>,
    /// The nodes that ended without a cause.
    pub(crate) crashes: Vec<String>,
}
