//! The part of a node that claims runs for workers, and what it remembers of their claims.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::info;

use super::ask_turn::{NotedRuns, has_mark};
use super::handed_claims::HandedClaims;
use super::run_report::{Report, ReportedRun};
use super::waiting_asks::{WaitingAsk, WaitingAsks};
use super::worker_ask::{HandedRun, WorkerAsk};
use crate::engine::dispatch::claimer::{Claimer, StartClaimed};
use crate::engine::dispatch::definition::Definition;
use crate::engine::dispatch::slots::Slots;
use crate::engine::execution::start_mark;
use crate::engine::node_context::NodeContext;
use crate::engine::recovery::loss::loss_watch::LossWatch;
use schedd_core::domain::job::job_spec::Delivery;
use schedd_core::domain::run::run_state::RunState;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::{JobName, RunId};
use schedd_store::{Claim, LeaseWord, StoreError, Verdict};

/// The time for which no at-most-once run is claimed after replicas lacked the mark of such a run.
const UNMARKED: Duration = Duration::from_secs(5);
/// The longest note of a question without open runs, in bytes.
const LONGEST_NOTE: usize = 16 * 1024;

/// The part of a node that claims runs for workers.
pub(crate) struct WorkerClaims {
    pub(super) node: Arc<NodeContext>,
    pub(super) slots: Slots,
    pub(super) loss_watch: Arc<LossWatch>,
    pub(super) waiting: Arc<WaitingAsks>,
    pub(super) handed: HandedClaims,
    pub(super) claimer: tokio::sync::Mutex<Claimer>,
    /// The number of polls of lanes so far.
    pub(super) polls: AtomicU64,
    /// Until when no at-most-once run is claimed, because replicas lacked the mark of the last.
    unmarked_until: Mutex<Option<BootInstant>>,
}

/// A claimed run: the definition of its job, its claim, and when the claim was sent.
pub(super) type WonClaim = (Arc<Definition>, Claim, BootInstant);

/// The runs that were claimed for the worker whose turn it is.
#[derive(Default)]
pub(in crate::engine) struct ClaimedRuns(Mutex<Vec<WonClaim>>);

impl StartClaimed for ClaimedRuns {
    fn start_claimed(
        self: Arc<Self>,
        definition: Arc<Definition>,
        claim: Claim,
        sent: BootInstant,
    ) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((definition, claim, sent));
    }
}

impl ClaimedRuns {
    pub(super) fn take(&self) -> Vec<WonClaim> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl WorkerClaims {
    pub(in crate::engine) fn new(
        node: Arc<NodeContext>,
        slots: Slots,
        loss_watch: Arc<LossWatch>,
        claimer: Claimer,
    ) -> Self {
        let claimer = tokio::sync::Mutex::new(claimer);
        Self {
            node,
            slots,
            loss_watch,
            waiting: Arc::default(),
            handed: HandedClaims::default(),
            claimer,
            polls: AtomicU64::new(0),
            unmarked_until: Mutex::default(),
        }
    }

    /// Returns the runs that an earlier question with the same id got, as far as they are open. Where
    /// changes wait for replicas, an at-most-once run is not among them: the earlier question may still
    /// wait for the replicas of its mark, and give the run back.
    pub(super) async fn claimed_before(
        &self,
        ask: &WorkerAsk,
    ) -> Result<Vec<HandedRun>, StoreError> {
        let note = self.node.store.read_worker_claim(&ask.id).await?.unwrap_or_default();
        self.open_runs(&note, ask).await
    }

    /// Returns the runs that an earlier question with the same id got, as [`Self::claimed_before`] does.
    /// Marks the question before if another node has it.
    pub(super) async fn look_up(
        &self,
        waiting: &mut WaitingAsk,
    ) -> Result<Vec<HandedRun>, StoreError> {
        let note = self.node.store.read_worker_claim(&waiting.ask.id).await?.unwrap_or_default();
        if !waiting.is_marked && (waiting.needs_mark || has_mark(&note)) {
            return self.mark(waiting).await;
        }
        self.open_runs(&note, &waiting.ask).await
    }

    /// Marks a question as this node's, and returns the runs that other nodes have claimed for it. A
    /// Redis that takes no note of the question leaves it unmarked.
    pub(super) async fn mark(
        &self,
        waiting: &mut WaitingAsk,
    ) -> Result<Vec<HandedRun>, StoreError> {
        let (store, ask, mark) = (&self.node.store, &waiting.ask, waiting.turn.mark());
        let note = match store.mark_worker_claim(&ask.id, &mark, ask.noted_for()).await {
            Err(StoreError::OutOfMemory { .. } | StoreError::Denied { .. }) => {
                return self.claimed_before(ask).await;
            }
            note => note?,
        };
        let runs = self.open_runs(&note, ask).await?;
        // A worker that never changes the id of its question would make the note long.
        if runs.is_empty() && note.len() > LONGEST_NOTE {
            store.shorten_worker_claim(&ask.id, &mark, ask.noted_for()).await?;
        }
        waiting.is_marked = true;
        Ok(runs)
    }

    /// Sorts the runs that were just claimed for a question. Returns those that it may have, and those
    /// whose claims are void. Without an answer of Redis, no other node is known.
    pub(super) async fn sort_out(
        &self,
        waiting: &WaitingAsk,
        taken: Vec<WonClaim>,
    ) -> (Vec<WonClaim>, Vec<WonClaim>) {
        if !waiting.is_marked || taken.is_empty() {
            return (taken, Vec::new());
        }
        let Ok(note) = self.node.store.read_worker_claim(&waiting.ask.id).await else {
            return (taken, Vec::new());
        };
        let note = note.unwrap_or_default();
        let (noted, here) = (NotedRuns::of(&note), self.node.settings.incarnation.as_str());
        taken.into_iter().partition(|(_, claim, _)| noted.has_claim(&claim.run.to_string(), here))
    }

    /// Returns the runs in `note` that the question `ask` got and that are open.
    pub(super) async fn open_runs(
        &self,
        note: &str,
        ask: &WorkerAsk,
    ) -> Result<Vec<HandedRun>, StoreError> {
        if note.is_empty() {
            return Ok(Vec::new());
        }
        // In a box, because a question that is sent again is rare.
        Box::pin(self.open_among(note, ask)).await
    }

    async fn open_among(&self, note: &str, ask: &WorkerAsk) -> Result<Vec<HandedRun>, StoreError> {
        let noted = NotedRuns::of(note);
        let ids: Vec<RunId> = noted.ids.iter().filter_map(|id| id.parse().ok()).collect();
        let mut claims = Vec::new();
        for record in self.node.store.read_runs(&ids).await?.into_iter().flatten().flatten() {
            let is_its = record.state == RunState::Running
                && record.claim_token.as_deref() == Some(ask.id.as_str())
                && noted.has_claim(
                    &record.run.to_string(),
                    record.incarnation.as_deref().unwrap_or_default(),
                );
            claims.extend(Claim::unanswered(&record, &record.lane).filter(|_| is_its));
        }
        if self.node.store.is_replicated() {
            let names: Vec<JobName> = claims.iter().map(|claim| claim.run.job().clone()).collect();
            let mut jobs = self.definitions(&names).await?.into_iter();
            let is_repeatable = |job: Arc<Definition>| !starts_once(&job);
            claims.retain(|_| jobs.next().flatten().is_some_and(is_repeatable));
        }
        // The answer tells the whole lease, so the lease begins anew.
        let leases: Vec<_> = claims.iter().map(|claim| (claim.run.clone(), claim.fence)).collect();
        let mut words = match leases.as_slice() {
            [] => return Ok(Vec::new()),
            leases => self.node.store.renew_leases(ask.lease, leases).await?.into_iter(),
        };
        claims.retain(|_| words.next().is_some_and(|word| word != LeaseWord::Lost));
        self.handed(claims, &ask.id, ask.lease).await
    }

    /// Returns the runs of `claims` for the worker whose question has this id.
    async fn handed(
        &self,
        claims: Vec<Claim>,
        id: &str,
        lease: Duration,
    ) -> Result<Vec<HandedRun>, StoreError> {
        let names: Vec<JobName> = claims.iter().map(|claim| claim.run.job().clone()).collect();
        let definitions = self.definitions(&names).await?;
        let run = |(claim, definition): (&Claim, &Option<Arc<Definition>>)| {
            let definition = definition.as_ref()?;
            Some(self.handed_run(definition, claim, id, lease))
        };
        Ok(claims.iter().zip(&definitions).filter_map(run).collect())
    }

    /// Returns true while no at-most-once run is claimed.
    pub(super) fn pauses_at_most_once(&self) -> bool {
        let until = *self.unmarked_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| BootInstant::now() < until)
    }

    /// Claims no at-most-once run for a moment. Each try waits for replicas, and all workers wait for it.
    pub(super) fn refuse_at_most_once(&self, error: &StoreError) {
        self.node.outage_log.failed(error, "workers get no runs with at-most-once delivery");
        *self.unmarked_until.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(BootInstant::now().saturating_add(UNMARKED));
    }

    pub(super) fn handed_run(
        &self,
        definition: &Definition,
        claim: &Claim,
        id: &str,
        lease: Duration,
    ) -> HandedRun {
        let trace = self.node.traces.context_of(&claim.run, definition.spec.traceparent);
        HandedRun::of(self.node.store.shard_number(), definition, claim, id, lease, trace)
    }

    /// Returns the definitions of these jobs. `None` for a job that is gone or unreadable.
    pub(super) async fn definitions(
        &self,
        names: &[JobName],
    ) -> Result<Vec<Option<Arc<Definition>>>, StoreError> {
        let mut claimer = self.claimer.lock().await;
        let definitions = claimer.definitions();
        definitions.read_missing(names.iter()).await?;
        Ok(names.iter().map(|name| definitions.get(name)).collect())
    }

    /// Returns the definitions of the jobs of these reports, as [`Self::definitions`] does. The report
    /// of an end is the last use of the definition of a one-shot.
    pub(super) async fn definitions_for(
        &self,
        reports: &[&ReportedRun],
    ) -> Result<Vec<Option<Arc<Definition>>>, StoreError> {
        let mut claimer = self.claimer.lock().await;
        let definitions = claimer.definitions();
        definitions.read_missing(reports.iter().map(|report| report.run.job())).await?;
        let found = reports.iter().map(|report| definitions.get(report.run.job())).collect();
        for report in reports.iter().filter(|report| !matches!(report.report, Report::Alive { .. }))
        {
            definitions.forget_once(report.run.job());
        }
        Ok(found)
    }
}

/// Returns true if a run of the job never begins twice.
pub(super) fn starts_once(job: &Definition) -> bool {
    job.spec.delivery == Delivery::AtMostOnce
}

/// Makes a run due again that no worker got. The call is repeated while the lease lives; then the run
/// is lost.
pub(super) async fn give_back(node: Arc<NodeContext>, claim: Claim, lease: Duration) {
    let until = BootInstant::now().saturating_add(lease);
    while BootInstant::now() < until {
        let reason = "not started";
        match node.store.finish_run(&claim, &Verdict::Release, reason, &[], "").await {
            Ok(_) => return,
            Err(error) => {
                node.outage_log.failed(&error, "runs that no worker got are not handed back");
            }
        }
        tokio::time::sleep(node.settings.tick).await;
    }
}

/// Logs and counts the start of a run. The start of an at-most-once run is also in the journal.
pub(super) async fn note_start(
    claims: &WorkerClaims,
    definition: &Definition,
    claim: &Claim,
    holder: &str,
) {
    let late = claim.claimed_at.since(claim.run.due());
    let late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
    info!(run = %claim.run, attempt = claim.attempt, holder, late_ms, "A worker got the run.");
    if !claim.claimed_before {
        claims.node.counters.run_started(claim.lane.queue(), late);
    }
    if definition.spec.delivery == Delivery::AtMostOnce {
        claims.loss_watch.journal().mark_start(start_mark::line_of(claim)).await;
    }
}
