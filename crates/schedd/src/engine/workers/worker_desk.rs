//! The place where workers ask for runs. A question waits here without a call to Redis.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::waiting_asks::{AskError, WaitingAsk, WaitingAsks};
use super::worker_ask::{HandedRun, WorkerAsk};
use super::worker_claims::WorkerClaims;
use super::worker_reports::WorkerReports;
use crate::engine::dispatch::definition::Definition;
use crate::engine::node_context::{NodeContext, Phase};
use schedd_core::domain::job::job_spec::Delivery;
use schedd_core::domain::run::run_state::RunState;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::{JobName, RunId};
use schedd_store::{Claim, StoreError};

/// The place where workers ask a node for runs and report about them. Clones share the same place.
#[derive(Clone)]
pub struct WorkerDesk {
    node: Arc<NodeContext>,
    waiting: Arc<WaitingAsks>,
    claims: Arc<WorkerClaims>,
    reports: Arc<WorkerReports>,
}

/// The answer to a question.
#[derive(Debug, Clone)]
pub struct WorkerAnswer {
    /// The claimed runs. Empty if no run was ready in time.
    pub runs: Vec<HandedRun>,
    /// True if the node stops, so that the worker asks another node next.
    pub is_draining: bool,
}

impl WorkerDesk {
    pub(in crate::engine) fn new(
        node: Arc<NodeContext>,
        claims: Arc<WorkerClaims>,
        reports: Arc<WorkerReports>,
    ) -> Self {
        Self { node, waiting: claims.waiting.clone(), claims, reports }
    }

    /// Returns runs for a worker, and waits for them if none is ready. If the question has the id of
    /// an earlier one, returns the runs of that one whose leases live.
    pub async fn ask(&self, ask: WorkerAsk) -> Result<WorkerAnswer, AskError> {
        let ask = Arc::new(ask);
        if self.node.asking.note(&ask.serving, BootInstant::now()) {
            self.node.wakeups.presence.notify_one();
        }
        if self.node.phase() != Phase::Running {
            return Ok(WorkerAnswer { runs: Vec::new(), is_draining: true });
        }
        let runs = self.claimed_before(&ask).await?;
        if !runs.is_empty() {
            return Ok(WorkerAnswer { runs, is_draining: false });
        }
        let (answer, answered) = oneshot::channel();
        let until = BootInstant::now().saturating_add(ask.wait);
        self.waiting.add(WaitingAsk::new(ask, until, answer))?;
        self.node.wakeups.worker_claims.notify_one();
        // The loop that answers may have ended before the question was there.
        if self.node.phase() != Phase::Running {
            return Ok(WorkerAnswer { runs: Vec::new(), is_draining: true });
        }
        // The loop that answers ends without an answer only at a stop of the node.
        let runs = answered.await.unwrap_or_else(|_| Ok(Vec::new()))?;
        Ok(WorkerAnswer { runs, is_draining: self.node.phase() != Phase::Running })
    }

    /// Returns what became of the reports of a worker.
    pub fn reports(&self) -> &WorkerReports {
        &self.reports
    }

    /// Returns the runs that an earlier question with the same id got, as far as they are open. Where
    /// changes wait for replicas, an at-most-once run is not among them: the earlier question may still
    /// wait for the replicas of its mark, and give the run back.
    async fn claimed_before(&self, ask: &WorkerAsk) -> Result<Vec<HandedRun>, StoreError> {
        let Some(ids) = self.node.store.read_worker_claim(&ask.id).await? else {
            return Ok(Vec::new());
        };
        // A run is noted each time that its claim is tried. The answer keeps the order of the first.
        let mut known = BTreeSet::new();
        let noted = ids.split(' ').filter(|id| known.insert(*id));
        let ids: Vec<RunId> = noted.filter_map(|id| id.parse().ok()).collect();
        let mut claims = Vec::new();
        for record in self.node.store.read_runs(&ids).await?.into_iter().flatten().flatten() {
            let is_its = record.state == RunState::Running
                && record.claim_token.as_deref() == Some(ask.id.as_str());
            claims.extend(Claim::unanswered(&record, &record.lane).filter(|_| is_its));
        }
        if self.node.store.is_replicated() {
            let names: Vec<JobName> = claims.iter().map(|claim| claim.run.job().clone()).collect();
            let mut jobs = self.claims.definitions(&names).await?.into_iter();
            let is_repeatable = |job: Arc<Definition>| job.spec.delivery != Delivery::AtMostOnce;
            claims.retain(|_| jobs.next().flatten().is_some_and(is_repeatable));
        }
        self.claims.handed(claims, &ask.id, ask.lease).await
    }
}
