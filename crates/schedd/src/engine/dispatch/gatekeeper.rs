//! Opens gates: gives the free places of gates to the runs that wait there. A gate is opened after
//! a holder gave up its place, or at a set time.
//!
//! Invariant: several nodes may open the same gate at once, because the script in Redis reads the
//! present state of the gate. A gate whose keys have the wrong type delays no other gate, and is
//! not tried at every poll.

use std::collections::HashMap;
use std::time::Duration;

use super::slots::Offer;
use crate::engine::node_context::NodeContext;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::host::boot_clock::BootInstant;
use schedd_store::{StoreError, Takers};

/// The time for which a gate is not opened again after its free places could not be given.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// The most lanes that the first call for a gate names. If the script needs another lane, its reply
/// names that lane.
const NAMED: usize = 4;

/// The part of dispatch that gives the free places of gates to waiting runs. It remembers the gates
/// that recently could not be opened.
#[derive(Default)]
pub(crate) struct Gatekeeper {
    refused: HashMap<Gate, BootInstant>,
    takers: Takers,
}

impl Gatekeeper {
    /// Gives the free places of `gates` to waiting runs, and returns the number of gates where this
    /// succeeded. `offers` have the lanes that this node serves.
    pub(crate) async fn open(
        &mut self,
        node: &NodeContext,
        gates: &[Gate],
        offers: &[Offer],
    ) -> Result<usize, StoreError> {
        self.refused.retain(|_, at| BootInstant::now().since(*at) < REFUSED_FOR);
        let mut looked_at = 0;
        for gate in gates {
            if self.refused.contains_key(gate) {
                continue;
            }
            let is_likely = |lane: &&Lane| (*lane).clone().shard_for(gate) == **lane;
            let lanes = offers.iter().flat_map(|offer| &offer.lanes);
            let likely: Vec<Lane> = lanes.filter(is_likely).take(NAMED).cloned().collect();
            match node.store.open_gate(gate, &likely, &mut self.takers).await {
                Ok(_) => looked_at += 1,
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => {
                    node.outage_log.failed(
                        &error,
                        &format!("runs that wait at the gate {} do not start", gate.words()),
                    );
                    self.refused.insert(gate.clone(), BootInstant::now());
                }
            }
        }
        Ok(looked_at)
    }
}
