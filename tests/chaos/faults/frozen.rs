//! Hosts that stand still: F4 (one host) and F18 (all hosts with Redis, as when a machine is
//! suspended).
//! Under F18 the clock that counts sleep goes on, and nothing runs.
//!
//! Invariant: each stopped process gets SIGCONT, the daemon first, so that no keeper takes it for
//! dead.

use std::fs;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use super::{Fault, LEASE, lost_node, name, node, some_node};
use crate::evidence::{Delay, Harm, Hit};
use crate::stage::Stage;

/// F4: daemon, keeper and jobs of a node are stopped for longer than its lease.
pub(super) struct Host {
    node: usize,
    stopped: Vec<i32>,
}

impl Host {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { node: some_node(rng, nodes), stopped: Vec::new() })
    }
}

impl Fault for Host {
    fn row(&self) -> &'static str {
        "F4"
    }
    fn what(&self) -> String {
        format!("SIGSTOP of {} whole: daemon, keeper and jobs", name(self.node))
    }
    fn lasts(&self) -> Duration {
        LEASE * 2
    }
    fn harm(&self) -> Harm {
        Harm { may_overlap: true, ..lost_node(self.node) }
    }
    fn inflict(&mut self, stage: &Stage) {
        freeze(stage, &[self.node], &mut self.stopped);
    }
    fn heal(&mut self, _stage: &Stage) {
        thaw(&mut self.stopped);
    }
}

/// F18: everything is stopped for at least two leases.
pub(super) struct Suspend {
    nodes: usize,
    length: Duration,
    stopped: Vec<i32>,
}

impl Suspend {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Box::new(Self {
            nodes,
            length: LEASE.mul_f64([2.0, 2.7][rng.usize(..2)]),
            stopped: Vec::new(),
        })
    }
}

impl Fault for Suspend {
    fn row(&self) -> &'static str {
        "F18"
    }
    fn what(&self) -> String {
        format!("SIGSTOP of Redis and all nodes whole for {:?}", self.length)
    }
    fn lasts(&self) -> Duration {
        self.length
    }
    fn harm(&self) -> Harm {
        Harm { hit: Hit::Everyone, delay: Delay::Throughout, may_repeat: true, may_overlap: false }
    }
    fn inflict(&mut self, stage: &Stage) {
        stage.redis().stop_signal_if_alive(Signal::STOP);
        freeze(stage, &(0..self.nodes).collect::<Vec<_>>(), &mut self.stopped);
    }
    fn heal(&mut self, stage: &Stage) {
        stage.redis().stop_signal_if_alive(Signal::CONT);
        thaw(&mut self.stopped);
    }
}

/// Stops all processes of these nodes; processes that start others come first.
fn freeze(stage: &Stage, nodes: &[usize], stopped: &mut Vec<i32>) {
    for &number in nodes {
        let mut daemon = node(stage, number).daemon();
        daemon.signal_if_alive(Signal::STOP);
        stopped.push(daemon.pid().cast_signed());
        for keeper in daemon.keepers() {
            let _ = kill_process(keeper, Signal::STOP);
            stopped.push(keeper.as_raw_nonzero().get());
        }
    }
    // A job may start a process during the search.
    loop {
        let jobs = stage.marked_processes().into_iter().map(|(pid, _)| pid);
        let new: Vec<i32> = jobs
            .filter(|pid| {
                !stopped.contains(pid) && nodes.iter().any(|node| is_of(*pid, &name(*node)))
            })
            .collect();
        if new.is_empty() {
            return;
        }
        for pid in new {
            signal(pid, Signal::STOP);
            stopped.push(pid);
        }
    }
}

fn thaw(stopped: &mut Vec<i32>) {
    stopped.drain(..).for_each(|pid| signal(pid, Signal::CONT));
}

/// Returns true if this is a process of a job on that node.
pub(super) fn is_of(pid: i32, node: &str) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ
        .split(|byte| *byte == 0)
        .any(|variable| variable == format!("SCHEDD_NODE={node}").as_bytes())
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The process may have ended.
        let _ = kill_process(pid, signal);
    }
}
