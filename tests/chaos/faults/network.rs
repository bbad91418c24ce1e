//! F9 and F10: the connection of one node to Redis is bad. Answers are lost (F9), or it is cut,
//! slow, trickling or half open (F10).

use std::time::Duration;

use fastrand::Rng;

use super::{Fault, name, node, outage, some_node};
use crate::evidence::{Delay, Harm, Hit, SECOND};
use crate::proxy::LinkState;
use crate::stage::Stage;

/// A connection fault on the proxy of one node.
pub(super) struct Bad {
    row: &'static str,
    node: usize,
    link_state: LinkState,
    length: Duration,
}

impl Bad {
    fn drawn(
        rng: &mut Rng,
        nodes: usize,
        row: &'static str,
        link_state: LinkState,
        millis: &[u64],
    ) -> Box<dyn Fault> {
        let length = Duration::from_millis(millis[rng.usize(..millis.len())]);
        Box::new(Self { row, node: some_node(rng, nodes), link_state, length })
    }

    pub(super) fn lost_replies(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Self::drawn(rng, nodes, "F9", LinkState::Swallow, &[300, 1_200, 4_000])
    }

    pub(super) fn cut_replies(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Self::drawn(rng, nodes, "F10", LinkState::Cut, &[300, 1_200, 4_000])
    }

    pub(super) fn slow(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Self::drawn(rng, nodes, "F10", LinkState::Slow(Duration::from_millis(200)), &[3_000, 8_000])
    }

    pub(super) fn trickle(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Self::drawn(rng, nodes, "F10", LinkState::Trickle, &[3_000])
    }

    pub(super) fn blackhole(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Self::drawn(rng, nodes, "F10", LinkState::Blackhole, &[1_000, 4_000, 12_000])
    }
}

impl Fault for Bad {
    fn row(&self) -> &'static str {
        self.row
    }
    fn what(&self) -> String {
        format!("{:?} between {} and Redis for {:?}", self.link_state, name(self.node), self.length)
    }
    fn lasts(&self) -> Duration {
        self.length
    }
    fn harm(&self) -> Harm {
        let hit = Hit::Nodes(vec![name(self.node)]);
        match self.link_state {
            // A few round trips lie between a due time and a start.
            LinkState::Slow(_) => {
                Harm { hit, delay: Delay::Brief(3 * SECOND), may_repeat: false, may_overlap: false }
            }
            _ => outage(hit, self.length),
        }
    }
    fn inflict(&mut self, stage: &Stage) {
        node(stage, self.node).proxy.set(self.link_state);
    }
    fn heal(&mut self, stage: &Stage) {
        node(stage, self.node).proxy.set(LinkState::Clear);
    }
}
