//! The runs of a job that have not ended, and those that ended last. The runs of a job on each node
//! are those of its instances.

use futures_util::future::try_join_all;

use crate::cli::failure::CliFailure;
use crate::cli::jobs::instance_names::run_names;
use schedd_schedule::names::{JobName, RunId};
use schedd_store::{Ended, RunRecord, Store};

/// The maximum number of running runs that are listed.
const MOST_RUNNING: usize = 100_000;

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
    let records = store.read_runs(&open_run_ids(store, job).await?).await?;
    Ok(records
        .into_iter()
        .filter_map(|record| record.ok().flatten())
        .filter(|run| !run.state.is_final())
        .collect())
}

/// Returns the ids of the runs that [`open_runs`] returns. A run that ends meanwhile may be among
/// them.
pub(crate) async fn open_run_ids(store: &Store, job: &JobName) -> Result<Vec<RunId>, CliFailure> {
    let names = run_names(store, job).await?;
    let lists = try_join_all(names.iter().map(async |name| {
        tokio::try_join!(
            store.list_open(name),
            store.list_waiting(name),
            store.list_spread(name),
            store.list_manual(name),
        )
    }))
    .await?;
    let mut ids: Vec<RunId> = Vec::new();
    for (open, waiting, spread, manual) in lists {
        ids.extend(open.into_iter().chain(waiting).chain(spread).chain(manual));
    }
    ids.sort_by(|a, b| b.due().cmp(&a.due()).then_with(|| b.cmp(a)));
    ids.dedup();
    Ok(ids)
}

/// Returns the ids of the running runs of all jobs, in no order, without runs that deliver notices.
pub(crate) async fn running_run_ids(store: &Store) -> Result<Vec<RunId>, CliFailure> {
    let leases = store.list_leases(MOST_RUNNING).await?.into_iter().flatten();
    Ok(leases.map(|lease| lease.run).filter(|run| !run.job().is_hidden()).collect())
}
