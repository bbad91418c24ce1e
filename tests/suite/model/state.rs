//! The state of the whole model: Redis, the replica, two nodes with their keepers, and calls still
//! on their way.

use super::redis::{Call, Job, ONCE, RUNS, Redis, Seen, Token, Verdict};
use super::rules::{Budget, Hosts, Rules};

pub(super) const NODES: usize = 2;
/// The most calls that can be on their way after their callers gave up.
const LATE: usize = 2;

/// The state of the whole model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) redis: Redis,
    pub(super) replica: Option<Redis>,
    pub(super) nodes: [Node; NODES],
    /// The calls that may still be done although nobody waits for their answers; sorted.
    pub(super) late: [Option<Call>; LATE],
    pub(super) may: Budget,
    pub(super) seen: Seen,
}

/// One node name: its daemon, and the processes that its keeper has not yet killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Node {
    /// A number that rises with each start.
    pub(super) incarnation: u8,
    pub(super) is_down: bool,
    /// The claim whose answer is still missing.
    pub(super) asking: Option<Asking>,
    /// The run that a broken claim removed from the due set, before its lease is written.
    pub(super) taken: Option<u8>,
    pub(super) tasks: [Option<Task>; RUNS],
    /// The processes of an earlier incarnation, by the fence under which they run.
    pub(super) orphans: [Option<u8>; RUNS],
}

/// A claim without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    pub(super) run: u8,
    pub(super) token: Token,
    /// The revision of the run's job, as read.
    pub(super) rev: u8,
    /// True if the claim's deadline has passed: its run will not be started.
    pub(super) is_too_late: bool,
}

/// A run that a node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Task {
    pub(super) fence: u8,
    pub(super) at: At,
}

/// The progress of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// The claim was answered.
    Won,
    /// The job's process runs.
    Running,
    /// The process has ended, and Redis has not acknowledged the end.
    Ended(Verdict),
}

impl State {
    /// Returns a state with the cron job and its first run planted.
    pub(super) fn first(rules: &Rules) -> Self {
        let cron = Job { rev: 1, same_since: 1, is_removed: false };
        let mut redis = Redis { cron, pending: Some(0), ..Redis::default() };
        redis.runs[0].due = true;
        let mut seen = Seen { revs: 1, ..Seen::default() };
        (seen.planted[0], seen.planted_by[0]) = (1, 1);
        Self {
            redis,
            replica: None,
            nodes: [Node::default(); NODES],
            late: [None; LATE],
            may: rules.may,
            seen,
        }
    }

    /// Returns the runs of a configuration.
    pub(super) fn runs(rules: &Rules) -> impl Iterator<Item = usize> + use<> {
        (0..rules.occurrences).chain(rules.has_once.then_some(ONCE))
    }

    /// Returns the number of processes of `run` on all hosts.
    pub(super) fn processes(&self, run: usize) -> usize {
        let on = |node: &Node| {
            let is_running = node.tasks[run].is_some_and(|task| task.at == At::Running);
            usize::from(is_running) + usize::from(node.orphans[run].is_some())
        };
        self.nodes.iter().map(on).sum()
    }

    /// Returns the node that still renews the lease of `run`, or will do so once it gets the answer
    /// to its claim.
    pub(super) fn holder(&self, run: usize) -> Option<usize> {
        let (lease, record) = (self.redis.runs[run].lease?, self.redis.runs[run].record?);
        (0..NODES).find(|at| {
            let node = &self.nodes[*at];
            let asks = node.asking.is_some_and(|asking| {
                usize::from(asking.run) == run && asking.token == record.claim
            });
            node.tasks[run].is_some_and(|task| task.fence == lease.fence) || asks
        })
    }

    /// Marks the lease of `run` as watched for its whole length without a renewal.
    /// Where keepers live, no process of its holder is left by then, and none will be started.
    pub(super) fn let_run_out(&mut self, run: usize, rules: &Rules) {
        let holder = self.holder(run);
        let claim = self.redis.runs[run].record.map(|record| record.claim);
        let Some(lease) = &mut self.redis.runs[run].lease else { return };
        lease.has_run_out = true;
        let fence = lease.fence;
        if rules.hosts == Hosts::Frozen && holder.is_some() {
            return;
        }
        for node in &mut self.nodes {
            node.tasks[run].take_if(|task| task.fence == fence && !matches!(task.at, At::Ended(_)));
            node.orphans[run].take_if(|orphan| *orphan == fence);
            if let Some(asking) = node
                .asking
                .as_mut()
                .filter(|asking| Some(asking.token) == claim && usize::from(asking.run) == run)
            {
                asking.is_too_late = true;
            }
        }
    }

    pub(super) fn kill_node(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        for run in 0..RUNS {
            if let Some(Task { fence, at: At::Running }) = node.tasks[run].take() {
                node.orphans[run] = Some(fence);
            }
        }
        (node.is_down, node.asking, node.taken) = (true, None, None);
    }

    /// Adds `call` to the calls on their way. Returns false if there are too many.
    pub(super) fn leave_late(&mut self, call: Call) -> bool {
        let Some(free) = self.late.iter_mut().find(|late| late.is_none()) else { return false };
        *free = Some(call);
        self.late.sort_unstable();
        true
    }
}
