//! F1, F2, F3, F5, F28: daemons that are killed, stopped or asked to end.

use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use super::{Fault, LEASE, lost_node, name, node, some_node};
use crate::effects;
use crate::evidence::{Attempt, Delay, Harm, Hit, SECOND, now};
use crate::stage::{Node, Stage};

/// F1: `kill -9` of one daemon, which is started again later.
pub(super) struct Kill {
    node: usize,
    down: Duration,
}

impl Kill {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Box::new(Self {
            node: some_node(rng, nodes),
            down: Duration::from_millis(rng.u64(200..9_000)),
        })
    }
}

impl Fault for Kill {
    fn row(&self) -> &'static str {
        "F1"
    }
    fn what(&self) -> String {
        format!("kill -9 of {}, started again after {:?}", name(self.node), self.down)
    }
    fn lasts(&self) -> Duration {
        self.down
    }
    fn harm(&self) -> Harm {
        lost_node(self.node)
    }
    fn inflict(&mut self, stage: &Stage) {
        kill(node(stage, self.node));
    }
    fn heal(&mut self, stage: &Stage) {
        node(stage, self.node).start_again(stage.dir());
    }
}

/// F2: `kill -9` of all daemons at once.
pub(super) struct KillAll {
    down: Duration,
}

impl KillAll {
    pub(super) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { down: Duration::from_millis(rng.u64(500..8_000)) })
    }
}

impl Fault for KillAll {
    fn row(&self) -> &'static str {
        "F2"
    }
    fn what(&self) -> String {
        format!("kill -9 of all nodes, started again after {:?}", self.down)
    }
    fn lasts(&self) -> Duration {
        self.down
    }
    fn harm(&self) -> Harm {
        Harm { hit: Hit::Everyone, delay: Delay::Throughout, may_repeat: true, may_overlap: false }
    }
    fn inflict(&mut self, stage: &Stage) {
        stage.nodes().iter().for_each(kill);
    }
    fn heal(&mut self, stage: &Stage) {
        for node in stage.nodes() {
            node.start_again(stage.dir());
        }
    }
}

/// F3: only the daemon is stopped for three leases, not its keeper and jobs.
/// If a node runs the job `longest`, that node is chosen, so that a process that outlives its lease
/// is noticed.
pub(super) struct Freeze {
    node: usize,
    longest: Option<String>,
}

impl Freeze {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { node: some_node(rng, nodes), longest: None })
    }
}

impl Fault for Freeze {
    fn row(&self) -> &'static str {
        "F3"
    }
    fn what(&self) -> String {
        let longest =
            self.longest.as_ref().map_or(String::new(), |run| format!(", which runs {run}"));
        format!("SIGSTOP of the daemon of {}{longest}", name(self.node))
    }
    fn lasts(&self) -> Duration {
        LEASE * 3
    }
    fn harm(&self) -> Harm {
        lost_node(self.node)
    }
    fn seek(&mut self, stage: &Stage) {
        let runs = |attempt: &&Attempt| {
            attempt.run.job == "longest"
                && attempt.ended.is_none()
                && attempt.last_sign > now() - SECOND / 2
        };
        let _ = stage.wait(Duration::from_secs(6), || {
            let attempts = effects::so_far(stage.dir());
            let Some(attempt) = attempts.iter().rfind(runs) else { return false };
            let Some(at) = stage.nodes().iter().position(|node| node.name == attempt.node) else {
                return false;
            };
            (self.node, self.longest) = (at, Some(attempt.run.id.clone()));
            true
        });
    }
    fn inflict(&mut self, stage: &Stage) {
        node(stage, self.node).daemon().signal_if_alive(Signal::STOP);
    }
    fn heal(&mut self, stage: &Stage) {
        node(stage, self.node).daemon().signal_if_alive(Signal::CONT);
    }
}

/// F5: SIGTERM. Runs that still execute after the grace are handed back.
pub(super) struct Term {
    node: usize,
}

impl Term {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { node: some_node(rng, nodes) })
    }
}

/// Returns the harm of a stop with grace: runs may be handed back, and nothing is late.
fn stopped(hit: Hit) -> Harm {
    Harm { hit, delay: Delay::None, may_repeat: true, may_overlap: false }
}

impl Fault for Term {
    fn row(&self) -> &'static str {
        "F5"
    }
    fn what(&self) -> String {
        format!("SIGTERM of {}, started again when it has ended", name(self.node))
    }
    fn lasts(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn harm(&self) -> Harm {
        stopped(Hit::Nodes(vec![name(self.node)]))
    }
    fn inflict(&mut self, stage: &Stage) {
        let node = node(stage, self.node);
        node.hold();
        node.daemon().signal_if_alive(Signal::TERM);
    }
    fn heal(&mut self, stage: &Stage) {
        end_and_start_again(stage, node(stage, self.node));
    }
}

/// F28: all daemons one after the other, each ended with its grace.
pub(super) struct Rolling {
    nodes: usize,
}

impl Rolling {
    pub(super) fn draw(_rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { nodes })
    }
}

impl Fault for Rolling {
    fn row(&self) -> &'static str {
        "F28"
    }
    fn what(&self) -> String {
        format!("rolling restart of {} nodes", self.nodes)
    }
    fn lasts(&self) -> Duration {
        Duration::ZERO
    }
    fn harm(&self) -> Harm {
        stopped(Hit::Everyone)
    }
    fn inflict(&mut self, stage: &Stage) {
        for node in stage.nodes() {
            node.hold();
            node.daemon().signal_if_alive(Signal::TERM);
            end_and_start_again(stage, node);
        }
    }
    fn heal(&mut self, _stage: &Stage) {}
}

fn kill(node: &Node) {
    node.hold();
    let mut daemon = node.daemon();
    daemon.signal_if_alive(Signal::KILL);
    daemon.wait_exit();
}

/// Waits for the end of a daemon that was asked to end, and starts it again. A daemon that does not
/// end is killed, which its runs show.
fn end_and_start_again(stage: &Stage, node: &Node) {
    let ended = stage.wait(Duration::from_secs(20), || node.daemon().has_ended().is_some());
    if !matches!(ended, Ok(true)) {
        kill(node);
    }
    node.start_again(stage.dir());
}
