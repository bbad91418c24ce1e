//! Handles late results: sends a run or its end to Redis again if Redis lost the run during the
//! execution.
//!
//! Invariant: a run that another node has, or that Redis still has, is not changed. A changed epoch
//! of the data shows that data was lost.

use std::time::Duration;

use tracing::warn;

use super::verdict;
use super::verdict::AttemptVerdict;
use crate::engine::node_context::{NodeContext, Phase};
use crate::engine::recovery::journal::{EndedRun, JournalLine};
use crate::engine::recovery::loss::journal_upload;
use crate::engine::recovery::loss::loss_watch::LossWatch;
use schedd_core::domain::run::run_state::{AttemptOutcome, RunState};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Claim, ReturnReply, Verdict};

/// The most times that a lost run or its end is sent to Redis. The first tries may fail, because
/// the job of the run must be restored first.
const OFFERS: u32 = 20;
/// The interval between the tries to send a lost run or its end.
const OFFER_AGAIN: Duration = Duration::from_millis(500);
/// The number of polls that must show an unchanged epoch before a refused end means that another
/// node has the run. Nodes notice a data loss within a second.
const LOOKS: u32 = 4;

/// The duration and the time of an attempt's end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptEnd {
    /// The duration of the attempt.
    pub(crate) took: Duration,
    /// The time of the end by Redis' clock. It is counted from the sending of the claim, so it is
    /// never earlier than the real end.
    pub(crate) at: UnixMillis,
}

/// Returns the end of an attempt in the form that the journal stores.
pub(crate) fn ended(
    claim: &Claim,
    decision: &AttemptVerdict,
    state: RunState,
    outcome: &AttemptOutcome,
    end: AttemptEnd,
) -> EndedRun {
    let mut facts = vec![
        ("attempt", claim.attempt.to_string()),
        ("started_at", claim.claimed_at.as_i64().to_string()),
    ];
    facts.extend(
        verdict::facts(outcome, decision, end.took)
            .into_iter()
            // The facts of an earlier attempt are replaced.
            .filter(|(_, value)| claim.claimed_before || !value.is_empty()),
    );
    EndedRun {
        run: claim.run.to_string(),
        queue: claim.lane.as_str().to_owned(),
        state: state.as_str().to_owned(),
        reason: if matches!(decision.verdict, Verdict::Final(_)) {
            decision.reason.clone()
        } else {
            String::new()
        },
        ended_at: end.at.as_i64(),
        fence: claim.fence.as_u64(),
        facts: facts.into_iter().map(|(field, value)| (field.to_owned(), value)).collect(),
    }
}

/// Restores the end of a run if Redis refused the end because Redis had lost the run. In this case,
/// the epoch of the data differs from `claimed_in`, the epoch at the claim. If the epoch is
/// unchanged, another node has the run, and nothing is restored.
pub(crate) async fn offer_end(
    node: &NodeContext,
    loss_watch: &LossWatch,
    claim: &Claim,
    end: &EndedRun,
    claimed_in: &str,
) {
    let (mut looks, mut is_noted) = (0, false);
    for _ in 0..OFFERS {
        if node.phase() == Phase::Aborting || looks == LOOKS {
            return;
        }
        let is_lost = loss_watch.epoch() != claimed_in;
        let known = loss_watch.known_now();
        if !is_lost
            && let Ok(poll) = node.store.list_due(&[]).await
            && loss_watch.knows(&poll, known)
        {
            looks += 1;
        } else if !std::mem::replace(&mut is_noted, true) {
            // The end is recorded before this node restores its journal. Otherwise the restore
            // would end the run as lost.
            loss_watch.journal().note([JournalLine::Ended(end.clone())]);
        }
        if is_lost {
            match journal_upload::give_back_end(node, loss_watch, end).await {
                Ok(true) => warn!(
                    "Redis lost this run after its start. This node has restored the end of the run."
                ),
                Ok(false) => {}
                Err(error) if error.is_passing() => {
                    tokio::time::sleep(OFFER_AGAIN).await;
                    continue;
                }
                Err(error) => node
                    .outage_log
                    .failed(&error, &format!("a run of job {} is not restored", claim.run.job())),
            }
            return;
        }
        tokio::time::sleep(OFFER_AGAIN).await;
    }
}

/// Gives back a run that was stopped because its lease was gone. `claimed_in` is the epoch of the
/// data at the claim. If Redis had lost the run, the run is planned again.
pub(crate) async fn offer_back(node: &NodeContext, claim: &Claim, claimed_in: &str) {
    for _ in 0..OFFERS {
        match node
            .store
            .return_run(claim, claimed_in, "Redis lost the run during its execution")
            .await
        {
            Ok(ReturnReply::Returned) => {
                warn!("Redis lost this run during its execution. The run is due again.");
                return;
            }
            // Another node has the run, so nothing is to be done.
            Ok(ReturnReply::Known) => return,
            Ok(ReturnReply::Same | ReturnReply::Unknown) => {}
            Err(error) if error.is_passing() => {}
            Err(error) => {
                node.outage_log.failed(
                    &error,
                    &format!("a run of job {} is not planned again", claim.run.job()),
                );
                return;
            }
        }
        if node.phase() == Phase::Aborting {
            return;
        }
        tokio::time::sleep(OFFER_AGAIN).await;
    }
}
