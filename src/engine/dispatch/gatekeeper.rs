//! Opens gates where a place was given up, or that open only by time, and gives free places to
//! waiters.
//!
//! Invariant: any node may open any gate at any time, and several nodes at once, because the script
//! looks at everything anew. A gate with keys of the wrong type delays no other gate, and is not
//! tried at every poll.

use std::collections::HashMap;
use std::time::Duration;

use crate::domain::queue::gate::Gate;
use crate::domain::queue::lane::Lane;
use crate::engine::node_context::NodeContext;
use crate::keeper::BootInstant;
use crate::store::{LaneAsk, StoreError, Takers};

/// The time for which a gate that could not be opened is left alone.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// The most lanes named with the first call. The script asks for any other lane it needs.
const NAMED: usize = 4;

/// Opens gates.
#[derive(Default)]
pub(crate) struct Gatekeeper {
    refused: HashMap<Gate, BootInstant>,
    takers: Takers,
}

impl Gatekeeper {
    /// Opens these gates. `lanes` are the lanes this node polls. Returns how many gates could be
    /// opened.
    pub(crate) async fn open(&mut self, shared: &NodeContext, gates: &[Gate], lanes: &[LaneAsk]) -> Result<usize, StoreError> {
        self.refused.retain(|_, at| BootInstant::now().since(*at) < REFUSED_FOR);
        let mut looked_at = 0;
        for gate in gates {
            if self.refused.contains_key(gate) {
                continue;
            }
            let is_likely = |lane: &&Lane| (*lane).clone().strand_for(gate) == **lane;
            let likely: Vec<Lane> = lanes.iter().map(|ask| &ask.lane).filter(is_likely).take(NAMED).cloned().collect();
            match shared.store.open_gate(gate, &likely, &mut self.takers).await {
                Ok(_) => looked_at += 1,
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => {
                    shared.weather.failed(&error, &format!("runs that wait for {} do not start", gate.words()));
                    self.refused.insert(gate.clone(), BootInstant::now());
                }
            }
        }
        Ok(looked_at)
    }
}
