//! Executes a claimed run, and records the run's end in Redis.
//!
//! Invariant: the lease of a run is renewed until Redis has recorded its end or answered that
//! another node has the run. Output is written before the end, so any reader of the end sees the
//! output. These writes never delay the attempt itself: renewals and stops reach it at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Span, debug, info, warn};

use super::done_check;
use super::done_check::Course;
use super::earlier_output;
use super::late_results::{AttemptEnd, ended, offer_back, offer_end};
use super::running_leases::{Lease, LeaseHandle};
use super::verdict;
use super::verdict::AttemptVerdict;
use crate::domain::job::job_spec::Delivery;
use crate::domain::name::names::RunKind;
use crate::domain::run::run_state::{AttemptOutcome, Ending, RunState};
use crate::engine::dispatch::definition::Definition;
use crate::engine::maintenance::janitor::bounds_of;
use crate::engine::node_context::NodeContext;
use crate::engine::notification::notice_cleanup;
use crate::engine::notification::notice_payload;
use crate::engine::planning::backfill_plan;
use crate::engine::recovery::journal::{ClaimedRun, JournalLine};
use crate::executor;
use crate::executor::{Attempt, Control, NoticeFacts, OutputBuffer};
use crate::keeper::BootInstant;
use crate::store::{Claim, FinishReply, OutputFrames, OutputStream, StoreError, Verdict};

/// The interval at which the output of a running attempt is written to Redis.
const OUTPUT_EVERY: Duration = Duration::from_secs(1);
/// The wait before the end of a run is sent to Redis again after Redis did not answer.
const TELL_AGAIN: Duration = Duration::from_millis(200);
/// The wait before the end of a run is sent again after Redis refused it because of a key of the
/// wrong type.
const TELL_SPOILT_AGAIN: Duration = Duration::from_secs(2);
/// The pause before a run that this node could not start is handed back. Without this pause, the
/// run could quickly go round between nodes.
const NOT_STARTED_PAUSE: Duration = Duration::from_secs(1);
/// The number of runs over the bound of a job's history at which the history is trimmed at once.
const HISTORY_SLACK: usize = 50;
/// The divisor of the bound of a job's output. Output over the bound by more than this part is
/// trimmed at once.
const OUTPUT_SLACK: u64 = 8;

/// Starts the run of `claim` in a task of its own.
pub(crate) fn start(shared: &Arc<NodeContext>, definition: Arc<Definition>, claim: Claim, sent: BootInstant) {
    let lease = (claim.run.clone(), claim.fence);
    let slot = shared.slots.take(claim.lane.queue());
    shared.executors.note_claimed(&definition.spec.action);
    let (tenure, control) = shared.holdings.hold(lease.clone(), shared.deadline(sent), definition.spec.kill_grace, slot);
    let span = tracing::info_span!("run", job = %claim.run.job(), run = %claim.run, attempt = claim.attempt, fence = claim.fence.as_u64());
    let runner = Runner { shared: shared.clone(), definition, claim, lease, sent };
    tokio::spawn(runner.run(control, tenure).instrument(span));
}

struct Runner {
    shared: Arc<NodeContext>,
    definition: Arc<Definition>,
    claim: Claim,
    lease: Lease,
    /// The instant at which the claim was sent to Redis.
    sent: BootInstant,
}

impl Runner {
    async fn run(self, control: Control, mut tenure: LeaseHandle) {
        let Self { shared, definition, claim, .. } = &self;
        let late = claim.claimed_at.since(claim.run.due());
        info!(late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX), "Run started.");
        let started = std::time::Instant::now();
        let claimed_in = shared.watch.epoch();
        if definition.spec.delivery == Delivery::AtMostOnce {
            shared.watch.journal().mark_start(start_mark(claim)).await;
        }
        let (course, output) = self.follow(control).await;
        let stop_cause = tenure.stop_cause();
        let Some(settled) = verdict::settle(&definition.spec, claim, &course, stop_cause.as_deref(), fastrand::f64()) else {
            if let Some(output) = &output {
                let _ = write_output(shared, claim, output, &mut none_written(claim)).await;
            }
            warn!("The run lost its lease and was stopped. Another node will recover the run.");
            if course.into_outcome().ending == Ending::LeaseLost {
                shared.holdings.give_up(self.lease.clone());
                drop(tenure);
                if definition.spec.delivery != Delivery::AtMostOnce {
                    offer_back(shared, claim, &claimed_in).await;
                }
            }
            return;
        };
        let outcome = course.into_outcome();
        // A node that is short of its own means claims nothing for a while, so another node may have the run at once.
        let is_refused = outcome.ending == Ending::NotStarted && shared.executors.short_of().is_none();
        if is_refused && settled.verdict == Verdict::Release {
            tokio::time::sleep(NOT_STARTED_PAUSE).await;
        }
        let end =
            AttemptEnd { took: started.elapsed(), at: claim.claimed_at.saturating_add(BootInstant::now().since(self.sent)) };
        let reply = self.tell(&settled, &outcome, end, output.as_ref(), &mut tenure).await;
        note_end(shared, claim, &settled, &outcome, end, &reply);
        report(&outcome, &settled, &reply, end.took);
        if matches!(reply, FinishReply::Lost) {
            drop(tenure);
            match settled.verdict {
                Verdict::Final(state) => {
                    offer_end(shared, claim, &ended(claim, &settled, state, &outcome, end), &claimed_in).await;
                }
                _ if definition.spec.delivery != Delivery::AtMostOnce => offer_back(shared, claim, &claimed_in).await,
                _ => {}
            }
            return;
        }
        if let FinishReply::Finished(kept) = reply {
            note_history(shared, claim, kept);
            if let Some((told, _)) = claim.run.job().told_of()
                && let Err(error) = notice_cleanup::forget_if_removed(&shared.store, &told).await
            {
                shared.weather.failed(&error, "the janitor removes the job of the notice later");
            }
            if claim.run.kind() == RunKind::Backfill
                && let Err(error) = backfill_plan::advance(&shared.store, claim.run.job()).await
            {
                shared.weather.failed(&error, "the janitor continues the backfill later");
            }
        }
    }

    /// Runs the job's done check first, if the job has one for this attempt. Makes the attempt
    /// unless the work is done. Returns the result of the claim, and the output if any.
    async fn follow(&self, control: Control) -> (Course, Option<OutputBuffer>) {
        let Self { shared, definition, claim, lease, .. } = self;
        let mut attempt = attempt_of(shared, definition, claim);
        if claim.run.job().is_hidden()
            && let Err(error) = notice_payload::tell_of(&shared.store, &mut attempt).await
        {
            shared.weather.failed(&error, "notices are not sent");
            return (Course::CutShort(AttemptOutcome::bare(Ending::NotStarted)), None);
        }
        shared.holdings.earlier_ended(lease).await;
        if let Some(check) = done_check::asked_before(&definition.spec, claim) {
            let (question, printed) = (done_check::question(check, &attempt), output_of(shared, definition));
            let answer = shared.executors.execute(&question, control.clone(), &printed).await;
            printed.finish();
            let stop = *control.stop.borrow();
            match (done_check::judge(check, answer), stop) {
                // The output of an interrupted question does not say why nothing was started.
                (Some(course @ Course::CutShort(_)), _) => return (course, None),
                (Some(course), _) => return (course, Some(printed)),
                // The stop came at the very moment of the answer. Nothing was started, so even an
                // at-most-once run is not lost.
                (None, Some(reason)) => return (Course::CutShort(AttemptOutcome::bare(reason.ending())), None),
                (None, None) => debug!("The done_check reports that the work is not done yet."),
            }
        }
        let output = output_of(shared, definition);
        earlier_output::put_back(shared, claim, &output).await;
        let _told = notice_payload::ping_start(&shared.executors, &definition.spec, &claim.run);
        let outcome = tokio::select! {
            outcome = shared.executors.execute(&attempt, control, &output) => outcome,
            never = keep_writing(shared, claim, &output) => match never {},
        };
        output.finish();
        (Course::Attempted(outcome), Some(output))
    }

    /// Writes the output and the end of the attempt to Redis, again and again until Redis answers.
    /// The lease is renewed meanwhile, because a late record is better than a second execution.
    /// Once the node stops for good (its tasks are dropped) the lease runs out and recovery
    /// decides.
    async fn tell(
        &self,
        settled: &AttemptVerdict,
        outcome: &AttemptOutcome,
        end: AttemptEnd,
        output: Option<&OutputBuffer>,
        tenure: &mut LeaseHandle,
    ) -> FinishReply {
        let Self { shared, claim, .. } = self;
        let facts = verdict::facts(outcome, settled, end.took);
        let past = match settled.verdict {
            // An attempt with output has begun, so it was cut short.
            Verdict::Release if outcome.ending == Ending::ShutDown && output.is_some() => {
                verdict::past(claim, shared.settings.node.as_str(), outcome, end.took)
            }
            Verdict::Retry(_) => verdict::past(claim, shared.settings.node.as_str(), outcome, end.took),
            _ => String::new(),
        };
        let mut written = none_written(claim);
        let mut is_noted = false;
        loop {
            let kept = match output {
                Some(output) => write_output(shared, claim, output, &mut written).await,
                None => Ok(()),
            };
            let told = match kept {
                // If Redis cannot be reached for the output, it cannot be reached for the end
                // either.
                Err(error @ StoreError::Unavailable { .. }) => Err(error),
                _ => shared.store.finish_run(claim, &settled.verdict, &settled.reason, &facts, &past).await,
            };
            let error = match told {
                Ok(reply) => return reply,
                Err(error) => error,
            };
            shared.weather.failed(&error, &format!("the ends of runs of job {} are not recorded", claim.run.job()));
            if error.is_passing() {
                // Redis may come back in its state from before the run began.
                if let Verdict::Final(state) = settled.verdict
                    && !std::mem::replace(&mut is_noted, true)
                {
                    shared.watch.journal().note([JournalLine::Ended(ended(claim, settled, state, outcome, end))]);
                }
                tokio::time::sleep(TELL_AGAIN).await;
            } else {
                // An operator must repair the key first; other runs must not wait for that.
                tenure.free_slot();
                tokio::time::sleep(TELL_SPOILT_AGAIN).await;
            }
        }
    }
}

fn start_mark(claim: &Claim) -> ClaimedRun {
    ClaimedRun {
        run: claim.run.to_string(),
        queue: claim.lane.as_str().to_owned(),
        attempt: claim.attempt,
        fence: claim.fence.as_u64(),
        at: claim.claimed_at.as_i64(),
    }
}

/// Notes in the journal the end, or the handing back, that Redis has recorded of the run.
fn note_end(
    shared: &NodeContext,
    claim: &Claim,
    settled: &AttemptVerdict,
    outcome: &AttemptOutcome,
    end: AttemptEnd,
    reply: &FinishReply,
) {
    let run = claim.run.to_string();
    let line = match reply {
        // Not noted: the node that has the run records its end.
        FinishReply::Lost => return,
        FinishReply::Retrying(_) | FinishReply::Released | FinishReply::AskingLater(_) => JournalLine::Unclaimed(run),
        FinishReply::Finished(_) => {
            // A run that was to go back and yet ended was cancelled by an operator.
            let state = match settled.verdict {
                Verdict::Final(state) => state,
                _ => RunState::Cancelled,
            };
            JournalLine::Ended(ended(claim, settled, state, outcome, end))
        }
    };
    shared.watch.journal().note([line]);
}

/// Asks the janitor to trim a job's history if `kept`, the number of kept runs, exceeds the bound
/// by the slack.
fn note_history(shared: &NodeContext, claim: &Claim, kept: u32) {
    let (most, _) = bounds_of(claim.run.job(), shared.keeping().history.keep_per_job);
    if kept as usize > most + HISTORY_SLACK {
        shared.have_tidied(claim.run.job());
    }
}

fn attempt_of(shared: &NodeContext, definition: &Definition, claim: &Claim) -> Attempt {
    let spec = &definition.spec;
    Attempt {
        run: claim.run.clone(),
        number: claim.attempt,
        fence: claim.fence,
        node: shared.settings.node.clone(),
        action: spec.action.clone(),
        env: spec.env.clone(),
        env_files: spec.env_files.clone(),
        webhook_secrets: spec.webhook_secrets.clone(),
        by_redis: (claim.claimed_at, BootInstant::now()),
        tidings: NoticeFacts::default(),
        cwd: spec.cwd.clone(),
        process: spec.process.clone(),
        timeout: spec.timeout,
        kill_grace: spec.kill_grace,
        lease: shared.settings.lease,
    }
}

/// Returns an empty buffer for the output of an attempt.
fn output_of(shared: &NodeContext, definition: &Definition) -> OutputBuffer {
    let bounds = shared.settings.output;
    if definition.spec.log_output { OutputBuffer::logged(bounds, Span::current()) } else { OutputBuffer::new(bounds) }
}

/// Writes the output to Redis at intervals while the output grows.
async fn keep_writing(shared: &NodeContext, claim: &Claim, output: &OutputBuffer) -> Infallible {
    let mut written = none_written(claim);
    loop {
        tokio::time::sleep(OUTPUT_EVERY).await;
        let _ = write_output(shared, claim, output, &mut written).await;
    }
}

/// Returns the output revision [`write_output`] starts from. After an unclear `done_check`, the
/// output of that check is stored under this attempt's number. Then even an empty output is
/// written, to replace the output of the check.
fn none_written(claim: &Claim) -> u64 {
    if claim.unclear > 0 { u64::MAX } else { 0 }
}

/// Writes the output to Redis if the output is newer than revision `written`. If Redis refuses the
/// write, the output is lost, but the run goes on.
async fn write_output(shared: &NodeContext, claim: &Claim, output: &OutputBuffer, written: &mut u64) -> Result<(), StoreError> {
    let revision = output.revision();
    if revision == *written {
        return Ok(());
    }
    let snapshot = output.snapshot();
    let mut frames = OutputFrames::new(snapshot.dropped_bytes);
    let stream = |stream| match stream {
        executor::ExcerptStream::Stdout => OutputStream::Stdout,
        executor::ExcerptStream::Stderr => OutputStream::Stderr,
    };
    snapshot.head.iter().for_each(|chunk| frames.push_head(stream(chunk.stream), &chunk.bytes));
    snapshot.tail.iter().for_each(|chunk| frames.push_tail(stream(chunk.stream), &chunk.bytes));
    let kept = shared.store.write_output(claim, &frames).await;
    match &kept {
        Ok(bytes) => {
            *written = revision;
            let most = shared.keeping().output.keep_bytes_per_job;
            if bytes.is_some_and(|bytes| bytes > most + most / OUTPUT_SLACK) {
                shared.have_tidied(claim.run.job());
            }
        }
        Err(error) => debug!("The output of the run was not stored: {error}."),
    }
    kept.map(drop)
}

fn report(outcome: &AttemptOutcome, settled: &AttemptVerdict, reply: &FinishReply, took: Duration) {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let why = describe(outcome);
    match (reply, &settled.verdict) {
        (FinishReply::Lost, _) => warn!(ms, "Result discarded: another node has claimed the run, or Redis lost the run."),
        (_, Verdict::Final(RunState::Succeeded)) if outcome.error.is_some() => warn!(ms, "Run succeeded{why}."),
        (_, Verdict::Final(RunState::Succeeded)) if settled.reason.is_empty() => info!(ms, "Run succeeded."),
        (_, Verdict::Final(RunState::Succeeded)) => info!(ms, reason = settled.reason, "Run succeeded."),
        (_, Verdict::Final(state)) if settled.reason.is_empty() => warn!(ms, "Run ended as {state}{why}."),
        (_, Verdict::Final(state)) => warn!(ms, reason = settled.reason, "Run ended as {state}{why}."),
        (_, Verdict::Retry(delay)) => {
            let retry_in_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            warn!(ms, retry_in_ms, "Attempt failed{why}. The run will be retried.");
        }
        (_, Verdict::AskLater(delay)) => {
            let ask_in_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            warn!(
                ms,
                ask_in_ms,
                reason = settled.reason,
                "The run did not start, because its done_check was unclear. The done_check will be asked again."
            );
        }
        (_, Verdict::Release) => info!(ms, reason = settled.reason, "Run handed back."),
    }
}

/// Returns the error, signal or exit code of an outcome, as text that continues a log sentence.
fn describe(outcome: &AttemptOutcome) -> String {
    match outcome {
        AttemptOutcome { error: Some(error), .. } => format!(": {error}"),
        AttemptOutcome { signal: Some(signal), .. } => format!(" by signal {signal}"),
        AttemptOutcome { exit_code: Some(code), .. } => format!(" with exit code {code}"),
        _ => String::new(),
    }
}
