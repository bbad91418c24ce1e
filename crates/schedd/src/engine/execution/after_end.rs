//! The steps that follow when Redis has answered to the end of an attempt: journal, counters, log,
//! trace, history, notices and backfill.
//!
//! Invariant: a failed step delays no run. The janitor, or the next start of the node, repeats the
//! work of the step.

use std::time::Duration;

use tracing::{info, warn};

use super::late_results::{AttemptEnd, ended};
use super::verdict::{AttemptVerdict, RELEASED};
use crate::engine::dispatch::definition::Definition;
use crate::engine::maintenance::retained_bounds::{Retention, bounds_of};
use crate::engine::node_context::NodeContext;
use crate::engine::notification::notice_cleanup;
use crate::engine::planning::backfill_plan;
use crate::engine::recovery::journal::{Journal, JournalLine};
use schedd_core::domain::run::run_state::{AttemptOutcome, RunState};
use schedd_schedule::names::{JobName, RunKind};
use schedd_store::{Claim, FinishReply, RunRecord, Verdict};

/// The number of runs by which a job's history may exceed its limit before it is trimmed at once.
const HISTORY_SLACK: usize = 50;

/// An attempt whose end Redis has answered, with the handles that the steps after the end use.
pub(in crate::engine) struct EndedAttempt<'a> {
    pub(in crate::engine) node: &'a NodeContext,
    pub(in crate::engine) definition: &'a Definition,
    pub(in crate::engine) journal: &'a Journal,
    pub(in crate::engine) retention: &'a Retention,
    pub(in crate::engine) claim: &'a Claim,
    pub(in crate::engine) decision: &'a AttemptVerdict,
    pub(in crate::engine) outcome: &'a AttemptOutcome,
    pub(in crate::engine) end: AttemptEnd,
    /// The answer of Redis to the end of the attempt.
    pub(in crate::engine) reply: &'a FinishReply,
}

/// Takes all steps after the end of an attempt.
pub(in crate::engine) async fn run_steps(run: &EndedAttempt<'_>) {
    note_in_journal(run);
    count_end(run);
    report(run.outcome, run.decision, run.reply, run.end.took);
    send_span(run);
    if run.kept().is_none() {
        return;
    }
    trim_history(run);
    // In boxes, because both are rare and would make the future of each run large.
    if let Some((reported, _)) = run.claim.run.job().notice_subject() {
        Box::pin(forget_notices(run, &reported)).await;
    }
    if run.claim.run.kind() == RunKind::Backfill {
        Box::pin(advance_backfill(run)).await;
    }
}

impl EndedAttempt<'_> {
    /// Returns the number of runs in the history of the job. `None` if the run has not ended for
    /// good.
    fn kept(&self) -> Option<u32> {
        match self.reply {
            FinishReply::Finished(kept) => Some(*kept),
            _ => None,
        }
    }

    /// Returns the state in which the run has ended for good, or `None` if it has not ended.
    fn ended_in(&self) -> Option<RunState> {
        match (self.reply, &self.decision.verdict) {
            (FinishReply::Finished(_), Verdict::Final(state)) => Some(*state),
            // A run that was to be handed back but ended was cancelled by an operator.
            (FinishReply::Finished(_), _) => Some(RunState::Cancelled),
            _ => None,
        }
    }
}

/// Records in the journal that the run has ended, is retried, or was handed back.
fn note_in_journal(run: &EndedAttempt<'_>) {
    let line = match (run.reply, run.ended_in()) {
        // The end is not recorded here, because the node that has the run now records its end.
        (FinishReply::Lost, _) => return,
        (_, Some(state)) => {
            JournalLine::Ended(ended(run.claim, run.decision, state, run.outcome, run.end))
        }
        (_, None) => JournalLine::Unclaimed(run.claim.run.to_string()),
    };
    run.journal.note([line]);
}

/// Counts the end of the attempt, and the end of the run if it has ended for good.
fn count_end(run: &EndedAttempt<'_>) {
    let (counters, queue) = (&run.node.counters, run.claim.lane.queue());
    if matches!(run.reply, FinishReply::Lost) {
        counters.lease_lost();
    }
    if matches!(run.reply, FinishReply::Finished(_) | FinishReply::Retrying(_)) {
        counters.attempt_ended(queue, run.end.took);
    }
    if let Some(state) = run.ended_in() {
        counters.runs_ended(queue, state, 1);
    }
}

/// Sends the span of the run if it has ended for good.
fn send_span(run: &EndedAttempt<'_>) {
    let Some(state) = run.ended_in() else { return };
    let EndedAttempt { node, claim, outcome, end, .. } = run;
    node.traces.run_ended(Some(run.definition), || RunRecord {
        state,
        attempt: claim.attempt,
        node: Some(node.settings.node.to_string()),
        started_at: Some(claim.claimed_at),
        finished_at: Some(end.at),
        reason: Some(run.decision.reason.clone()).filter(|reason| !reason.is_empty()),
        exit_code: outcome.exit_code,
        signal: outcome.signal,
        http_status: outcome.http_status,
        error: outcome.error.clone(),
        ..RunRecord::planted(claim.run.clone(), claim.lane.clone())
    });
}

/// Asks the janitor to trim the history of a job if it exceeds its limit by more than
/// `HISTORY_SLACK`.
fn trim_history(run: &EndedAttempt<'_>) {
    let (most, _) = bounds_of(run.claim.run.job(), run.retention.bounds().history.keep_per_job);
    if run.kept().is_some_and(|kept| kept as usize > most + HISTORY_SLACK) {
        run.retention.trim_soon(run.claim.run.job());
    }
}

/// Forgets the hidden job that delivered the notice about the job `reported`, if that was removed.
async fn forget_notices(run: &EndedAttempt<'_>, reported: &JobName) {
    if let Err(error) = notice_cleanup::forget_if_removed(&run.node.store, reported).await {
        run.node.outage_log.failed(&error, "the hidden job of the notice is removed later");
    }
}

/// Plans the next run of the backfill.
async fn advance_backfill(run: &EndedAttempt<'_>) {
    if let Err(error) = backfill_plan::advance(&run.node.store, run.claim.run.job()).await {
        let hence = format!("the backfill of job {} continues later", run.claim.run.job());
        run.node.outage_log.failed(&error, &hence);
    }
}

/// Logs the end of the attempt.
fn report(
    outcome: &AttemptOutcome,
    decision: &AttemptVerdict,
    reply: &FinishReply,
    took: Duration,
) {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let why = describe(outcome);
    match (reply, &decision.verdict) {
        (FinishReply::Lost, _) => {
            warn!(
                ms,
                "The result of the run was discarded, because another node has claimed the run or Redis lost the run."
            );
        }
        (_, Verdict::Final(RunState::Succeeded)) if outcome.error.is_some() => {
            warn!(ms, "Run succeeded{why}.");
        }
        (_, Verdict::Final(RunState::Succeeded)) if decision.reason.is_empty() => {
            info!(ms, "Run succeeded.");
        }
        (_, Verdict::Final(RunState::Succeeded)) => {
            info!(ms, reason = decision.reason, "Run succeeded.");
        }
        (_, Verdict::Final(state)) if decision.reason.is_empty() => {
            warn!(ms, "Run ended as {state}{why}.");
        }
        (_, Verdict::Final(state)) => {
            warn!(ms, reason = decision.reason, "Run ended as {state}{why}.");
        }
        (_, Verdict::Retry(delay)) => {
            let retry_in_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            warn!(ms, retry_in_ms, "Attempt failed{why}. The run will be retried.");
        }
        (_, Verdict::AskLater(delay)) if decision.reason == RELEASED => {
            let again_in_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            info!(ms, again_in_ms, reason = decision.reason, "Run handed back.");
        }
        (_, Verdict::AskLater(delay)) => {
            let ask_in_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            warn!(
                ms,
                ask_in_ms,
                reason = decision.reason,
                "The run did not start, because its done_check gave no clear answer. The done_check will run again."
            );
        }
        (_, Verdict::Release) => info!(ms, reason = decision.reason, "Run handed back."),
    }
}

/// Returns the error, signal or exit code of an outcome, as the continuation of a log sentence.
fn describe(outcome: &AttemptOutcome) -> String {
    match outcome {
        AttemptOutcome { error: Some(error), .. } => format!(": {error}"),
        AttemptOutcome { signal: Some(signal), .. } => format!(" by signal {signal}"),
        AttemptOutcome { exit_code: Some(code), .. } => format!(" with exit code {code}"),
        _ => String::new(),
    }
}
