//! Sends a claim, and repeats it with the same token until Redis answers.
//!
//! Invariant: Redis may have carried out a claim whose answer was lost. So the claim is repeated
//! for as long as its lease would still be usable. After that time the claim is recorded as
//! abandoned, unless a worker asked for it.

use std::time::Duration;

use super::Claimer;
use crate::engine::node_context::Phase;
use crate::engine::planning::planting;
use crate::engine::status::node_counters::ClaimOutcome;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::host::boot_clock::BootInstant;
use schedd_store::{ClaimOrder, ClaimReply, StoreError};

/// The number of times a claim without an answer is repeated after the node was asked to stop.
const LAST_TRIES: u32 = 3;

impl Claimer {
    /// Claims at most `slots` of the runs in `orders`. A call without an answer is repeated with
    /// the same token, because Redis may have carried out the call.
    pub(super) async fn send(
        &self,
        lane: &Lane,
        slots: usize,
        orders: &[ClaimOrder],
    ) -> Result<Vec<ClaimReply>, StoreError> {
        let token = self.party.token.clone().unwrap_or_else(planting::token);
        let answer = self.claim_by(&token, lane, slots, orders).await;
        if answer.is_err() {
            self.node.counters.claims_answered(ClaimOutcome::Unanswered, orders.len() as u64);
            // The question of a worker may be asked again with the same token, and then gets the runs.
            if self.party.token.is_none() {
                self.abandoned.note(&token, orders.iter().map(|order| &order.run));
            }
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
                .claim_runs(slots, &self.party.claimant, lane, token, orders)
                .await
            {
                // Another Redis server answers now, and may not know this claim. The next poll
                // shows which runs are still due.
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
            self.node.outage_log.failed(&error, "the result of a claim is unknown");
            tokio::time::sleep(self.node.settings.tick.max(Duration::from_millis(50))).await;
        }
    }
}
