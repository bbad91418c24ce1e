//! FK: the keeper of a node is killed or stopped, but not its daemon. The table of faults has no
//! row for it.

use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use super::{Fault, LEASE, lost_node, name, node, some_node};
use crate::evidence::{Delay, Harm};
use crate::stage::Stage;

/// FK: the keeper is killed. The daemon kills the keeper's processes, hands the runs to recovery
/// and starts a new keeper.
pub(super) struct KillKeeper {
    node: usize,
}

impl KillKeeper {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { node: some_node(rng, nodes) })
    }
}

impl Fault for KillKeeper {
    fn row(&self) -> &'static str {
        "FK"
    }
    fn what(&self) -> String {
        format!("kill -9 of the keeper of {}", name(self.node))
    }
    fn lasts(&self) -> Duration {
        Duration::from_secs(2)
    }
    fn harm(&self) -> Harm {
        lost_node(self.node)
    }
    fn inflict(&mut self, stage: &Stage) {
        for keeper in node(stage, self.node).daemon().keepers() {
            signal(keeper, Signal::KILL);
        }
    }
    fn heal(&mut self, _stage: &Stage) {}
}

/// FK: the keeper is stopped, so that nothing the daemon asks for happens.
pub(super) struct StopKeeper {
    node: usize,
    length: Duration,
    stopped: Vec<Pid>,
}

impl StopKeeper {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        let length = LEASE.mul_f64([0.3, 1.5][rng.usize(..2)]);
        Box::new(Self { node: some_node(rng, nodes), length, stopped: Vec::new() })
    }
}

impl Fault for StopKeeper {
    fn row(&self) -> &'static str {
        "FK"
    }
    fn what(&self) -> String {
        format!("SIGSTOP of the keeper of {} for {:?}", name(self.node), self.length)
    }
    fn lasts(&self) -> Duration {
        self.length
    }
    fn harm(&self) -> Harm {
        Harm { delay: Delay::Throughout, ..lost_node(self.node) }
    }
    fn inflict(&mut self, stage: &Stage) {
        self.stopped = node(stage, self.node).daemon().keepers();
        for keeper in &self.stopped {
            signal(*keeper, Signal::STOP);
        }
    }
    fn heal(&mut self, stage: &Stage) {
        let still = node(stage, self.node).daemon().keepers();
        for keeper in self.stopped.drain(..).filter(|keeper| still.contains(keeper)) {
            signal(keeper, Signal::CONT);
        }
    }
}

fn signal(keeper: Pid, signal: Signal) {
    // The keeper may have ended; then there is nothing to do.
    let _ = kill_process(keeper, signal);
}
