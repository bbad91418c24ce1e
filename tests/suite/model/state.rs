//! The whole at one instant: Redis, the replica it may fail over to, two nodes with their keepers, and calls still on their way.

use super::redis::{Call, Job, ONCE, RUNS, Redis, Seen, Token, Verdict};
use super::rules::{Budget, Hosts, Rules};

pub(super) const NODES: usize = 2;
/// Calls that can be on their way after their callers gave up.
const LATE: usize = 2;

/// The whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) redis: Redis,
    pub(super) replica: Option<Redis>,
    pub(super) nodes: [Node; NODES],
    /// Calls that may still be done although nobody waits for their answers; sorted.
    pub(super) late: [Option<Call>; LATE],
    pub(super) may: Budget,
    pub(super) seen: Seen,
}

/// One node name: its daemon, and the processes its keeper has not yet killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Node {
    /// Rises with each start.
    pub(super) incarnation: u8,
    pub(super) is_down: bool,
    /// The claim whose answer it has not got.
    pub(super) asking: Option<Asking>,
    /// Broken claim only: a run taken out of the due set, its lease not yet written.
    pub(super) taken: Option<u8>,
    pub(super) tasks: [Option<Task>; RUNS],
    /// Processes of an earlier incarnation, by the fence they run under.
    pub(super) orphans: [Option<u8>; RUNS],
}

/// A claim without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    pub(super) run: u8,
    pub(super) token: Token,
    /// Of the run's job as it was read.
    pub(super) rev: u8,
    /// Its deadline has passed: what it won will not be started.
    pub(super) is_too_late: bool,
}

/// A run a node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Task {
    pub(super) fence: u8,
    pub(super) at: At,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// The claim was answered.
    Won,
    /// The job's process is there.
    Running,
    /// It has ended, and Redis has not said that it knows.
    Ended(Verdict),
}

impl State {
    /// The cron job with its first run planted, and nothing else.
    pub(super) fn first(rules: &Rules) -> Self {
        let cron = Job { rev: 1, same_since: 1, is_removed: false };
        let mut redis = Redis { cron, pending: Some(0), ..Redis::default() };
        redis.runs[0].due = true;
        let mut seen = Seen { revs: 1, ..Seen::default() };
        (seen.planted[0], seen.planted_by[0]) = (1, 1);
        Self { redis, replica: None, nodes: [Node::default(); NODES], late: [None; LATE], may: rules.may, seen }
    }

    /// The runs there are.
    pub(super) fn runs(rules: &Rules) -> impl Iterator<Item = usize> + use<> {
        (0..rules.occurrences).chain(rules.has_once.then_some(ONCE))
    }

    /// Processes of `run` there are, on all hosts.
    pub(super) fn processes(&self, run: usize) -> usize {
        let on = |node: &Node| {
            let is_running = node.tasks[run].is_some_and(|task| task.at == At::Running);
            usize::from(is_running) + usize::from(node.orphans[run].is_some())
        };
        self.nodes.iter().map(on).sum()
    }

    /// The node that still renews the lease of `run`, or will once it gets the answer to its claim.
    pub(super) fn holder(&self, run: usize) -> Option<usize> {
        let (lease, record) = (self.redis.runs[run].lease?, self.redis.runs[run].record?);
        (0..NODES).find(|at| {
            let node = &self.nodes[*at];
            let asks = node.asking.is_some_and(|asking| usize::from(asking.run) == run && asking.token == record.claim);
            node.tasks[run].is_some_and(|task| task.fence == lease.fence) || asks
        })
    }

    /// The lease of `run` was watched for its whole length without a renewal. Where the keepers live no process of its holder
    /// is left by then, and none will be started.
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
            if let Some(asking) =
                node.asking.as_mut().filter(|asking| Some(asking.token) == claim && usize::from(asking.run) == run)
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

    /// Leaves `call` on its way without anybody who waits for it. False if there are too many.
    pub(super) fn leave_late(&mut self, call: Call) -> bool {
        let Some(free) = self.late.iter_mut().find(|late| late.is_none()) else { return false };
        *free = Some(call);
        self.late.sort_unstable();
        true
    }
}
