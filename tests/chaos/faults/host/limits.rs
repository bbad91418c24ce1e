//! F20: a running daemon and its keeper may open no more files.

use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::evidence::{Delay, Excuse, Harm, Hit, SECOND};
use crate::faults::{Fault, name, node, some_node};
use crate::stage::Stage;

/// F20: EMFILE.
pub(crate) struct NoFiles {
    node: usize,
    /// The limited processes, each with its former limit.
    limited: Vec<(Pid, Rlimit)>,
}

impl NoFiles {
    pub(crate) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { node: some_node(rng, nodes), limited: Vec::new() })
    }
}

impl Fault for NoFiles {
    fn row(&self) -> &'static str {
        "F20"
    }
    fn what(&self) -> String {
        format!("daemon and keeper of {} may open no more files", name(self.node))
    }
    fn lasts(&self) -> Duration {
        Duration::from_secs(9)
    }
    fn harm(&self) -> Harm {
        // Open connections and leases of the node stay. It tries a run at once, after 2 s and after 4 s
        // more. After the third try, which may fail shortly before the end, it claims nothing for 8 s.
        Harm {
            hit: Hit::Nodes(vec![name(self.node)]),
            delay: Delay::Brief(9 * SECOND),
            may_repeat: false,
            may_overlap: false,
        }
    }
    fn excuse(&self) -> Option<Excuse> {
        Some(Excuse::CannotStart("Too many open files"))
    }
    fn inflict(&mut self, stage: &Stage) {
        let daemon = node(stage, self.node).daemon();
        let pids = daemon.keepers().into_iter().chain(Pid::from_raw(daemon.pid().cast_signed()));
        for pid in pids {
            let limit = rustix::process::getrlimit(Resource::Nofile);
            if let Ok(before) = prlimit(
                Some(pid),
                Resource::Nofile,
                Rlimit { current: Some(4), maximum: limit.maximum },
            ) {
                self.limited.push((pid, before));
            }
        }
    }
    fn heal(&mut self, _stage: &Stage) {
        for (pid, before) in self.limited.drain(..) {
            // The process may have ended.
            let _ = prlimit(Some(pid), Resource::Nofile, before);
        }
    }
}
