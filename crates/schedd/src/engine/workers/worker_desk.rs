//! The desk of one namespace, where workers ask for runs. A question waits here without a call to
//! Redis.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::ask_turn::AskTurn;
use super::waiting_asks::{AskError, WaitingAsk, WaitingAsks};
use super::worker_ask::{HandedRun, WorkerAsk};
use super::worker_claims::WorkerClaims;
use super::worker_reports::WorkerReports;
use crate::engine::node_context::{NodeContext, Phase};
use schedd_core::domain::queue::queue_rules::unknown_queue;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::QueueName;
use schedd_store::StoreError;

/// The desk of one namespace, where workers ask a node for runs and report about them. Clones share
/// the same desk.
#[derive(Clone)]
pub(in crate::engine) struct WorkerDesk {
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

    /// Records that a worker asks, for `explain` and `doctor`.
    pub(super) fn note_worker(&self, ask: &WorkerAsk) {
        if self.node.asking.note(&ask.serving, BootInstant::now()) {
            self.node.wakeups.presence.notify_one();
        }
    }

    /// Returns the incarnation of this node.
    pub(super) fn incarnation(&self) -> String {
        self.node.settings.incarnation.clone()
    }

    /// Returns true if the node stops, so that it hands out no more runs.
    pub(super) fn is_draining(&self) -> bool {
        self.node.phase() != Phase::Running
    }

    pub(super) fn is_of_shard(&self) -> bool {
        self.node.store.shard_number().is_some()
    }

    /// Returns the number of polls for runs so far. While it stays the same, nobody got a run.
    pub(super) fn polls(&self) -> u64 {
        self.claims.polls.load(Ordering::Relaxed)
    }

    /// Returns true if one-shots of `queue` may be on shards.
    pub(super) fn is_spread(&self, queue: &QueueName) -> bool {
        self.claims.slots.is_spread(queue)
    }

    /// Returns true if `queue` has a lane here from which workers take runs.
    pub(super) fn has_lane_of(&self, queue: &QueueName) -> bool {
        self.claims.slots.lanes_of_workers().iter().any(|lane| lane.queue() == queue)
    }

    /// Waits until due runs are claimed for the question `ask`, and returns them. Returns an empty
    /// list when the time of the question is over, or when the node stops.
    pub(super) async fn wait_for_runs(
        &self,
        ask: &Arc<WorkerAsk>,
        turn: &Arc<AskTurn>,
    ) -> Result<Vec<HandedRun>, AskError> {
        let (answer, answered) = oneshot::channel();
        let until = BootInstant::now().saturating_add(ask.wait);
        self.waiting.add(WaitingAsk::new(ask.clone(), until, turn.clone(), answer))?;
        self.node.wakeups.worker_claims.notify_one();
        // The loop that answers may have ended before the question was there.
        if self.is_draining() {
            return Ok(Vec::new());
        }
        // The loop that answers ends without an answer only at a stop of the node.
        Ok(answered.await.unwrap_or_else(|_| Ok(Vec::new()))?)
    }

    /// Returns why no worker can ask for runs of `queue`: nobody declared it. Returns `None` for a
    /// declared queue.
    pub(super) async fn unknown_queue(
        &self,
        queue: &QueueName,
    ) -> Result<Option<String>, StoreError> {
        if self.claims.slots.knows_queue(queue) || *queue == QueueName::default_queue() {
            return Ok(None);
        }
        // Another node may have declared the queue a moment ago.
        let declared: BTreeSet<QueueName> =
            self.node.store.read_queues().await?.into_keys().collect();
        Ok((!declared.contains(queue)).then(|| unknown_queue(queue, &declared)))
    }

    /// Returns the part that records the reports of workers.
    pub(in crate::engine) fn reports(&self) -> &Arc<WorkerReports> {
        &self.reports
    }

    /// Returns the runs that an earlier question with the same id got, as far as they are open. A shard
    /// that does not answer is not asked, so that it delays no question.
    pub(super) async fn claimed_before(
        &self,
        ask: &WorkerAsk,
    ) -> Result<Vec<HandedRun>, StoreError> {
        if self.is_of_shard() && self.node.outage_log.trouble().is_some() {
            return Ok(Vec::new());
        }
        self.claims.claimed_before(ask).await
    }
}
