//! The actions of `top` on jobs, runs and queues. They do the same as the verbs of these names.

use super::lists::Subject;
use super::model::Wish;
use crate::cli::cancel::cancel_run;
use crate::cli::failure::Failure;
use crate::cli::run::refuse_damaged;
use crate::cli::switch::{To, not_defined, switch_job};
use crate::domain::ids::{JobName, QueueName};
use crate::engine::person;
use crate::store::{QueueReply, QueueSwitch, Store};

/// Carries out an action. Returns the outcome in one line.
pub(super) async fn carry_out(store: &Store, wish: Wish) -> Result<String, Failure> {
    match wish {
        Wish::Quit(_) => Ok(String::new()),
        Wish::Cancel(run) => cancel_run(store, &run).await,
        Wish::Run(job) => run_now(store, &job).await,
        Wish::Switch(Subject::Job(job)) => turn_job(store, &job).await,
        Wish::Switch(Subject::Run(run)) => turn_job(store, run.job()).await,
        Wish::Switch(Subject::Queue(queue)) => turn_queue(store, &queue).await,
    }
}

async fn run_now(store: &Store, job: &JobName) -> Result<String, Failure> {
    refuse_damaged(store, job).await?;
    match person::run_by_hand(store, job).await? {
        Some(run) => Ok(format!("run {run} is due now")),
        None => Err(not_defined(store, job).await),
    }
}

/// Resumes a paused job and pauses any other.
async fn turn_job(store: &Store, job: &JobName) -> Result<String, Failure> {
    let is_paused = store.read_job(job).await?.is_some_and(|record| record.paused_at.is_some());
    switch_job(store, job, if is_paused { To::Resumed } else { To::Paused }).await
}

async fn turn_queue(store: &Store, queue: &QueueName) -> Result<String, Failure> {
    let read = store.read_queue_settings(std::slice::from_ref(queue)).await?;
    let is_paused = read.first().is_some_and(|record| record.settings.is_paused);
    let (to, done) = if is_paused { (QueueSwitch::Resume, "resumed") } else { (QueueSwitch::Pause, "paused") };
    match store.switch_queue(queue, to).await? {
        QueueReply::Done | QueueReply::Already => Ok(format!("queue {queue} {done}")),
        QueueReply::Unknown => Err(Failure::NotFound(format!("no queue {queue}: no file declares it"))),
    }
}
