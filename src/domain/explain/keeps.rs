//! What keeps a ready run from starting at the moment it is asked about, as Redis shows it. Nodes note what befalls them only once it
//! has lasted; whoever asks sooner is told by this.
//!
//! Invariant: it is told of a run that is ready and in its lane, and only if no node can take it; of a job without such a run only
//! that its queue is paused, which will keep the next.

use super::facts::{Facts, RunFacts, Subject};
use super::timing::Timing;
use crate::domain::ids::RunId;
use crate::domain::queue::QueueHold;
use crate::domain::time::UnixMillis;

/// One thing that keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keeps {
    /// Its queue lets nothing begin.
    Queue {
        /// What keeps it.
        hold: QueueHold,
        /// Who paused it, its limit or its rate, as far as that is known.
        detail: String,
        /// Of a paused one since when, as far as that is known.
        since: Option<UnixMillis>,
        /// What executes in it, some of all.
        running: Executing,
    },
    /// A key of its queue holds something else, so that nothing of its lane is claimed.
    Spoilt {
        /// Which, what it holds and how that is mended.
        why: String,
    },
    /// Nodes that take it execute as many of its queue as they may.
    Slots {
        /// The nodes.
        nodes: Vec<String>,
        /// What executes in the queue, some of all.
        running: Executing,
    },
    /// A node that takes it is past a limit of its own.
    Held {
        /// The node.
        node: String,
        /// Which limit.
        why: String,
        /// Since when.
        since: UnixMillis,
    },
    /// No node is there.
    NoNode,
}

/// Runs that execute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executing {
    /// The first of them.
    pub some: Vec<RunId>,
    /// How many there are.
    pub count: u64,
}

impl Executing {
    /// `a@1 executes`, `a@1, b@2 and 3 more execute`; none if nothing does.
    pub(super) fn words(&self) -> Option<String> {
        let names: Vec<String> = self.some.iter().map(ToString::to_string).collect();
        let more = self.count.saturating_sub(names.len() as u64);
        Some(match (names.as_slice(), more) {
            ([], 0) => return None,
            ([], more) => format!("{more} runs execute"),
            ([one], 0) => format!("{one} executes"),
            ([most @ .., last], 0) => format!("{} and {last} execute", most.join(", ")),
            (all, more) => format!("{} and {more} more execute", all.join(", ")),
        })
    }
}

impl Facts {
    /// The run asked about, or the first of the job, that is ready and that nobody has claimed.
    pub fn owed(&self) -> Option<&RunFacts> {
        match &self.subject {
            Subject::Job { open, .. } => open.iter().find(|run| run.is_owed(self.now)),
            _ => self.run().filter(|run| run.is_owed(self.now)),
        }
    }
}

/// What keeps an owed run now, but for what `noted` says already: of that is known since when it lasts.
pub(super) fn keeping(facts: &Facts, run: &RunFacts, noted: &[Timing]) -> Vec<Timing> {
    let is_noted = |keeps: &Keeps| {
        noted.iter().any(|found| match (keeps, found) {
            (Keeps::Queue { hold: QueueHold::Full, .. } | Keeps::Slots { .. }, _) => false,
            (Keeps::Queue { hold, .. }, Timing::Queue { hold: noted, to: None, .. }) => hold == noted,
            (Keeps::Held { node, .. }, Timing::Held { nodes, to: None, .. }) => nodes.contains(node),
            (Keeps::NoNode, Timing::NoNode { until: None, .. }) => true,
            _ => false,
        })
    };
    let queue = run.lane.queue();
    let told = |keeps: &Keeps| match keeps.clone() {
        Keeps::Queue { hold, detail, since, running } => Timing::QueueNow { queue: queue.clone(), hold, detail, since, running },
        Keeps::Spoilt { why } => Timing::SpoiltNow { lane: run.lane.clone(), why },
        Keeps::Slots { nodes, running } => Timing::SlotsNow { nodes, queue: queue.clone(), running },
        Keeps::Held { node, why, since } => Timing::HeldNow { node, why, since },
        Keeps::NoNode => Timing::NoNodeNow,
    };
    facts.keeps.iter().filter(|keeps| !is_noted(keeps)).map(told).collect()
}

/// That the queue of a job of which nothing is owed is paused.
pub(super) fn paused_queue(facts: &Facts) -> Vec<Timing> {
    let Some(Ok((spec, _))) = facts.job.as_ref().map(|job| &job.definition) else { return Vec::new() };
    let told = |keeps: &Keeps| match keeps.clone() {
        Keeps::Queue { hold: hold @ QueueHold::Paused, detail, since, running } => {
            Some(Timing::QueueNow { queue: spec.queue.clone(), hold, detail, since, running })
        }
        _ => None,
    };
    facts.keeps.iter().filter_map(told).collect()
}
