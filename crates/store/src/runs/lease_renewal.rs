//! Renewing the leases of claims.

use std::time::Duration;

use crate::Store;
use crate::server::reply::Reply;
use crate::server::scripts;
use crate::server::scripts::{Invocation, Script, millis};
use crate::server::store_error::StoreError;
use schedd_schedule::names::{Fence, RunId};

/// The result of renewing the lease of one claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseWord {
    /// The lease was renewed, and the run may continue.
    Extended,
    /// The lease was renewed, and the run is asked to stop. The text is the reason.
    Stop(String),
    /// The lease no longer belongs to this claim, so the node has lost the run.
    Lost,
}

impl Store {
    /// Renews the leases of these claims until `lease` from now. Returns one result for each claim.
    /// Uses the connection for claims if the connection for renewals fails.
    pub async fn renew_leases(
        &self,
        lease: Duration,
        claims: &[(RunId, Fence)],
    ) -> Result<Vec<LeaseWord>, StoreError> {
        let call = self.renewal(&scripts::RENEW_LEASES, lease, claims);
        let reply = match self.renewals.invoke(&call).await {
            // In a box, because it is rare and its future is large.
            Err(StoreError::SlotMoves { .. }) => {
                return Box::pin(self.renew_in_move(lease, claims)).await;
            }
            // A node without free file descriptors cannot open a new connection, but its connection
            // for claims may still work.
            Err(StoreError::Unavailable { .. }) => self.link.invoke(&call).await?,
            reply => reply?,
        };
        words_in(reply, claims.len())
    }

    /// Renews the leases of these claims while the slot of the namespace moves to another node of the
    /// cluster. A request to stop a run is seen when the slot has moved.
    pub async fn renew_in_move(
        &self,
        lease: Duration,
        claims: &[(RunId, Fence)],
    ) -> Result<Vec<LeaseWord>, StoreError> {
        let call = self.renewal(&scripts::RENEW_LEASES_IN_MOVE, lease, claims);
        words_in(self.renewals.invoke_in_move(&call).await?, claims.len())
    }

    /// Returns a call of `script` for these claims.
    fn renewal(
        &self,
        script: &'static Script,
        lease: Duration,
        claims: &[(RunId, Fence)],
    ) -> Invocation {
        let call = self.call(script).arg("lease_ms", millis(lease));
        let item = |call: Invocation, (run, fence): &(RunId, Fence)| {
            call.item().of_run(run).arg("fence", fence.as_u64())
        };
        claims.iter().fold(call, item)
    }
}

/// Reads the reply of a renewal script, which has one word for each of `count` claims.
fn words_in(mut reply: Reply, count: usize) -> Result<Vec<LeaseWord>, StoreError> {
    if reply.word != "renewed" {
        return Err(reply.unknown());
    }
    reply.number()?;
    let mut word = || {
        let word = reply.text()?;
        match word.as_str() {
            "extended" => Ok(LeaseWord::Extended),
            "lost" => Ok(LeaseWord::Lost),
            other => other
                .strip_prefix("stop:")
                .map(|reason| LeaseWord::Stop(reason.to_owned()))
                .ok_or_else(|| {
                    let found = format!("the reply {other:?} is unknown");
                    StoreError::corrupt("reply of script renew_leases", found)
                }),
        }
    };
    (0..count).map(|_| word()).collect()
}
