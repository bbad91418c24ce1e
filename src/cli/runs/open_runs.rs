//! The runs of a job that have not ended, and those that ended last. The runs of a job on each node
//! are those of its instances.

use crate::cli::failure::CliFailure;
use crate::cli::jobs::instance_names::run_names;
use crate::domain::name::names::{JobName, RunId};
use crate::store::{Ended, RunRecord, Store};

/// Returns the `limit` runs of a job that ended last, newest first.
pub(crate) async fn ended_runs(
    store: &Store,
    job: &JobName,
    limit: usize,
) -> Result<Vec<RunRecord>, CliFailure> {
    let ended = Ended { jobs: run_names(store, job).await?, ..Ended::history() };
    Ok(store.read_ended(&ended, 0, limit).await?.runs)
}

/// Returns the runs of a job that have not ended, the latest due time first. These are open runs,
/// manual runs, runs that wait for another run, and missed runs that will still start.
pub(crate) async fn open_runs(store: &Store, job: &JobName) -> Result<Vec<RunRecord>, CliFailure> {
    let mut ids: Vec<RunId> = Vec::new();
    for name in run_names(store, job).await? {
        ids.extend(store.list_open(&name).await?);
        ids.extend(store.list_waiting(&name).await?);
        ids.extend(store.list_spread(&name).await?);
        ids.extend(store.list_manual(&name).await?);
    }
    ids.sort_by(|a, b| b.due().cmp(&a.due()).then_with(|| b.cmp(a)));
    ids.dedup();
    let records = store.read_runs(&ids).await?;
    Ok(records
        .into_iter()
        .filter_map(|record| record.ok().flatten())
        .filter(|run| !run.state.is_final())
        .collect())
}
