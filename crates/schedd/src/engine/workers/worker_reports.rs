//! Records the reports of workers about their runs.
//!
//! Invariant: a report changes a run only if its token is that of the run's last claim. So a worker
//! that was too slow changes nothing after another worker got the run. The same report again gets
//! the same answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tracing::Instrument as _;

use super::handed_claims::HandedClaim;
use super::run_report::{Report, ReportedRun, RunToken, WorkerReply};
use super::worker_claims::{WorkerClaims, starts_once};
use crate::attempts::OutputBuffer;
use crate::engine::dispatch::definition::Definition;
use crate::engine::execution::after_end;
use crate::engine::execution::after_end::EndedAttempt;
use crate::engine::execution::done_check::Course;
use crate::engine::execution::end_recorder::{EndRecorder, PlainReply};
use crate::engine::execution::late_results::AttemptEnd;
use crate::engine::execution::runner::{span_of, write_output_of};
use crate::engine::execution::verdict;
use crate::engine::execution::verdict::{RELEASED, SHUTDOWN};
use crate::engine::maintenance::retained_bounds::Retention;
use crate::engine::node_context::NodeContext;
use crate::engine::recovery::loss::loss_watch::LossWatch;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_core::domain::run::run_state::{AskedNext, AttemptOutcome, Ending, RunState};
use schedd_schedule::names::{Fence, QueueName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Claim, FinishReply, LeaseWord, RunRecord, StoreError, Verdict};

/// The time after its timeout that a worker has to report the end of an attempt.
const AFTER_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between two looks for attempts that took longer.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The part of a node that records what workers report.
pub(crate) struct WorkerReports {
    pub(in crate::engine) node: Arc<NodeContext>,
    pub(in crate::engine) claims: Arc<WorkerClaims>,
    pub(in crate::engine) ends: Arc<EndRecorder>,
    pub(in crate::engine) loss_watch: Arc<LossWatch>,
    pub(in crate::engine) retention: Arc<Retention>,
}

/// A run whose worker reports, with what this node needs to record the report.
struct OpenRun {
    claim: Claim,
    definition: Arc<Definition>,
    holder: String,
    lease: Duration,
    /// The time by the clock of Redis, or a later time if the record of the run was not read.
    now: UnixMillis,
    /// True if the record of the run was not read.
    is_handed: bool,
}

impl From<HandedClaim> for OpenRun {
    fn from(handed: HandedClaim) -> Self {
        let now = handed.now();
        let HandedClaim { claim, definition, ask, .. } = handed;
        Self { claim, definition, holder: ask.holder(), lease: ask.lease, now, is_handed: true }
    }
}

impl OpenRun {
    /// Returns the time since the claim.
    fn age(&self) -> Duration {
        self.now.since(self.claim.claimed_at)
    }
}

/// Ends attempts whose workers did not report in time that their timeouts were over. Never returns.
pub(crate) async fn end_overdue(reports: Arc<WorkerReports>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        for handed in reports.claims.handed.overdue(AFTER_TIMEOUT) {
            let (run, shard) = (handed.claim.run.clone(), reports.node.store.shard_number());
            let token = RunToken::new(shard, handed.claim.fence, &handed.ask.id);
            let report = ReportedRun { run, token, report: not_ended() };
            if let Err(error) = reports.record(vec![report], &[]).await {
                // The report forgot the claim.
                reports.claims.handed.add_again(handed);
                reports
                    .node
                    .outage_log
                    .failed(&error, "runs of workers do not end at their timeouts");
            }
        }
    }
}

/// Returns the report about an attempt whose worker did not end it at its timeout.
fn not_ended() -> Report {
    Report::Fail {
        error: "the worker did not end the attempt at its timeout".to_owned(),
        output: String::new(),
        retry: None,
        retry_in: None,
    }
}

impl WorkerReports {
    /// Records reports of a worker that may serve these queues, all if there are none. Returns the
    /// answer to each report.
    pub(super) async fn record(
        &self,
        reports: Vec<ReportedRun>,
        queues: &[QueueName],
    ) -> Result<Vec<WorkerReply>, StoreError> {
        if reports.iter().all(|report| matches!(report.report, Report::Alive { .. })) {
            return self.answer(reports, queues).await;
        }
        // A repeated report waits for replicas as the first does.
        let (replies, on_replicas) =
            self.node.store.replicated(Box::pin(self.answer(reports, queues))).await?;
        on_replicas.map(|()| replies)
    }

    async fn answer(
        &self,
        reports: Vec<ReportedRun>,
        queues: &[QueueName],
    ) -> Result<Vec<WorkerReply>, StoreError> {
        let mut replies = vec![WorkerReply::Unknown; reports.len()];
        let (mut handed, mut to_read) = (Vec::new(), Vec::new());
        let is_served = |lane: &Lane| queues.is_empty() || queues.contains(lane.queue());
        for (at, report) in reports.into_iter().enumerate() {
            match self.claims.handed.claim_for(&report) {
                Some(known) if self.is_enough(&known, &report) && is_served(&known.claim.lane) => {
                    handed.push((at, report, OpenRun::from(known)));
                }
                known => to_read.push((at, report, known.map(|known| known.definition))),
            }
        }
        for (at, report, reply) in self.settle(handed).await? {
            // The record shows what became of the run.
            if matches!(reply, WorkerReply::Stale | WorkerReply::Lost) {
                to_read.push((at, report, None));
            }
            replies[at] = reply;
        }
        let open = self.read_open(to_read, is_served, &mut replies).await?;
        for (at, _, reply) in self.settle(open).await? {
            replies[at] = reply;
        }
        Ok(replies)
    }

    /// Returns true if the remembered claim `handed` is enough to record `report`, so that the record of
    /// the run need not be read.
    fn is_enough(&self, handed: &HandedClaim, report: &ReportedRun) -> bool {
        handed.suffices_for(&report.report) && !self.loss_watch.has_accepted_since(handed.known)
    }

    /// Records the reports of runs that execute. Returns each report with the answer to it.
    async fn settle(
        &self,
        open: Vec<(usize, ReportedRun, OpenRun)>,
    ) -> Result<Vec<(usize, ReportedRun, WorkerReply)>, StoreError> {
        let (mut alive, mut ends) = (Vec::new(), Vec::new());
        for (at, report, open) in open {
            if let Report::Alive { progress } = &report.report {
                if let Some(progress) = progress {
                    stored(self.node.store.note_progress(&open.claim, progress).await)?;
                }
                alive.push((at, report, open));
            } else {
                ends.push(Box::pin(async move {
                    self.end(&open, &report.report).await.map(|reply| (at, report, reply))
                }));
            }
        }
        // Ends that wait at the same time go to Redis in one call.
        let mut replies = join_all(ends).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        replies.extend(self.renew(alive).await?);
        Ok(replies)
    }

    /// Reads the records of the runs of these reports. Returns the open runs with their reports, and
    /// writes the answers to all other reports to `replies`.
    async fn read_open(
        &self,
        reports: Vec<(usize, ReportedRun, Option<Arc<Definition>>)>,
        is_served: impl Fn(&Lane) -> bool,
        replies: &mut [WorkerReply],
    ) -> Result<Vec<(usize, ReportedRun, OpenRun)>, StoreError> {
        if reports.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<RunId> = reports.iter().map(|(_, report, _)| report.run.clone()).collect();
        let without = reports.iter().filter(|(.., known)| known.is_none());
        let without: Vec<&ReportedRun> = without.map(|(_, report, _)| report).collect();
        let (records, definitions, now) = tokio::try_join!(
            self.node.store.read_runs(&ids),
            self.claims.definitions_for(&without),
            self.node.store.now()
        )?;
        let (mut open, mut definitions) = (Vec::new(), definitions.into_iter());
        for ((at, report, known), record) in reports.into_iter().zip(records) {
            let definition = known.or_else(|| definitions.next().flatten());
            let record = record.ok().flatten().filter(|record| is_served(&record.lane));
            let Some(record) = record else {
                replies[at] = WorkerReply::Unknown;
                continue;
            };
            let is_last = record.fence == Some(report.token.fence)
                && record.claim_token.as_deref() == Some(report.token.ask.as_str());
            #[cfg(feature = "mutants")]
            let is_last = is_last
                || schedd_store::server::mutants::is(
                    schedd_store::server::mutants::Mutant::LateReports,
                );
            let job_lane = definition.as_ref().map_or(&record.lane, |job| &job.record.lane);
            let claim = Claim::unanswered(&record, job_lane).filter(|_| is_last);
            let (Some(claim), Some(definition)) = (claim, definition) else {
                replies[at] =
                    if is_last { repeated(&record, &report.report) } else { gone(&report.report) };
                continue;
            };
            let holder = record.node.unwrap_or_default();
            let lease = record.lease.unwrap_or(self.node.settings.lease);
            open.push((
                at,
                report,
                OpenRun { claim, definition, holder, lease, now, is_handed: false },
            ));
        }
        Ok(open)
    }

    /// Renews the leases of these runs, and ends the runs that are over their time. Returns the
    /// answers.
    async fn renew(
        &self,
        alive: Vec<(usize, ReportedRun, OpenRun)>,
    ) -> Result<Vec<(usize, ReportedRun, WorkerReply)>, StoreError> {
        let mut replies = Vec::new();
        let mut by_lease: BTreeMap<Duration, Vec<(usize, ReportedRun, OpenRun)>> = BTreeMap::new();
        for (at, report, open) in alive {
            let timeout = open.definition.spec.timeout;
            if open.age() > timeout.saturating_add(AFTER_TIMEOUT) {
                self.end(&open, &not_ended()).await?;
                replies.push((at, report, WorkerReply::Lost));
                continue;
            }
            by_lease.entry(open.lease).or_default().push((at, report, open));
        }
        for (lease, runs) in by_lease {
            let claims: Vec<(RunId, Fence)> = runs
                .iter()
                .map(|(_, _, open)| (open.claim.run.clone(), open.claim.fence))
                .collect();
            let words = self.node.store.renew_leases(lease, &claims).await?;
            for ((at, report, open), word) in runs.into_iter().zip(words) {
                let is_over = open.age() > open.definition.spec.timeout;
                replies.push((
                    at,
                    report,
                    match word {
                        LeaseWord::Extended if is_over => WorkerReply::Cancel(lease),
                        LeaseWord::Extended => WorkerReply::Ok(Some(lease)),
                        LeaseWord::Stop(_) => WorkerReply::Cancel(lease),
                        LeaseWord::Lost => WorkerReply::Lost,
                    },
                ));
            }
        }
        Ok(replies)
    }

    /// Returns the reason why the run shall stop. Returns `None` if nobody asked for it.
    async fn stop_request(&self, open: &OpenRun) -> Result<Option<String>, StoreError> {
        let run = (open.claim.run.clone(), open.claim.fence);
        let words = self.node.store.renew_leases(open.lease, &[run]).await?;
        Ok(words.into_iter().find_map(|word| match word {
            LeaseWord::Stop(cause) => Some(cause),
            LeaseWord::Extended | LeaseWord::Lost => None,
        }))
    }

    /// Stores `text` as the output of the attempt. Redis may refuse it; then the output is lost.
    async fn write(&self, claim: &Claim, text: &str) -> Result<(), StoreError> {
        let output = OutputBuffer::new(self.node.settings.output);
        output.append(ExcerptStream::Stdout, text.as_bytes());
        output.finish();
        stored(write_output_of(&self.node, &self.retention, claim, &output, &mut 0).await)
    }

    /// Ends the attempt of a run as its worker reports.
    async fn end(&self, open: &OpenRun, report: &Report) -> Result<WorkerReply, StoreError> {
        let OpenRun { claim, definition, holder, now, .. } = open;
        let spec = &definition.spec;
        let mut outcome = outcome_of(report, open.age() > spec.timeout, starts_once(definition));
        let mut stop_cause = None;
        if matches!(outcome.ending, Ending::Failed | Ending::ShutDown)
            && let Some(cause) = Box::pin(self.stop_request(open)).await?
        {
            (outcome.ending, stop_cause) = (Ending::Stopped, Some(cause));
        }
        let course = Course::Attempted(outcome.clone());
        let draw = fastrand::f64();
        let decision = verdict::verdict_of(spec, claim, &course, stop_cause.as_deref(), draw);
        let Some(decision) = decision else { return Ok(WorkerReply::Stale) };
        let printed = match report {
            Report::Complete { output } | Report::Fail { output, .. } => output.as_str(),
            Report::Alive { .. } | Report::Release { .. } => "",
        };
        if !printed.is_empty() {
            Box::pin(self.write(claim, printed)).await?;
        }
        let end = AttemptEnd { took: open.age(), at: *now };
        let past = match decision.verdict {
            Verdict::Final(_) => String::new(),
            _ => verdict::past(claim, holder, &outcome, end.took),
        };
        let facts = verdict::facts(&outcome, &decision, end.took);
        let reply = match self.ends.record_plainly(claim, &decision, &facts).await {
            PlainReply::Recorded(kept) => FinishReply::Finished(kept),
            // Another node may have recorded this end, which would count it here once more.
            PlainReply::Refused if open.is_handed => return Ok(WorkerReply::Stale),
            PlainReply::Refused | PlainReply::Unanswered => {
                Box::pin(self.ends.record_alone(claim, &decision, &facts, &past)).await?
            }
        };
        let ended = EndedAttempt {
            node: &self.node,
            definition,
            journal: self.loss_watch.journal(),
            retention: &self.retention,
            claim,
            decision: &decision,
            outcome: &outcome,
            end,
            reply: &reply,
        };
        after_end::run_steps(&ended).instrument(span_of(claim)).await;
        Ok(if reply == FinishReply::Lost { WorkerReply::Stale } else { WorkerReply::Ok(None) })
    }
}

/// Returns an error only if the same call may succeed later. What Redis refuses is lost, also because
/// its memory is full: the lease and the end of the run matter more.
fn stored(written: Result<(), StoreError>) -> Result<(), StoreError> {
    let is_refused =
        |error: &StoreError| !error.is_passing() || matches!(error, StoreError::OutOfMemory { .. });
    written.or_else(|error| if is_refused(&error) { Ok(()) } else { Err(error) })
}

/// Returns the answer to a report of a worker that does not have the run.
fn gone(report: &Report) -> WorkerReply {
    if matches!(report, Report::Alive { .. }) { WorkerReply::Lost } else { WorkerReply::Stale }
}

/// Returns the answer to a report about an attempt that has ended: the answer that the same report
/// got before.
fn repeated(record: &RunRecord, report: &Report) -> WorkerReply {
    let is_same = match report {
        Report::Alive { .. } => return WorkerReply::Lost,
        Report::Complete { .. } => record.state == RunState::Succeeded,
        Report::Fail { .. } => {
            matches!(record.state, RunState::Failed | RunState::TimedOut | RunState::Cancelled)
                || record.state == RunState::Scheduled && record.reason.as_deref() == Some("retry")
        }
        Report::Release { .. } => {
            let reason = record.reason.as_deref();
            match record.state {
                RunState::Cancelled => true,
                RunState::Lost => reason == Some(SHUTDOWN),
                RunState::Scheduled => reason == Some(RELEASED) || reason == Some(SHUTDOWN),
                _ => false,
            }
        }
    };
    if is_same { WorkerReply::Ok(None) } else { WorkerReply::Stale }
}

fn outcome_of(report: &Report, is_over: bool, begins_once: bool) -> AttemptOutcome {
    match report {
        Report::Complete { .. } | Report::Alive { .. } => AttemptOutcome::bare(Ending::Succeeded),
        Report::Fail { error, retry, retry_in, .. } => AttemptOutcome {
            error: Some(error.clone()),
            asked: match (retry, retry_in) {
                (Some(false), _) => Some(AskedNext::NoRetry),
                (_, wait) => wait.map(AskedNext::RetryIn),
            },
            ..AttemptOutcome::bare(if is_over { Ending::TimedOut } else { Ending::Failed })
        },
        // The delivery of the job decides whether begun work may begin again.
        Report::Release { has_begun: true, delay } if begins_once || delay.is_zero() => {
            AttemptOutcome::bare(Ending::ShutDown)
        }
        Report::Release { delay, .. } => AttemptOutcome {
            asked: Some(AskedNext::Again(*delay)),
            ..AttemptOutcome::bare(Ending::ShutDown)
        },
    }
}
