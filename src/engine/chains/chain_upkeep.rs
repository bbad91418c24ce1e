//! The upkeep of chains: the check and repair of links to parents, and the removal of occurrences
//! that have waited too long for a parent.

use std::time::Duration;

use crate::domain::consistency::ChainPlaces;
use crate::domain::name::names::{JobName, RunId};
use crate::domain::schedule::chain::chain_graph::ChainGraph;
use crate::domain::schedule::chain::parents::Parents;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::dispatch::definition::Definition;
use crate::store::{JobRecord, MendReply, Store, StoreError};

/// The time after which an occurrence no longer waits for its parents. It is longer than any run
/// that is not stuck, with its retries.
const KEPT: Duration = Duration::from_secs(90 * 24 * 3600);
/// The most times that a job is read again because it changed during its repair.
const ROUNDS: usize = 8;

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
        let occurrences: Vec<RunId> = states.into_iter().map(|(run, _)| run).collect();
        let strays = match wanted {
            None => occurrences,
            Some(_) if occurrences.is_empty() => occurrences,
            Some(_) => {
                let records = store.read_runs(&occurrences).await?;
                let decided = occurrences.into_iter().zip(records);
                decided
                    .filter(|(_, record)| !matches!(record, Ok(None)))
                    .map(|(run, _)| run)
                    .collect()
            }
        };
        facts.push(ChainPlaces {
            name: (*name).clone(),
            wanted: wanted.unwrap_or_default(),
            stored: live.map_or_else(String::new, |record| record.after.clone()),
            listed: graph.parents_of(name).cloned().collect(),
            strays,
        });
    }
    Ok(facts)
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

/// Removes the occurrences that have waited for parents since before the time `now` less 90 days.
/// Returns their number.
pub(crate) async fn forget_stuck(store: &Store, now: UnixMillis) -> Result<usize, StoreError> {
    let bound = now.saturating_sub(KEPT);
    let graph = store.read_chains().await?;
    let names: Vec<&JobName> = graph.children().collect();
    let mut forgotten = 0;
    for (name, states) in names.iter().zip(store.read_chain_states(&names).await?) {
        let is_old = |(_, value): &(RunId, String)| since(value).is_some_and(|at| at < bound);
        let old: Vec<(RunId, String)> = states.into_iter().filter(is_old).collect();
        if !old.is_empty() {
            forgotten += store.forget_chain_states(name, &old).await?;
        }
    }
    Ok(forgotten)
}

/// Returns the time since which an occurrence waits, from the value of its field.
fn since(value: &str) -> Option<UnixMillis> {
    let state: serde_json::Value = serde_json::from_str(value).ok()?;
    state["at"].as_str()?.parse().ok().and_then(UnixMillis::new)
}
