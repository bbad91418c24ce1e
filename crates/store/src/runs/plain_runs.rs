//! Plain runs: the claims and ends that need few reads, many runs in one call.
//!
//! Invariant: these calls have the effects that `claim_runs` and `finish_run` would have. The
//! script does not change a run that is not plain. The caller then uses `claim_runs` or
//! `finish_run` for that run. It does so too if a key of another type stopped the script: the script
//! checks only the types of the keys that it does not read before it writes.

use super::claims::{Claim, ClaimOrder, Claimant};
use crate::Store;
use crate::history::run_record::delivery_word;
use crate::server::scripts;
use crate::server::scripts::millis;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::QueueName;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The end of a successful attempt of a run that may be plain.
#[derive(Debug, Clone)]
pub struct PlainEnd {
    /// The claim of the attempt. It has no places at gates.
    pub claim: Claim,
    /// The reason of the end, or an empty text.
    pub reason: String,
    /// The fields for the run's record and their values.
    pub facts: Vec<(&'static str, String)>,
}

impl ClaimOrder {
    /// Returns true unless this order or `lane` shows that the run is not plain. The script then
    /// decides by the records of the run and its job.
    fn may_be_plain(&self, lane: &Lane) -> bool {
        !self.run.is_manual()
            && self.max_age.is_none()
            && self.max_runs.is_none()
            && self.gates.is_empty()
            && self.known_places.is_empty()
            && self.job_lane == *lane
    }
}

impl Claim {
    /// Returns true unless the claim shows that the run is not plain. The script decides when the
    /// run ends.
    pub fn may_be_plain(&self) -> bool {
        !self.run.is_manual() && self.places.is_empty()
    }
}

impl Store {
    /// Claims at most `slots` runs. Returns a claim for each order up to the first order whose run
    /// is not plain, or `None` if another node claimed the run first. The caller passes the
    /// remaining orders to `claim_runs.lua`. A call sends the commands in `note` first, and empties it.
    pub(super) async fn claim_plain_runs(
        &self,
        slots: usize,
        claimant: &Claimant,
        lane: &Lane,
        token: &str,
        orders: &[ClaimOrder],
        note: &mut Vec<redis::Cmd>,
    ) -> Result<Vec<Option<Claim>>, StoreError> {
        let plain = orders.iter().take_while(|order| order.may_be_plain(lane)).count();
        if plain == 0 {
            return Ok(Vec::new());
        }
        let mut call = self
            .call(&scripts::CLAIM_PLAIN_RUNS)
            .after(std::mem::take(note))
            .of_lane(lane)
            .arg("node", &claimant.holder)
            .arg("incarnation", &claimant.incarnation)
            .arg("token", token)
            .arg("lease_ms", millis(claimant.lease))
            .arg("lane", lane.as_str())
            .arg("slots", slots);
        for order in &orders[..plain] {
            let next = order.successor.as_ref();
            call = call
                .item()
                .of_run(&order.run)
                .key("successor_run", self.successor_key(next, order.run.job()))
                .arg("rev", order.rev.as_str())
                .arg("delivery", delivery_word(order.delivery))
                .optional("latest_start", order.latest_start.map(UnixMillis::as_i64))
                .successor("successor", next);
        }
        let mut reply = match self.link.invoke_where_trusted(&call).await {
            Err(StoreError::Corrupt { .. }) => return Ok(Vec::new()),
            reply => reply?,
        };
        if reply.word != "claimed" {
            return Err(reply.unknown());
        }
        let claimed_at = reply.instant()?;
        reply.number()?;
        let answered = orders.iter().take(reply.left());
        let claims = answered.map(|order| {
            let fence = reply.fence()?;
            Ok((fence.as_u64() > 0).then(|| order.first_claim(lane, fence, claimed_at)))
        });
        claims.collect()
    }

    /// Ends successful attempts of plain runs of `queue`. Returns for each run the number of its
    /// job's runs in history, or None if the run is not plain and needs `finish_run`.
    pub async fn finish_plain_runs(
        &self,
        queue: &QueueName,
        ends: &[PlainEnd],
    ) -> Result<Vec<Option<u32>>, StoreError> {
        let mut call = self.call(&scripts::FINISH_PLAIN_RUNS).of_queue(queue);
        for PlainEnd { claim, reason, facts } in ends {
            let facts: Vec<&str> =
                facts.iter().flat_map(|(field, value)| [*field, value.as_str()]).collect();
            call = call
                .item()
                .of_run(&claim.run)
                .arg("fence", claim.fence.as_u64())
                .arg("reason", reason)
                .arg("facts", serde_json::json!(facts).to_string());
        }
        let mut reply = match self.link.invoke(&call).await {
            Err(StoreError::Corrupt { .. }) => return Ok(vec![None; ends.len()]),
            reply => reply?,
        };
        if reply.word != "finished" {
            return Err(reply.unknown());
        }
        let kept = ends.iter().map(|_| Ok(u32::try_from(reply.number()?).ok()));
        kept.collect()
    }
}
