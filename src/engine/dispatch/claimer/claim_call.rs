//! The claim call, repeated with the same token while no answer comes.
//!
//! Invariant: Redis may have carried out a call whose answer got lost. So the call is repeated as
//! long as the lease that the call may have taken could still be used. After that time the claim is
//! noted as abandoned.

use std::time::Duration;

use super::{Claimer, Planned};
use crate::domain::queue::lane::Lane;
use crate::engine::node_context::Phase;
use crate::engine::planning::planting;
use crate::keeper::BootInstant;
use crate::store::{ClaimOrder, ClaimReply, StoreError};

/// The number of times a claim without an answer is repeated once the node is to stop.
const LAST_TRIES: u32 = 3;

impl Claimer {
    /// Claims the runs in `planned`, at most `slots` of them. The call is repeated with the same
    /// token while no answer comes, because Redis may have carried out the call.
    pub(super) async fn send(
        &self,
        lane: &Lane,
        slots: usize,
        planned: &[Planned],
    ) -> Result<Vec<ClaimReply>, StoreError> {
        let token = planting::token();
        let orders: Vec<ClaimOrder> = planned.iter().map(|planned| planned.order.clone()).collect();
        let answer = self.claim_by(&token, lane, slots, &orders).await;
        if answer.is_err() {
            self.abandoned.note(&token, orders.iter().map(|order| &order.run));
        }
        answer
    }

    async fn claim_by(
        &self,
        token: &str,
        lane: &Lane,
        slots: usize,
        orders: &[ClaimOrder],
    ) -> Result<Vec<ClaimReply>, StoreError> {
        let give_up = BootInstant::now().saturating_add(self.node.settings.lease / 2);
        let mut last_tries = LAST_TRIES;
        loop {
            self.health.progress.ticker.back_within(Duration::ZERO);
            let error = match self
                .node
                .store
                .claim_runs_within(slots, &self.claimant, lane, token, orders)
                .await
            {
                // A poll finds out whether the replacing server knows of a call sent before.
                Err(error @ StoreError::Replaced { .. }) => return Err(error),
                Err(error) if error.is_passing() && BootInstant::now() < give_up => error,
                other => return other,
            };
            if self.node.phase() != Phase::Running {
                if last_tries == 0 {
                    return Err(error);
                }
                last_tries -= 1;
            }
            self.node.outage_log.failed(&error, "this node does not know the result of a claim");
            tokio::time::sleep(self.node.settings.tick.max(Duration::from_millis(50))).await;
        }
    }
}
