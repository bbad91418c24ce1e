//! The audit log of one job, without the rest of its explanation.

use futures_util::future::join_all;
use serde_json::Value;

use crate::cli::explain::audit_documents;
use crate::cli::failure::CliFailure;
use crate::cli::jobs::instance_names::run_names;
use crate::cli::jobs::target::job_name;
use crate::cli::render::zone_of_job;
use schedd_store::Store;

/// Returns the audit log of a job, as `explain` has it, with those of its instances. A log that
/// cannot be read counts as empty, because `explain` says why.
pub(crate) async fn job_audit_log(home: &Store, job: &str) -> Result<Vec<Value>, CliFailure> {
    let job = job_name(job)?;
    let store = home.place_of_job(&job).await?;
    let (names, zone) = tokio::join!(run_names(&store, &job), zone_of_job(&store, &job));
    let names = names?;
    let logs = join_all(names.iter().map(|name| store.read_audit_log(name))).await;
    let entries = logs.into_iter().flat_map(Result::unwrap_or_default);
    Ok(audit_documents(&entries.collect::<Vec<_>>(), &zone))
}
