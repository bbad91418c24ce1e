//! The actions of `top` on jobs, runs and queues. Each action does the same as the verb of
//! `schedctl` with the same name.

use super::top_lists::TopSubject;
use super::top_model::TopAction;
use crate::cli::failure::CliFailure;
use crate::cli::jobs::pause_resume::{To, not_defined, switch_job};
use crate::cli::queue::switch_queue;
use crate::cli::runs::cancel::cancel_run;
use crate::cli::runs::run_verb::refuse_damaged;
use schedd::engine::planning::job_operations;
use schedd_schedule::names::{JobName, QueueName};
use schedd_store::{QueueReply, QueueSwitch, Store};

/// Carries out an action. Returns a line about the outcome.
pub(super) async fn carry_out(store: &Store, action: &TopAction) -> Result<String, CliFailure> {
    match action {
        TopAction::Quit(_) => Ok(String::new()),
        TopAction::Cancel(run) => cancel_run(&store.place_of_run(run).await?, run).await,
        TopAction::Run(job) => run_now(store, job).await,
        TopAction::Switch(TopSubject::Job(job)) => turn_job(store, job).await,
        TopAction::Switch(TopSubject::Run(run)) => turn_job(store, run.job()).await,
        TopAction::Switch(TopSubject::Queue(queue)) => turn_queue(store, queue).await,
    }
}

async fn run_now(store: &Store, job: &JobName) -> Result<String, CliFailure> {
    let store = &store.place_of_job(job).await?;
    refuse_damaged(store, job).await?;
    match job_operations::run_by_hand(store, job, None).await?.as_slice() {
        [] => Err(not_defined(store, job).await),
        [run] => Ok(format!("run {run} is due now")),
        runs => Ok(format!("{} runs of {job} are due now, one on each node", runs.len())),
    }
}

/// Resumes the job if it is paused, and pauses it otherwise. Returns a line about the outcome.
async fn turn_job(store: &Store, job: &JobName) -> Result<String, CliFailure> {
    let place = store.place_of_job(job).await?;
    let is_paused = place.read_job(job).await?.is_some_and(|record| record.paused_at.is_some());
    switch_job(store, job, if is_paused { To::Resumed } else { To::Paused }).await
}

async fn turn_queue(store: &Store, queue: &QueueName) -> Result<String, CliFailure> {
    let read = store.read_queue_settings(std::slice::from_ref(queue)).await?;
    let is_paused = read.first().is_some_and(|record| record.settings.is_paused);
    let (to, done) =
        if is_paused { (QueueSwitch::Resume, "resumed") } else { (QueueSwitch::Pause, "paused") };
    match switch_queue(store, queue, to).await? {
        QueueReply::Done | QueueReply::Already => Ok(format!("queue {queue} {done}")),
        QueueReply::Unknown => Err(CliFailure::NotFound(format!("no file declares queue {queue}"))),
    }
}
