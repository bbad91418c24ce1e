//! Executes a claimed run, and records its end in Redis.
//!
//! Invariant: the lease of a run is renewed until Redis has recorded the end, or has answered that
//! another node has the run. The output is written before the end, so a client that reads the end
//! finds the output. Slow writes of output never delay the attempt, because renewals and stops do
//! not wait for these writes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Span, debug, info, warn};

use super::after_end;
use super::after_end::EndedAttempt;
use super::done_check;
use super::done_check::Course;
use super::earlier_output;
use super::end_recorder::EndRecorder;
use super::late_results::{AttemptEnd, ended, offer_back, offer_end};
use super::next_request;
use super::running_leases::{Lease, LeaseHandle, RunningLeases};
use super::start_mark;
use super::verdict;
use super::verdict::AttemptVerdict;
use crate::attempts::{Attempt, Control, Execute, NoticeFacts, OutputBuffer};
use crate::engine::dispatch::claimer::StartClaimed;
use crate::engine::dispatch::definition::Definition;
use crate::engine::dispatch::slots::Slots;
use crate::engine::maintenance::retained_bounds::Retention;
use crate::engine::node_context::NodeContext;
use crate::engine::notification::notice_payload;
use crate::engine::recovery::journal::JournalLine;
use crate::engine::recovery::loss::loss_watch::LossWatch;
use schedd_core::domain::job::job_spec::Delivery;
use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_core::domain::run::run_progress::RunProgress;
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_core::host::boot_clock::BootInstant;
use schedd_store::{Claim, FinishReply, OutputFrames, OutputStream, REFUSED, StoreError, Verdict};

/// The interval at which the output of a running attempt is written to Redis.
const OUTPUT_EVERY: Duration = Duration::from_secs(1);
/// The wait before the end of a run is sent to Redis again after Redis did not answer.
const RECORD_AGAIN: Duration = Duration::from_millis(200);
/// The wait before the end of a run is sent again after Redis refused it because of a key of the
/// wrong type.
const WRONG_TYPE_AGAIN: Duration = Duration::from_secs(2);
/// The pause before a run that could not be started is handed back. Without the pause, nodes could
/// claim and hand back the run in quick succession.
const NOT_STARTED_PAUSE: Duration = Duration::from_secs(1);
/// The part of a job's output limit (one eighth) by which its output may exceed the limit before it
/// is trimmed at once.
const OUTPUT_SLACK: u64 = 8;

/// The part of a node that executes its claimed runs.
pub(crate) struct Runner {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) slots: Slots,
    pub(crate) executors: Arc<dyn Execute>,
    pub(crate) leases: Arc<RunningLeases>,
    pub(crate) ends: Arc<EndRecorder>,
    pub(crate) loss_watch: Arc<LossWatch>,
    pub(crate) retention: Arc<Retention>,
}

impl StartClaimed for Runner {
    /// Executes the run of `claim` in a separate task.
    fn start_claimed(
        self: Arc<Self>,
        definition: Arc<Definition>,
        claim: Claim,
        sent: BootInstant,
    ) {
        let lease = (claim.run.clone(), claim.fence);
        let slot = self.slots.take(claim.lane.queue());
        self.executors.note_claimed(&definition.spec.action);
        let deadline = self.node.settings.lease_deadline(sent);
        let (handle, control) =
            self.leases.hold(lease.clone(), deadline, definition.spec.kill_grace, slot);
        let span = span_of(&claim);
        let claimed = ClaimedAttempt { runner: self, definition, claim, lease, sent };
        tokio::spawn(claimed.run(control, handle).instrument(span));
    }
}

/// Returns the span of an attempt. Its fields are in each line of the log within the span.
pub(in crate::engine) fn span_of(claim: &Claim) -> tracing::Span {
    tracing::info_span!("run", job = %claim.run.job(), run = %claim.run, attempt = claim.attempt, fence = claim.fence.as_u64())
}

/// A claimed run in execution.
struct ClaimedAttempt {
    runner: Arc<Runner>,
    definition: Arc<Definition>,
    claim: Claim,
    lease: Lease,
    /// The instant at which the claim was sent to Redis.
    sent: BootInstant,
}

impl ClaimedAttempt {
    async fn run(self, control: Control, mut handle: LeaseHandle) {
        let Self { runner, definition, claim, .. } = &self;
        let late = claim.claimed_at.since(claim.run.due());
        info!(late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX), "Run started.");
        if !claim.claimed_before {
            runner.node.counters.run_started(claim.lane.queue(), late);
        }
        let started = std::time::Instant::now();
        let claimed_in = runner.loss_watch.epoch();
        let (course, output) = self.follow(control).await;
        let stop_cause = handle.stop_cause();
        let Some(decision) = verdict::verdict_of(
            &definition.spec,
            claim,
            &course,
            stop_cause.as_deref(),
            fastrand::f64(),
        ) else {
            if let Some(output) = &output {
                let _ =
                    Box::pin(write_output(runner, claim, output, &mut none_written(claim))).await;
            }
            runner.node.counters.lease_lost();
            warn!("The run lost its lease and was stopped. Another node will recover the run.");
            if course.into_outcome().ending == Ending::LeaseLost {
                runner.leases.give_up(self.lease.clone());
                drop(handle);
                if definition.spec.delivery != Delivery::AtMostOnce {
                    Box::pin(offer_back(&runner.node, claim, &claimed_in)).await;
                }
            }
            return;
        };
        let outcome = course.into_outcome();
        // A node that lacks resources to start runs claims nothing for a while, so it needs no
        // pause.
        let is_refused =
            outcome.ending == Ending::NotStarted && runner.executors.short_of().is_none();
        if is_refused && decision.verdict == Verdict::Release {
            tokio::time::sleep(NOT_STARTED_PAUSE).await;
        }
        let end = AttemptEnd {
            took: started.elapsed(),
            at: claim.claimed_at.saturating_add(BootInstant::now().since(self.sent)),
        };
        let next = match (&decision.verdict, &outcome.next) {
            (Verdict::Final(_), Some(Ok(text))) => {
                let setting = next_request::set_next(&runner.node, definition, claim, text, end.at);
                Some(Box::pin(setting).await)
            }
            (Verdict::Final(_), Some(Err(why))) => Some(format!("{REFUSED}{why}")),
            _ => None,
        };
        let facts = (&decision, &outcome, end);
        let reply = self.record_end(facts, next, output.as_ref(), &mut handle).await;
        let ended_run = EndedAttempt {
            node: &runner.node,
            definition,
            journal: runner.loss_watch.journal(),
            retention: &runner.retention,
            claim,
            decision: &decision,
            outcome: &outcome,
            end,
            reply: &reply,
        };
        after_end::run_steps(&ended_run).await;
        if matches!(reply, FinishReply::Lost) {
            drop(handle);
            match decision.verdict {
                Verdict::Final(state) => {
                    let end = ended(claim, &decision, state, &outcome, end);
                    let (node, watch) = (&runner.node, &runner.loss_watch);
                    // In a box, because it is rare and would make the future of each run large.
                    Box::pin(offer_end(node, watch, claim, &end, &claimed_in)).await;
                }
                _ if definition.spec.delivery != Delivery::AtMostOnce => {
                    Box::pin(offer_back(&runner.node, claim, &claimed_in)).await;
                }
                _ => {}
            }
        }
    }

    /// Runs the `done_check` of the job, if this attempt needs it, and then the attempt, unless the
    /// work is done. Returns the result and the output, if any.
    async fn follow(&self, control: Control) -> (Course, Option<OutputBuffer>) {
        let Self { runner, definition, claim, lease, .. } = self;
        if definition.spec.delivery == Delivery::AtMostOnce {
            if let Err(error) = Box::pin(start_mark::await_replicas(&runner.node, &[claim])).await {
                let what = "runs with at-most-once delivery do not start";
                runner.node.outage_log.failed(&error, what);
                return (Course::CutShort(AttemptOutcome::bare(Ending::NotStarted)), None);
            }
            runner.loss_watch.journal().mark_start(start_mark::line_of(claim)).await;
        }
        let mut attempt = attempt_of(runner, definition, claim);
        if claim.run.job().is_hidden()
            && let Err(error) =
                Box::pin(notice_payload::notice_facts_of(&runner.node.store, &mut attempt)).await
        {
            runner.node.outage_log.failed(&error, "notices are not sent");
            return (Course::CutShort(AttemptOutcome::bare(Ending::NotStarted)), None);
        }
        if definition.spec.schedule.parents().is_some() {
            match Box::pin(runner.node.store.read_parent_ends(&claim.run)).await {
                Ok(ends) => attempt.parents = ends,
                Err(error) => {
                    runner.node.outage_log.failed(&error, "children in chains do not start");
                    return (Course::CutShort(AttemptOutcome::bare(Ending::NotStarted)), None);
                }
            }
        }
        runner.leases.earlier_ended(lease).await;
        if let Some(check) = done_check::asked_before(&definition.spec, claim) {
            let (question, printed) =
                (done_check::question(check, &attempt), output_of(runner, definition));
            let answer = runner.executors.execute(&question, control.clone(), &printed).await;
            printed.finish();
            let stop = *control.stop.borrow();
            match (done_check::judge(check, answer), stop) {
                // The output of a check that was cut short is useless, so it is dropped.
                (Some(course @ Course::CutShort(_)), _) => return (course, None),
                (Some(course), _) => return (course, Some(printed)),
                // A stop was requested while the `done_check` answered. The attempt has not begun,
                // so even an at-most-once run is handed back and not lost.
                (None, Some(reason)) => {
                    return (Course::CutShort(AttemptOutcome::bare(reason.ending())), None);
                }
                (None, None) => debug!("The done_check reports that the work is not done yet."),
            }
        }
        let output = output_of(runner, definition);
        earlier_output::put_back(&runner.node, claim, &output).await;
        let _ping = notice_payload::ping_start(&runner.executors, &definition.spec, &claim.run);
        let outcome = tokio::select! {
            outcome = runner.executors.execute(&attempt, control, &output) => outcome,
            never = keep_writing(runner, claim, &output) => match never {},
        };
        output.finish();
        (Course::Attempted(outcome), Some(output))
    }

    /// Writes the output and the end of the attempt to Redis, and repeats this until Redis answers.
    /// Meanwhile the lease is renewed, because a late record is better than a second execution.
    /// When the node stops for good, the lease ends and another node recovers the run.
    async fn record_end(
        &self,
        (decision, outcome, end): (&AttemptVerdict, &AttemptOutcome, AttemptEnd),
        next: Option<String>,
        output: Option<&OutputBuffer>,
        handle: &mut LeaseHandle,
    ) -> FinishReply {
        let Self { runner, claim, .. } = self;
        let mut facts = verdict::facts(outcome, decision, end.took);
        facts.extend(next.map(|next| ("next", next)));
        let past = match decision.verdict {
            // An attempt with output has begun, so its record is kept.
            Verdict::Release | Verdict::AskLater(_)
                if outcome.ending == Ending::ShutDown && output.is_some() =>
            {
                verdict::past(claim, runner.node.settings.node.as_str(), outcome, end.took)
            }
            Verdict::Retry(_) => {
                verdict::past(claim, runner.node.settings.node.as_str(), outcome, end.took)
            }
            _ => String::new(),
        };
        let mut written = none_written(claim);
        let mut is_noted = false;
        let mut first_reply = None;
        let repeat_until = BootInstant::now().saturating_add(runner.node.settings.lease * 2);
        loop {
            let kept = match output {
                Some(output) => write_output(runner, claim, output, &mut written).await,
                None => Ok(()),
            };
            let recorded = match kept {
                // If Redis is out of reach for the output, sending the end would fail too.
                Err(error) if error.is_outage() => Err(error),
                _ => {
                    runner
                        .node
                        .store
                        .replicated(Box::pin(runner.ends.record(claim, decision, &facts, &past)))
                        .await
                }
            };
            // After an outage or a failover, Redis may have data from before the run began. The
            // journal then has the end.
            let mut keep = || {
                if let Verdict::Final(state) = decision.verdict
                    && !std::mem::replace(&mut is_noted, true)
                {
                    runner
                        .loss_watch
                        .journal()
                        .note([JournalLine::Ended(ended(claim, decision, state, outcome, end))]);
                }
            };
            let error = match recorded {
                Ok((reply, Ok(()))) => return first_reply.unwrap_or(reply),
                Ok((reply, Err(error))) => {
                    let is_over = reply == FinishReply::Lost || BootInstant::now() > repeat_until;
                    let reply = first_reply.unwrap_or(reply);
                    if is_over || !matches!(decision.verdict, Verdict::Final(_)) {
                        return reply;
                    }
                    // A failover that loses the end keeps the lease for its time. Until then, the same
                    // end is recorded again.
                    first_reply = Some(reply);
                    keep();
                    handle.free_slot();
                    runner.node.outage_log.failed(&error, "a failover may lose the ends of runs");
                    tokio::time::sleep(RECORD_AGAIN).await;
                    continue;
                }
                Err(error) => error,
            };
            runner.node.outage_log.failed(
                &error,
                &format!("the ends of runs of job {} are not recorded", claim.run.job()),
            );
            if error.is_passing() {
                keep();
                tokio::time::sleep(RECORD_AGAIN).await;
            } else {
                // An operator must first repair the key. Other runs may use the slot meanwhile.
                handle.free_slot();
                tokio::time::sleep(WRONG_TYPE_AGAIN).await;
            }
        }
    }
}

fn attempt_of(runner: &Runner, definition: &Definition, claim: &Claim) -> Attempt {
    let spec = &definition.spec;
    Attempt {
        run: claim.run.clone(),
        number: claim.attempt,
        fence: claim.fence,
        node: runner.node.settings.node.clone(),
        action: spec.action.clone(),
        zone: definition.timetable.zone().name().clone(),
        env: spec.env.clone(),
        env_files: spec.env_files.clone(),
        webhook_secrets: spec.webhook_secrets.clone(),
        by_redis: (claim.claimed_at, BootInstant::now()),
        notice_facts: NoticeFacts::default(),
        parents: Vec::new(),
        trace: runner.node.traces.context_of(&claim.run, spec.traceparent),
        cwd: spec.cwd.clone(),
        process: spec.process.clone(),
        timeout: spec.timeout,
        kill_grace: spec.kill_grace,
        lease: runner.node.settings.lease,
        begins_once: spec.delivery == Delivery::AtMostOnce,
    }
}

/// Returns an empty buffer for the output of an attempt, with the output limits of the node. If the
/// job has `log_output`, the buffer also writes each line to the log.
fn output_of(runner: &Runner, definition: &Definition) -> OutputBuffer {
    let bounds = runner.node.settings.output;
    if definition.spec.log_output {
        OutputBuffer::logged(bounds, Span::current())
    } else {
        OutputBuffer::new(bounds)
    }
}

/// Writes the output to Redis at intervals while the output grows.
async fn keep_writing(runner: &Runner, claim: &Claim, output: &OutputBuffer) -> Infallible {
    let mut written = none_written(claim);
    loop {
        tokio::time::sleep(OUTPUT_EVERY).await;
        let _ = Box::pin(write_output(runner, claim, output, &mut written)).await;
    }
}

/// Returns the output revision that counts as written before the first write. Usually this is 0, so
/// an empty output is not written. After an unclear `done_check`, the output of the check is stored
/// under this attempt. In this case even an empty output is written, to replace the output of the
/// check.
fn none_written(claim: &Claim) -> u64 {
    if claim.unclear > 0 { u64::MAX } else { 0 }
}

/// Writes the output to Redis if it is newer than revision `written`. If Redis refuses the write,
/// this output is lost and the run continues.
async fn write_output(
    runner: &Runner,
    claim: &Claim,
    output: &OutputBuffer,
    written: &mut u64,
) -> Result<(), StoreError> {
    write_output_of(&runner.node, &runner.retention, claim, output, written).await
}

/// Writes the output of any attempt to Redis if it is newer than revision `written`, and its progress
/// if there is news of it.
pub(crate) async fn write_output_of(
    node: &NodeContext,
    retention: &Retention,
    claim: &Claim,
    output: &OutputBuffer,
    written: &mut u64,
) -> Result<(), StoreError> {
    let progress = output.take_progress();
    if progress.is_none() && output.revision() == *written {
        return Ok(());
    }
    // In a box, so that the future of a run that prints nothing stays small.
    Box::pin(store_output(node, retention, claim, (output, progress), written)).await
}

async fn store_output(
    node: &NodeContext,
    retention: &Retention,
    claim: &Claim,
    (output, progress): (&OutputBuffer, Option<RunProgress>),
    written: &mut u64,
) -> Result<(), StoreError> {
    if let Some(progress) = progress
        && let Err(error) = node.store.note_progress(claim, &progress).await
    {
        debug!("The progress of the run was not stored: {error}.");
    }
    let revision = output.revision();
    if revision == *written {
        return Ok(());
    }
    let snapshot = output.snapshot();
    let mut frames = OutputFrames::new(snapshot.dropped_bytes);
    let stream = |stream| match stream {
        ExcerptStream::Stdout => OutputStream::Stdout,
        ExcerptStream::Stderr => OutputStream::Stderr,
    };
    snapshot.head.iter().for_each(|chunk| frames.push_head(stream(chunk.stream), &chunk.bytes));
    snapshot.tail.iter().for_each(|chunk| frames.push_tail(stream(chunk.stream), &chunk.bytes));
    let kept = node.store.write_output(claim, &frames).await;
    match &kept {
        Ok(bytes) => {
            *written = revision;
            let most = retention.bounds().output.keep_bytes_per_job;
            if bytes.is_some_and(|bytes| bytes > most + most / OUTPUT_SLACK) {
                retention.trim_soon(claim.run.job());
            }
        }
        Err(error) => debug!("The output of the run was not stored: {error}."),
    }
    kept.map(drop)
}
