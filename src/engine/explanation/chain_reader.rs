//! Reads which parents an occurrence of a child awaits.

use crate::domain::explain::{ChainFacts, Facts, Subject};
use crate::domain::name::names::{JobName, RunId};
use crate::domain::schedule::chain::parents::Parents;
use crate::store::{JobRecord, RunRecord, Store, StoreError};

/// Returns the occurrence that waits for parents: the occurrence that the user asks about, or the
/// newest for a question about the job. Returns `None` if there is none, or the job has no parents.
pub(super) async fn read_chain(
    store: &Store,
    facts: &Facts,
) -> Result<Option<ChainFacts>, StoreError> {
    let parents = facts.definition().and_then(|(spec, _)| spec.schedule.parents());
    let Some(Parents { jobs, .. }) = parents else { return Ok(None) };
    let run = match &facts.subject {
        Subject::Run(_) => None,
        Subject::Job { .. } | Subject::Never => store.newest_awaited(&facts.name).await?,
        _ => facts.at().map(|at| RunId::regular(facts.name.clone(), at)),
    };
    let Some(run) = run else { return Ok(None) };
    let ends = store.read_parent_ends(&run).await?;
    if ends.is_empty() {
        return Ok(None);
    }
    let left: Vec<&JobName> =
        jobs.iter().filter(|job| ends.iter().all(|end| end.job != **job)).collect();
    let runs: Vec<RunId> = left.iter().map(|job| run.of_job((*job).clone())).collect();
    let records = store.read_runs(&runs).await?;
    let state =
        |record: Result<Option<RunRecord>, _>| record.ok().flatten().map(|record| record.state);
    let awaited = left.into_iter().cloned().zip(records.into_iter().map(state)).collect();
    Ok(Some(ChainFacts { run, ends, awaited }))
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
