//! Looks at gates where a place was given up or which time alone opens, and has those that wait given their places.
//!
//! Invariant: any node may do so at any time, and several at once: the script looks at everything anew. A gate whose keys hold
//! something else holds up no other, and is not tried at every poll.

use std::collections::HashMap;
use std::time::Duration;

use super::shared::Shared;
use crate::domain::gate::Gate;
use crate::domain::lane::Lane;
use crate::keeper::BootInstant;
use crate::store::{LaneAsk, StoreError, Takers};

/// How long a gate that could not be looked at is left alone.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Lanes named beforehand; others are asked for.
const NAMED: usize = 4;

/// Opens gates.
#[derive(Default)]
pub(super) struct Gatekeeper {
    refused: HashMap<Gate, BootInstant>,
    takers: Takers,
}

impl Gatekeeper {
    /// Looks at these gates; `lanes` are those this node polls. How many it could look at.
    pub(super) async fn open(&mut self, shared: &Shared, gates: &[Gate], lanes: &[LaneAsk]) -> Result<usize, StoreError> {
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
                    shared.weather.failed(&error, &format!("what waits for {} stands still", gate.words()));
                    self.refused.insert(gate.clone(), BootInstant::now());
                }
            }
        }
        Ok(looked_at)
    }
}
