//! The worker that takes its runs from Redis: a node within this process, which serves no jobs file.
//! The node claims runs, renews leases and records ends, as each node does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use signal_hook_tokio::Signals;
use tokio::sync::watch;

use super::warning_log::print_warnings;
use super::worker_client::WorkerRun;
use super::worker_process::{RELEASE_WAIT, WorkControl, WorkEnd, WorkProgram, WorkStop};
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Console, rfc3339};
use schedd::WorkerNode;
use schedd::attempts::{Attempt, Control, Execute, OutputBuffer, StopReason};
use schedd::engine::{PresenceError, WorkerServing};
use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::queue::queue_rules::unknown_queue;
use schedd_core::domain::run::run_state::{AskedNext, AttemptOutcome, Ending};
use schedd_schedule::names::{NodeName, QueueName};
use schedd_store::Store;

/// The time for which a stop waits for processes: practically for ever, as the first signal asks.
const GRACE: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Executes runs of handlers by processes of the worker's program.
struct ProgramExecutor(WorkProgram);

/// A worker that takes its runs from Redis.
pub(super) struct RedisWorker {
    pub(super) queue: QueueName,
    pub(super) serving: WorkerServing,
    /// The name of the worker's node. With `None`, the node gets the host's name and a random word.
    pub(super) name: Option<NodeName>,
    pub(super) lease: Duration,
    pub(super) program: WorkProgram,
}

impl RedisWorker {
    /// Works until a signal comes, and the processes have ended.
    pub(super) async fn work(
        self,
        global: &Global,
        signals: &mut Signals,
        console: &mut Console,
    ) -> Result<(), CliFailure> {
        let Self { queue, serving, name, lease, program } = self;
        let keeper = program.keeper.clone();
        let store = connect(global, console).await?;
        refuse_unknown(&store, &queue).await?;
        let from = store.address().to_owned();
        let node = WorkerNode { store, zone: local_zone(), serving, name, lease, grace: GRACE };
        print_warnings();
        let executor = Arc::new(ProgramExecutor(program));
        let (node, name) = node.start(executor).await.map_err(|error| match error {
            PresenceError::Store(error) => error.into(),
            PresenceError::Taken { name, pid, host } => CliFailure::Conflict(format!(
                "--name: found {name}, the name of a node with process id {pid} on host {host}, wanted another name"
            )),
        })?;
        console.note(&format!("worker {name} takes runs of queue {queue} from {from}"));
        signals.next().await;
        console.note("the worker ends when its open runs have ended; a second signal stops them");
        let again = async {
            signals.next().await;
        };
        node.stop(again).await;
        keeper.stop().await;
        Ok(())
    }
}

/// Refuses a queue that nobody declared, because no run of it can exist.
async fn refuse_unknown(store: &Store, queue: &QueueName) -> Result<(), CliFailure> {
    let declared: BTreeSet<QueueName> = store.read_queues().await?.into_keys().collect();
    if declared.contains(queue) || *queue == QueueName::default_queue() {
        return Ok(());
    }
    Err(CliFailure::NotFound(unknown_queue(queue, &declared)))
}

impl Execute for ProgramExecutor {
    fn execute<'a>(
        &'a self,
        attempt: &'a Attempt,
        control: Control,
        output: &'a OutputBuffer,
    ) -> BoxFuture<'a, AttemptOutcome> {
        Box::pin(async {
            let Some(run) = run_of(attempt) else {
                return AttemptOutcome::failed("cannot start: a worker has only handlers");
            };
            let Control { deadline, stop: mut asked } = control;
            let (stop_sender, stop) = watch::channel(asked.borrow_and_update().map(WorkStop::from));
            let pass_on = async {
                while asked.changed().await.is_ok() {
                    stop_sender.send_replace(asked.borrow_and_update().map(WorkStop::from));
                }
                std::future::pending::<()>().await;
            };
            let control = WorkControl { deadline, stop };
            let end = tokio::select! {
                end = self.0.work_on(&run, control, Some(output.clone())) => end,
                () = pass_on => WorkEnd::Lost,
            };
            outcome_of(end, *stop_sender.borrow(), attempt.begins_once)
        })
    }
}

impl From<StopReason> for WorkStop {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Cancelled => Self::Cancelled,
            StopReason::ShutDown => Self::Shutdown,
        }
    }
}

/// Returns the run of `attempt` as the API hands it to a worker. `None` if no handler is called.
fn run_of(attempt: &Attempt) -> Option<WorkerRun> {
    let Action::Handler(call) = &attempt.action else { return None };
    Some(WorkerRun {
        run_id: attempt.run.to_string(),
        job: attempt.run.job().to_string(),
        handler: call.handler.to_string(),
        payload: serde_json::from_str(&call.payload).ok()?,
        due: rfc3339(attempt.run.due(), &local_zone()),
        attempt: attempt.number,
        fence: attempt.fence.as_u64(),
        token: String::new(),
        timeout_ms: u64::try_from(attempt.timeout.as_millis()).unwrap_or(u64::MAX),
        traceparent: attempt.trace.map(|trace| trace.to_string()),
    })
}

/// Returns the outcome of an attempt for `end`, the end of its program. `stop` is the reason to stop
/// that the node gave, if any. `begins_once` is true if begun work must not begin again.
fn outcome_of(end: WorkEnd, stop: Option<WorkStop>, begins_once: bool) -> AttemptOutcome {
    match end {
        WorkEnd::Done { .. } => AttemptOutcome::bare(Ending::Succeeded),
        WorkEnd::Failed { .. } | WorkEnd::Stopped { .. } if stop == Some(WorkStop::Cancelled) => {
            AttemptOutcome::bare(Ending::Stopped)
        }
        WorkEnd::Failed { error, has_timed_out, .. } => {
            let ending = if has_timed_out { Ending::TimedOut } else { Ending::Failed };
            AttemptOutcome { error: Some(error), ..AttemptOutcome::bare(ending) }
        }
        WorkEnd::GivenBack if begins_once => AttemptOutcome::bare(Ending::ShutDown),
        WorkEnd::GivenBack => AttemptOutcome {
            asked: Some(AskedNext::Again(RELEASE_WAIT)),
            ..AttemptOutcome::bare(Ending::ShutDown)
        },
        WorkEnd::Stopped { has_begun: false } => AttemptOutcome {
            asked: Some(AskedNext::Again(Duration::ZERO)),
            ..AttemptOutcome::bare(Ending::ShutDown)
        },
        WorkEnd::Stopped { has_begun: true } => AttemptOutcome::bare(Ending::ShutDown),
        WorkEnd::NotStarted => AttemptOutcome::bare(Ending::NotStarted),
        WorkEnd::Lost => AttemptOutcome::bare(Ending::LeaseLost),
    }
}
