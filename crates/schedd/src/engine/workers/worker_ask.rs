//! The question of a worker for runs, and the runs that answer it.

use std::time::Duration;

use super::run_report::RunToken;
use crate::engine::dispatch::definition::Definition;
use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::queue::lane_serving::Serving;
use schedd_core::domain::run::trace_context::TraceContext;
use schedd_schedule::names::{JobName, NodeName, QueueName, RunId};
use schedd_store::Claim;

/// The question of a worker for runs of one queue.
#[derive(Debug, Clone)]
pub struct WorkerAsk {
    /// The name of the worker. It obeys the rule for node names.
    pub worker: NodeName,
    /// The queue from which the worker takes runs.
    pub queue: QueueName,
    /// The queue, the handlers and the labels of the worker.
    pub serving: Serving,
    /// The most runs that the worker takes.
    pub most: usize,
    /// The longest wait for a first run.
    pub wait: Duration,
    /// The length of the leases of the runs.
    pub lease: Duration,
    /// The id of the question. The same id gets the same runs while their leases live.
    pub id: String,
}

impl WorkerAsk {
    /// Returns the time for which Redis keeps the note of the question: its wait, and a lease.
    pub(super) fn noted_for(&self) -> Duration {
        self.wait.saturating_add(self.lease)
    }

    /// Returns the holder of the runs, as records of runs name it.
    pub(super) fn holder(&self) -> String {
        format!("worker:{}", self.worker)
    }
}

/// A run that was claimed for a worker.
#[derive(Debug, Clone)]
pub struct HandedRun {
    /// The run.
    pub run: RunId,
    /// The job of the run.
    pub job: JobName,
    /// The handler whose work the run is. Empty if the job has no handler any more.
    pub handler: String,
    /// The input of the work as JSON.
    pub payload: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The proof that the worker has the run.
    pub token: RunToken,
    /// The time within which the worker must report again.
    pub lease: Duration,
    /// The time that the attempt may take.
    pub timeout: Duration,
    /// The trace to which the work belongs.
    pub trace: Option<TraceContext>,
}

impl HandedRun {
    /// Returns the run of `claim`, which the question with this id got with this lease. `shard` is
    /// the shard of the run, if any.
    pub(super) fn of(
        shard: Option<u32>,
        definition: &Definition,
        claim: &Claim,
        id: &str,
        lease: Duration,
        trace: Option<TraceContext>,
    ) -> Self {
        let (handler, payload) = match &definition.spec.action {
            Action::Handler(call) => (call.handler.to_string(), call.payload.clone()),
            Action::Command(_) | Action::Shell(_) | Action::Http(_) => {
                (String::new(), "null".to_owned())
            }
        };
        Self {
            run: claim.run.clone(),
            job: claim.run.job().clone(),
            handler,
            payload,
            attempt: claim.attempt,
            token: RunToken::new(shard, claim.fence, id),
            lease,
            timeout: definition.spec.timeout,
            trace,
        }
    }
}
