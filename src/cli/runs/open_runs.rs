//! The runs of a job that have not ended.

use crate::cli::failure::CliFailure;
use crate::domain::name::names::{JobName, RunId};
use crate::store::{RunRecord, Store};

/// Returns the runs of a job that have not ended, the latest due time first. These are open runs,
/// manual runs, runs that wait for another run, and missed runs that will still start.
pub(crate) async fn open_runs(store: &Store, job: &JobName) -> Result<Vec<RunRecord>, CliFailure> {
    let mut ids: Vec<RunId> = store.list_open(job).await?;
    ids.extend(store.list_waiting(job).await?);
    ids.extend(store.list_spread(job).await?);
    ids.extend(store.list_manual(job).await?);
    ids.sort_by(|a, b| b.due().cmp(&a.due()).then_with(|| b.cmp(a)));
    ids.dedup();
    let records = store.read_runs(&ids).await?;
    Ok(records
        .into_iter()
        .filter_map(|record| record.ok().flatten())
        .filter(|run| !run.state.is_final())
        .collect())
}
