//! The upkeep of chains: the check and repair of links to parents, of occurrences that wait in vain,
//! and the removal of what is too old.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::dispatch::definition::Definition;
use schedd_core::domain::consistency::ChainPlaces;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::chain::chain_end::{ChainState, ParentEnd};
use schedd_schedule::chain::chain_graph::{ChainGraph, FormerLink};
use schedd_schedule::chain::parents::Parents;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{JobRecord, MendReply, RunRecord, Store, StoreError};

/// The time after which an occurrence no longer waits for its parents, and a former link is
/// removed. It is longer than any run that is not stuck, with its retries.
const KEPT: Duration = Duration::from_secs(90 * 24 * 3600);
/// The most times that a job is read again because it changed during its repair.
const ROUNDS: usize = 8;
/// The most occurrences of a job, the oldest ones, that the check looks at for a vain wait.
const LOOKED_AT: usize = 20;
/// The number of waiting ends that the check reads. With more, it assumes that no wait is vain.
const ENDS: usize = 1_000;

/// Returns the facts about the links of these jobs. `graph` has the links in the index. A job whose
/// definition is unusable is left out.
pub(crate) async fn look_at_links(
    store: &Store,
    graph: &ChainGraph,
    jobs: &[(&JobName, Option<&JobRecord>)],
) -> Result<Vec<ChainPlaces>, StoreError> {
    let names: Vec<&JobName> = jobs.iter().map(|(name, _)| *name).collect();
    let waiting = store.read_chain_states(&names).await?;
    let mut facts = Vec::new();
    for ((name, record), states) in jobs.iter().zip(waiting) {
        let live = record.filter(|record| record.is_live());
        let wanted = match live.map(|record| Definition::of(record.clone())) {
            Some(Ok(definition)) => definition.spec.schedule.parents().map(Parents::stored),
            Some(Err(_)) => continue,
            None => None,
        };
        let (strays, lost_ends) = look_at_states(store, graph, *record, states).await?;
        facts.push(ChainPlaces {
            name: (*name).clone(),
            wanted: wanted.unwrap_or_default(),
            stored: live.map_or_else(String::new, |record| record.after.clone()),
            listed: graph.parents_of(name).cloned().collect(),
            strays,
            lost_ends,
        });
    }
    Ok(facts)
}

/// Returns those occurrences of a job that wait no longer, and the ends that others wait for in
/// vain.
async fn look_at_states(
    store: &Store,
    graph: &ChainGraph,
    record: Option<&JobRecord>,
    states: Vec<(RunId, String)>,
) -> Result<(Vec<RunId>, Vec<ParentEnd>), StoreError> {
    let runs: Vec<RunId> = states.iter().map(|(run, _)| run.clone()).collect();
    if record.is_none() || runs.is_empty() {
        return Ok((runs, Vec::new()));
    }
    let (mut strays, mut waits) = (Vec::new(), Vec::new());
    for ((run, state), record) in states.into_iter().zip(store.read_runs(&runs).await?) {
        match record {
            Ok(None) => waits.extend(ChainState::read(&state).map(|state| (run, state))),
            _ => strays.push(run),
        }
    }
    waits.sort_by_key(|(_, state)| state.since);
    let mut lost = Vec::new();
    for (run, state) in waits.into_iter().take(LOOKED_AT) {
        lost.extend(lost_ends(store, graph, &run, &state).await?);
    }
    Ok((strays, lost))
}

/// Returns the ends that `run` awaits although no run above it goes on. Such an end is that of the
/// parent's record, or `skipped` for a parent without one. Returns none if the run can still get its
/// ends.
pub(crate) async fn lost_ends(
    store: &Store,
    graph: &ChainGraph,
    run: &RunId,
    state: &ChainState,
) -> Result<Vec<ParentEnd>, StoreError> {
    let above: Vec<RunId> =
        graph.at_and_above(&state.parents).into_iter().map(|job| run.of_job(job)).collect();
    // The waiting ends are read between two equal readings of the runs. So no run can have ended,
    // and none can have begun, where neither reading sees it.
    let before = read_records(store, &above).await?;
    let (ends, count) = store.list_chain_ends(0, ENDS).await?;
    let (Some(before), Some(records)) = (before, read_records(store, &above).await?) else {
        return Ok(Vec::new());
    };
    let goes_on = records.values().any(|record| !record.state.is_final());
    let is_coming =
        count == ENDS || ends.iter().any(|end| end.end.run.of_job(run.job().clone()) == *run);
    let states = |records: &BTreeMap<RunId, RunRecord>| -> BTreeMap<RunId, RunState> {
        records.iter().map(|(run, record)| (run.clone(), record.state)).collect()
    };
    if goes_on || is_coming || states(&before) != states(&records) {
        return Ok(Vec::new());
    }
    let end_of = |job: &JobName| {
        let parent = run.of_job(job.clone());
        let record = records.get(&parent);
        let (state, reason) = record.map_or((RunState::Skipped, Some("parent")), |record| {
            (record.state, record.reason.as_deref())
        });
        ParentEnd {
            job: job.clone(),
            state: state.as_str().to_owned(),
            reason: reason.unwrap_or_default().to_owned(),
            exit_code: record.and_then(|record| record.exit_code).map(i64::from),
            run: parent,
        }
    };
    Ok(state.awaited().map(end_of).collect())
}

/// Returns the records of those runs that have one. Returns `None` if a record cannot be read.
async fn read_records(
    store: &Store,
    runs: &[RunId],
) -> Result<Option<BTreeMap<RunId, RunRecord>>, StoreError> {
    let records: Result<Vec<Option<RunRecord>>, _> =
        store.read_runs(runs).await?.into_iter().collect();
    let named = |records: Vec<Option<RunRecord>>| {
        let pairs = runs.iter().cloned().zip(records);
        pairs.filter_map(|(run, record)| Some((run, record?))).collect()
    };
    Ok(records.ok().map(named))
}

/// Repairs the links of a job, and returns the repairs as text.
pub(crate) async fn mend_links(store: &Store, name: &JobName) -> Result<Vec<String>, StoreError> {
    for _ in 0..ROUNDS {
        let record = store.read_job(name).await?;
        let graph = store.read_chains().await?;
        let looked = look_at_links(store, &graph, &[(name, record.as_ref())]).await?;
        let Some(facts) = looked.into_iter().next() else { return Ok(Vec::new()) };
        match store.repair_chain(record.as_ref(), &facts).await? {
            MendReply::Mended(done) => return Ok(done),
            MendReply::Stale => {}
            MendReply::Sound | MendReply::Occupied => return Ok(Vec::new()),
        }
    }
    Ok(Vec::new())
}

/// Removes the occurrences that began before the time `now` less 90 days and still wait for parents,
/// and the former links of that age. Returns the number of these occurrences.
pub async fn forget_stuck(store: &Store, now: UnixMillis) -> Result<usize, StoreError> {
    let bound = now.saturating_sub(KEPT);
    let graph = store.read_chains().await?;
    let former = graph.former.iter().map(|link| &link.child);
    let names: Vec<&JobName> = graph.children().chain(former).collect();
    let mut forgotten = 0;
    for (name, states) in names.iter().zip(store.read_chain_states(&names).await?) {
        let is_old = |(_, state): &(RunId, String)| {
            ChainState::read(state).is_some_and(|state| state.since < bound)
        };
        let old: Vec<(RunId, String)> = states.into_iter().filter(is_old).collect();
        if !old.is_empty() {
            forgotten += store.forget_chain_states(name, &old).await?;
        }
    }
    let old: Vec<FormerLink> = graph.former.into_iter().filter(|link| link.until < bound).collect();
    store.forget_former_links(&old).await?;
    Ok(forgotten)
}
