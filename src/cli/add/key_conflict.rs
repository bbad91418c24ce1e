//! The failure of an `add` whose unique key another job holds.

use crate::cli::failure::CliFailure;
use crate::cli::jobs::target::no_such_job;
use crate::cli::local_zone::local_zone;
use crate::cli::render::shown;
use schedd_core::config::NamedJob;
use schedd_core::domain::job::unique_rule::UniqueKey;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::JobName;
use schedd_store::{JobRecord, RunRecord, Store, StoreError};

/// Returns the failure for a unique key that job `first` holds, with the state of that job.
pub(super) async fn key_taken(store: &Store, first: &JobName, wanted: &NamedJob) -> CliFailure {
    let Some(unique) = &wanted.spec.unique else { return no_such_job(store, first).await };
    match doing(store, first, &unique.key).await {
        Ok(doing) => CliFailure::Conflict(format!(
            "unique key {:?} is held by job {first}, which {doing}; --if-absent makes this a success",
            unique.key.as_str()
        )),
        Err(error) => error.into(),
    }
}

/// Returns the state of job `name`, which holds `key`, as text. If the job holds the key for a
/// limited time, the text names the end of that time.
async fn doing(store: &Store, name: &JobName, key: &UniqueKey) -> Result<String, StoreError> {
    let local = local_zone();
    let doing = match store.read_job(name).await? {
        Some(JobRecord { ended: Some(_), ended_at: Some(at), .. }) => {
            format!("ended at {}", shown(at, &local))
        }
        None | Some(JobRecord { ended: Some(_), .. }) => "has ended".to_owned(),
        Some(JobRecord { paused_at: Some(at), .. }) => {
            format!("has been paused since {}", shown(at, &local))
        }
        Some(job) => match open_run(store, name).await? {
            Some(run) if run.state == RunState::Running => match run.started_at {
                Some(at) => format!("has been running since {}", shown(at, &local)),
                None => "is running".to_owned(),
            },
            Some(_) => "has a run that waits at a gate, for an open run or for a retry".to_owned(),
            None => match job.pending {
                Some(run) => format!("is due at {}", shown(run.due(), &local)),
                None => "runs only by schedctl run".to_owned(),
            },
        },
    };
    let holder = store.read_holders(std::slice::from_ref(key)).await?.pop().transpose()?.flatten();
    Ok(match holder.and_then(|holder| holder.until) {
        Some(until) => format!("{doing}; job {name} holds the key until {}", shown(until, &local)),
        None => doing,
    })
}

async fn open_run(store: &Store, name: &JobName) -> Result<Option<RunRecord>, StoreError> {
    match store.list_open(name).await?.first() {
        Some(run) => store.read_run(run).await,
        None => Ok(None),
    }
}
