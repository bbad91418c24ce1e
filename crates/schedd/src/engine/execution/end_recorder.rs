//! Records the ends of attempts in Redis. The ends of plain runs that wait at the same time go
//! there in one call.
//!
//! Invariant: an end counts as recorded only by a reply of Redis to this end. If a call for many
//! ends fails, or leaves an end out, the end is sent alone, unless its caller reads the run first.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::verdict::AttemptVerdict;
use crate::engine::node_context::NodeContext;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{
    CallSender, Claim, FinishReply, PlainEnd, SharedCalls, StoreError, Verdict, WaitingItem,
};

/// The most ends in one call. Redis serves no other client during the call.
const MOST: usize = 100;

/// The time for which an end waits for others if a call for several ends has just ended.
const GATHERING: Duration = Duration::from_millis(1);
/// The time after the start of such a call within which further ends are likely.
const JUST: Duration = Duration::from_millis(3);

/// The part of a node that sends the ends of attempts to Redis.
pub(crate) struct EndRecorder {
    node: Arc<NodeContext>,
    /// The ends of plain runs that no call has taken yet.
    ends: SharedCalls<PlainEnd, PlainReply>,
    /// The time of the last call for several ends. `None` before the first.
    last_shared_call: Mutex<Option<Instant>>,
}

/// The answer of Redis to the end of a run that may be plain, sent together with other ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum PlainReply {
    /// The end is recorded. The value is the number of runs in the job's history.
    Recorded(u32),
    /// The run is not plain, or has ended, or another claim has it. Nothing was recorded.
    Refused,
    /// The call failed. Redis may have recorded the end.
    Unanswered,
}

impl EndRecorder {
    pub(crate) fn new(node: Arc<NodeContext>) -> Self {
        Self { node, ends: SharedCalls::default(), last_shared_call: Mutex::default() }
    }

    /// Records the end of an attempt. `facts` are fields of the run's record. `past` is the attempt
    /// as JSON, which Redis keeps if a later attempt overwrites these fields.
    pub(in crate::engine) async fn record(
        self: &Arc<Self>,
        claim: &Claim,
        decision: &AttemptVerdict,
        facts: &[(&'static str, String)],
        past: &str,
    ) -> Result<FinishReply, StoreError> {
        if let PlainReply::Recorded(kept) = self.record_plainly(claim, decision, facts).await {
            return Ok(FinishReply::Finished(kept));
        }
        // In a box, because it is rare and would make the future of each run large.
        Box::pin(self.record_alone(claim, decision, facts, past)).await
    }

    /// Records the end of an attempt in a call of its own.
    pub(in crate::engine) async fn record_alone(
        &self,
        claim: &Claim,
        decision: &AttemptVerdict,
        facts: &[(&'static str, String)],
        past: &str,
    ) -> Result<FinishReply, StoreError> {
        let AttemptVerdict { verdict, reason, .. } = decision;
        self.node.store.finish_run(claim, verdict, reason, facts, past).await
    }

    /// Records the end of an attempt as that of a plain run, together with others.
    pub(in crate::engine) async fn record_plainly(
        self: &Arc<Self>,
        claim: &Claim,
        decision: &AttemptVerdict,
        facts: &[(&'static str, String)],
    ) -> PlainReply {
        if decision.verdict != Verdict::Final(RunState::Succeeded) || !claim.may_be_plain() {
            return PlainReply::Refused;
        }
        // A first attempt replaces no facts of an earlier attempt.
        let is_needed = |(_, value): &&(_, String)| claim.claimed_before || !value.is_empty();
        let facts = facts.iter().filter(is_needed).cloned().collect();
        let reason = decision.reason.clone();
        self.record_plain(PlainEnd { claim: claim.clone(), reason, facts }).await
    }

    /// Adds `end` to the ends that wait, and returns the answer of Redis to it. The ends that wait
    /// during a call form the next call. A single end waits for nothing, and one of many waits for a
    /// moment.
    async fn record_plain(self: &Arc<Self>, end: PlainEnd) -> PlainReply {
        let (answered, sender) = self.ends.add(end);
        if let Some(sender) = sender {
            let last = *self.last_shared_call.lock().unwrap_or_else(PoisonError::into_inner);
            let is_one_of_many = last.is_some_and(|at| at.elapsed() < JUST);
            tokio::spawn(self.clone().send(sender, is_one_of_many));
        }
        answered.await.unwrap_or(PlainReply::Unanswered)
    }

    async fn send(self: Arc<Self>, mut sender: CallSender<PlainEnd, PlainReply>, gathers: bool) {
        if gathers {
            tokio::time::sleep(GATHERING).await;
        }
        while let Some(batch) = sender.next_call(next_ends) {
            if batch.len() > 1 {
                *self.last_shared_call.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Instant::now());
            }
            let queue = batch[0].0.claim.lane.queue().clone();
            let (ends, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            // After a failure each end is sent alone, and gets its own error.
            let replies = match self.node.store.finish_plain_runs(&queue, &ends).await {
                Ok(kept) => kept
                    .into_iter()
                    .map(|kept| kept.map_or(PlainReply::Refused, PlainReply::Recorded))
                    .collect(),
                Err(_) => vec![PlainReply::Unanswered; ends.len()],
            };
            for (answer, reply) in answers.into_iter().zip(replies) {
                let _ = answer.send(reply);
            }
        }
    }
}

/// Removes and returns the ends for the next call, all of the queue of the first.
fn next_ends(
    waiting: &mut Vec<WaitingItem<PlainEnd, PlainReply>>,
) -> Vec<WaitingItem<PlainEnd, PlainReply>> {
    let Some((first, _)) = waiting.first() else { return Vec::new() };
    let queue = first.claim.lane.queue().clone();
    let mut room = MOST;
    let is_next = |(end, _): &mut WaitingItem<PlainEnd, PlainReply>| {
        let is_next = room > 0 && *end.claim.lane.queue() == queue;
        room -= usize::from(is_next);
        is_next
    };
    waiting.extract_if(.., is_next).collect()
}
