//! F6, F8: the Redis server is killed or stands still.

use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use super::{Fault, LEASE, outage};
use crate::evidence::{Harm, Hit};
use crate::stage::Stage;

/// F6: `kill -9` of Redis, started again on its append-only file.
pub(super) struct Kill {
    down: Duration,
}

impl Kill {
    pub(super) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { down: Duration::from_secs([1, 4, 10][rng.usize(..3)]) })
    }
}

impl Fault for Kill {
    fn row(&self) -> &'static str {
        "F6"
    }
    fn what(&self) -> String {
        format!("kill -9 of Redis, started again after {:?}", self.down)
    }
    fn lasts(&self) -> Duration {
        self.down
    }
    fn harm(&self) -> Harm {
        outage(Hit::Everyone, self.down)
    }
    fn inflict(&mut self, stage: &Stage) {
        stage.redis().kill9();
    }
    fn heal(&mut self, stage: &Stage) {
        stage.redis().restart();
    }
}

/// F8: SIGSTOP of Redis for a half, one or two leases.
pub(super) struct Stall {
    length: Duration,
}

impl Stall {
    pub(super) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { length: LEASE.mul_f64([0.5, 1.0, 2.0][rng.usize(..3)]) })
    }
}

impl Fault for Stall {
    fn row(&self) -> &'static str {
        "F8"
    }
    fn what(&self) -> String {
        format!("SIGSTOP of Redis for {:?}", self.length)
    }
    fn lasts(&self) -> Duration {
        self.length
    }
    fn harm(&self) -> Harm {
        outage(Hit::Everyone, self.length)
    }
    fn inflict(&mut self, stage: &Stage) {
        stage.redis().stop_signal_if_alive(Signal::STOP);
    }
    fn heal(&mut self, stage: &Stage) {
        stage.redis().stop_signal_if_alive(Signal::CONT);
    }
}
