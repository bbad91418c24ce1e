//! `pause` and `resume`: each named job is tried, and the worst exit code is returned.

use serde_json::json;

use super::args::{Global, Jobs};
use super::connect::connect;
use super::failure::Failure;
use super::render::{Console, Outcomes, rfc3339, shown, zone_of_job};
use super::target::{job_name, no_such_job};
use crate::domain::ids::JobName;
use crate::domain::zone::Zone;
use crate::engine::person;
use crate::store::{PauseReply, ResumeReply, Store};

/// The state to switch to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    Paused,
    Resumed,
}

/// The outcome for one job.
struct Done {
    result: &'static str,
    sentence: String,
    next_due: Option<String>,
}

/// Pauses or resumes jobs.
pub(super) async fn switch(global: &Global, args: &Jobs, to: To, console: &mut Console) -> Result<u8, Failure> {
    let names: Vec<JobName> = args.names.iter().map(|text| job_name(text)).collect::<Result<_, _>>()?;
    let store = connect(global, console).await?;
    let mut outcomes = Outcomes::on(console);
    for name in names {
        let done = turn(&store, &name, to).await;
        outcomes.tell(done.map(|Done { result, sentence, next_due }| {
            (json!({"name": name.as_str(), "result": result, "next_due": next_due}), sentence)
        }));
    }
    Ok(outcomes.end())
}

/// Pauses or resumes one job. Returns a sentence with the outcome.
pub(super) async fn switch_job(store: &Store, name: &JobName, to: To) -> Result<String, Failure> {
    turn(store, name, to).await.map(|done| done.sentence)
}

async fn turn(store: &Store, name: &JobName, to: To) -> Result<Done, Failure> {
    match to {
        To::Paused => pause(store, name).await,
        To::Resumed => resume(store, name).await,
    }
}

async fn pause(store: &Store, name: &JobName) -> Result<Done, Failure> {
    let done = |result, sentence: String| Ok(Done { result, sentence, next_due: None });
    match person::pause(store, name).await? {
        PauseReply::Paused => done("paused", format!("{name} paused")),
        PauseReply::Already => done("already", format!("{name} was paused before")),
        PauseReply::Unknown | PauseReply::Stale => Err(not_defined(store, name).await),
    }
}

async fn resume(store: &Store, name: &JobName) -> Result<Done, Failure> {
    let (reply, next) = person::resume(store, name).await?;
    let zone = zone_of_job(store, name).await;
    let next_due = next.map(|at| rfc3339(at, &zone));
    match reply {
        ResumeReply::Resumed => {
            let then = next.map_or_else(String::new, |at| format!(", next {}", shown(at, &Zone::of_host())));
            Ok(Done { result: "resumed", sentence: format!("{name} resumed{then}"), next_due })
        }
        ResumeReply::Already => Ok(Done { result: "already", sentence: format!("{name} was not paused"), next_due: None }),
        ResumeReply::Unknown | ResumeReply::Stale | ResumeReply::Occupied => Err(not_defined(store, name).await),
    }
}

/// Returns the failure for a job that does not exist, or is over.
pub(super) async fn not_defined(store: &Store, name: &JobName) -> Failure {
    match store.read_job(name).await {
        Err(error) => error.into(),
        Ok(Some(job)) if !job.is_live() => {
            let how = job.ended.unwrap_or_default();
            Failure::NotFound(format!("job {name} is over ({how}): schedctl history {name} shows what it did"))
        }
        Ok(_) => no_such_job(store, name).await,
    }
}
