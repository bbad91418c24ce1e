//! The request to add one job, and the result of the request.

use std::time::Duration;

use crate::cli::failure::CliFailure;
use schedd::engine::planning::planting::Request;
use schedd_core::config::NamedJob;
use schedd_core::domain::job::unique_rule::Second;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Existing, SourceKind, Store};

/// An added job: its name, the outcome (`created`, `updated`, `unchanged` or `exists`) and the due
/// time of its planned run. The due time is `None` if no run is planned.
pub(super) type AddResult = (JobName, &'static str, Option<UnixMillis>);

/// Returns the result of an add for the existing job `name`: the outcome `result`, such as
/// `exists`, and the due time of the job's planned run.
pub(super) async fn pending(
    store: &Store,
    name: JobName,
    result: &'static str,
) -> Result<AddResult, CliFailure> {
    let next = store.read_job(&name).await?.and_then(|job| job.pending).map(|run| run.due());
    Ok((name, result, next))
}

/// Returns true if `job` has a unique key whose mode drops the add without an error while another
/// job holds the key.
pub(super) fn is_dropped(job: &NamedJob) -> bool {
    job.spec.unique.as_ref().is_some_and(|unique| matches!(unique.second, Second::Dropped { .. }))
}

/// Returns the request to add `job` under `name`. If a job of this name exists and is not over,
/// `existing` decides if the request changes that job or is refused.
pub(super) fn request(name: JobName, job: &NamedJob, existing: Existing) -> Request {
    let start_in: Option<Duration> = job.start_in;
    Request {
        name,
        is_drawn: job.name.is_none(),
        spec: job.spec.clone(),
        start_in,
        kind: SourceKind::Api,
        source: String::new(),
        existing,
        seen: None,
    }
}
