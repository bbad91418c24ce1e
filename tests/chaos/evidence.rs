//! What is known when all is over: what was planned, what jobs did by their own word, what schedd wrote down, what was done to
//! it. The checker sees this and nothing else.
//!
//! Times are microseconds since 1970 by the clock of this host, which nodes, jobs, Redis and the test share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::jobs::Job;
use crate::schedule::When;

/// Microseconds since 1970, or a length.
pub(crate) type Micros = i64;

/// A second.
pub(crate) const SECOND: Micros = 1_000_000;

/// The code told for an attempt whose process was killed from outside.
pub(crate) const KILLED: i32 = 128 + 9;

/// Now.
pub(crate) fn now() -> Micros {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Micros::try_from(since.as_micros()).unwrap()
}

/// How the nodes are set up, as far as promises depend on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) lease: Micros,
    /// How often a node looks for leases that have ended.
    pub(crate) reap: Micros,
    pub(crate) kill_grace: Micros,
    /// How late a start may be when nothing is wrong.
    pub(crate) clean: Micros,
}

impl Timing {
    /// How late a start may be after a node was lost: lease + 2 * reap + 1 s.
    pub(crate) fn recovery(&self) -> Micros {
        self.lease + 2 * self.reap + SECOND
    }
}

/// The name of a run, read from its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunName {
    pub(crate) id: String,
    pub(crate) job: String,
    pub(crate) due: Micros,
    pub(crate) is_manual: bool,
}

impl RunName {
    /// None if `id` is no run's.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let (job, rest) = id.split_once('@')?;
        let (ms, by_hand) = rest.split_once('~').map_or((rest, None), |(ms, word)| (ms, Some(word)));
        let due = ms.parse::<Micros>().ok()?.checked_mul(1000)?;
        Some(Self { id: id.to_owned(), job: job.to_owned(), due, is_manual: by_hand.is_some() })
    }
}

/// One attempt as the job itself, or the store it wrote to, told it.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) run: RunName,
    pub(crate) number: u32,
    pub(crate) fence: u64,
    /// Empty for a request, which does not say it.
    pub(crate) node: String,
    pub(crate) pid: u32,
    pub(crate) began: Micros,
    /// The last that was heard of it, or of a process it left behind.
    pub(crate) last_sign: Micros,
    /// When it ended by itself, and with which code; none = it was cut short.
    pub(crate) ended: Option<(Micros, i32)>,
    pub(crate) reach: Reach,
    /// The version of the definition it executed, of a job that is removed and added again.
    pub(crate) version: Option<u32>,
}

/// How an attempt acts on the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// By a process, which can be killed.
    Process,
    /// By a request, which cannot be called back: its receiver looks at the fence.
    Request {
        /// Whether the receiver took it.
        accepted: bool,
    },
}

impl Attempt {
    /// Whether it did its work to the end.
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

/// Seconds, to be shown.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn span(length: Micros) -> f64 {
    length as f64 / 1e6
}

/// One run as `schedctl history --json` shows it.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) run: RunName,
    pub(crate) state: String,
    pub(crate) attempt: u32,
    pub(crate) fence: Option<u64>,
    /// When its last attempt was claimed.
    pub(crate) started: Option<Micros>,
    pub(crate) finished: Option<Micros>,
    /// Since when it waited, if it did.
    pub(crate) waited_from: Option<Micros>,
    pub(crate) reason: String,
    /// The last due of a skipped stretch and how many it has.
    pub(crate) stretch: Option<(Micros, u64)>,
}

/// Who a fault hits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hit {
    /// These nodes.
    Nodes(Vec<String>),
    /// All of them, or what they share.
    Everyone,
}

impl Hit {
    /// Whether it hit this node.
    pub(crate) fn is_on(&self, node: &str) -> bool {
        match self {
            Self::Everyone => true,
            Self::Nodes(nodes) => nodes.iter().any(|hit| hit == node),
        }
    }
}

/// How late a fault may make a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delay {
    /// No later than without it.
    None,
    /// So much later, while it lasts and just after.
    Brief(Micros),
    /// A run held when it began waits for its lease to be given up; later ones are others' and on time.
    AtBegin,
    /// Any run due while it lasts may wait for its end, and for a lease to be given up.
    Throughout,
}

/// What a fault may do, as its row promises it.
#[derive(Debug, Clone)]
pub(crate) struct Harm {
    pub(crate) hit: Hit,
    pub(crate) delay: Delay,
    /// Whether what runs on what was hit may be attempted again.
    pub(crate) may_repeat: bool,
    /// Whether a process of a hit node may live on past its lease (a frozen host).
    pub(crate) may_overlap: bool,
}

/// What else a fault allows, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// Redis lost the last of what it had written: these runs and jobs are named there.
    Forgot(BTreeSet<String>),
    /// Attempts on what was hit may fail to start, with these words in the reason.
    CannotStart(&'static str),
    /// All nodes were down, and one round of catching up follows.
    AllDown,
}

/// A fault as it was inflicted.
#[derive(Debug, Clone)]
pub(crate) struct Inflicted {
    pub(crate) row: String,
    pub(crate) what: String,
    pub(crate) from: Micros,
    pub(crate) to: Micros,
    pub(crate) harm: Harm,
    pub(crate) excuse: Option<Excuse>,
}

/// What a person did.
#[derive(Debug, Clone)]
pub(crate) struct Deed {
    pub(crate) from: Micros,
    pub(crate) to: Micros,
    pub(crate) what: Doing,
}

/// The kinds of it the checker must know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doing {
    /// A job was kept from running in all of this interval.
    Paused(String),
    /// A run was asked to stop.
    Cancelled(String),
    /// A run by hand was accepted.
    Ran(String),
    /// Past occurrences of a job were asked for.
    Backfilled(String),
}

/// One of the jobs that had a name one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Generation {
    /// Of its definition. Two in a row have the same if the definition was the same.
    pub(crate) version: u32,
    pub(crate) when: When,
    /// Between which times it was added.
    pub(crate) added: (Micros, Micros),
    /// Between which times it was removed.
    pub(crate) removed: (Micros, Micros),
    /// Whether nobody saw it removed before the next was added: the next may be an edit of it.
    pub(crate) may_be_edited: bool,
}

/// All of it.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    pub(crate) timing: Timing,
    pub(crate) jobs: BTreeMap<String, Job>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) history: Vec<Recorded>,
    /// Runs as history showed them on the way.
    pub(crate) told: Vec<Recorded>,
    pub(crate) faults: Vec<Inflicted>,
    pub(crate) deeds: Vec<Deed>,
    /// The jobs that had each name, in the order of time, where there was more than one.
    pub(crate) generations: BTreeMap<String, Vec<Generation>>,
    /// How much longer than usual this host itself took to start a program, and when.
    pub(crate) host_lags: Vec<(Micros, Micros)>,
    /// The names of all nodes.
    pub(crate) nodes: Vec<String>,
    /// The nodes that carry the label some jobs require.
    pub(crate) labelled: Vec<String>,
    /// The small node, if there is one.
    pub(crate) small: Option<String>,
    /// What was found left over when all was over.
    pub(crate) leftovers: Vec<String>,
    /// Nodes that ended though nobody made them.
    pub(crate) crashes: Vec<String>,
}
