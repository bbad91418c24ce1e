//! Reads which parents an occurrence of a child awaits.

use crate::engine::chains::chain_upkeep;
use schedd_core::domain::explain::{ChainFacts, Facts, Subject};
use schedd_schedule::names::{JobName, RunId};
use schedd_store::{JobRecord, RunRecord, Store, StoreError};

/// Returns the occurrence that waits for parents: the occurrence that the user asks about, or the
/// newest for a question about the job. Returns `None` if there is none, or the job has no parents.
pub(super) async fn read_chain(
    store: &Store,
    facts: &Facts,
) -> Result<Option<ChainFacts>, StoreError> {
    if facts.definition().is_none_or(|(spec, _)| spec.schedule.parents().is_none()) {
        return Ok(None);
    }
    let run = match &facts.subject {
        Subject::Run(_) => None,
        Subject::Job { .. } | Subject::Never => store.newest_awaited(&facts.name).await?,
        _ => facts.at().map(|at| RunId::regular(facts.name.clone(), at)),
    };
    let Some(run) = run else { return Ok(None) };
    let Some(state) = store.read_chain_state(&run).await? else { return Ok(None) };
    let runs: Vec<RunId> = state.awaited().map(|job| run.of_job(job.clone())).collect();
    let records = store.read_runs(&runs).await?;
    let state_of =
        |record: Result<Option<RunRecord>, _>| record.ok().flatten().map(|record| record.state);
    let awaited = state.awaited().cloned().zip(records.into_iter().map(state_of)).collect();
    let graph = store.read_chains().await?;
    let is_stuck = !chain_upkeep::lost_ends(store, &graph, &run, &state).await?.is_empty();
    Ok(Some(ChainFacts { run, ends: state.ends, awaited, is_stuck }))
}

/// Returns the parents of the job that no longer exist.
pub(super) async fn lost_parents(store: &Store, facts: &Facts) -> Result<Vec<JobName>, StoreError> {
    let parents = facts.definition().and_then(|(spec, _)| spec.schedule.parents());
    let names: Vec<JobName> =
        parents.map_or_else(Vec::new, |parents| parents.jobs.iter().cloned().collect());
    if names.is_empty() {
        return Ok(names);
    }
    let records = store.read_jobs(&names).await?;
    let is_lost = |record: &Result<Option<JobRecord>, StoreError>| match record {
        Ok(record) => record.as_ref().is_none_or(|record| !record.is_live()),
        Err(_) => false,
    };
    let pairs = names.into_iter().zip(&records);
    Ok(pairs.filter(|(_, record)| is_lost(record)).map(|(name, _)| name).collect())
}
