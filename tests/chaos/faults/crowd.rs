//! F24: three hundred runs due at the same time, in a queue with few slots. It is no fault, but a
//! load like one.

use std::time::Duration;

use fastrand::Rng;

use super::{Fault, harmless};
use crate::evidence::{Harm, SECOND, now};
use crate::stage::Stage;
use crate::world::adding::add;
use crate::world::jobs::{Job, crowded};

/// F24.
pub(super) struct Crowd {
    number: u32,
    added: Vec<Job>,
}

impl Crowd {
    pub(super) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { number: rng.u32(..), added: Vec::new() })
    }
}

impl Fault for Crowd {
    fn row(&self) -> &'static str {
        "F24"
    }
    fn what(&self) -> String {
        "300 runs due at one instant and 20 a second after, in a queue of few slots".to_owned()
    }
    fn lasts(&self) -> Duration {
        Duration::from_secs(12)
    }
    fn harm(&self) -> Harm {
        harmless()
    }
    fn jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.added)
    }
    fn inflict(&mut self, stage: &Stage) {
        let due = now() + 4 * SECOND;
        let first = (0..300).map(|at| crowded(&format!("crowd-{}-{at}", self.number), due));
        let later =
            (300..320).map(|at| crowded(&format!("crowd-{}-{at}", self.number), due + SECOND));
        self.added = first.chain(later).collect();
        add(stage, &mut self.added);
    }
    fn heal(&mut self, _stage: &Stage) {}
}
