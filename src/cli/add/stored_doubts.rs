//! Warnings about added jobs that depend on other data in Redis: other jobs and the nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::add_warnings::{stranger_words, strangers};
use super::line_adder::AddedLines;
use crate::cli::failure::CliFailure;
use crate::cli::state::node_presence::serving;
use schedd_core::domain::queue::lane_serving::Unserved;
use schedd_schedule::names::JobName;
use schedd_store::Store;

/// The maximum number of distinct names in `not_while` that are looked up for one batch of lines.
const OTHERS: usize = 1_000;

/// Returns the warnings about the added jobs of a batch of lines, by line number.
pub(super) async fn stored_doubts(
    store: &Store,
    lines: &AddedLines,
) -> Result<BTreeMap<usize, Vec<String>>, CliFailure> {
    let added = || {
        let lines = lines.iter().filter_map(|(line, result)| Some((*line, result.as_ref().ok()?)));
        lines.filter(|(_, ((_, result, _), _))| *result != "exists")
    };
    let mut doubts: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    if added().next().is_none() {
        return Ok(doubts);
    }
    let others: BTreeSet<&JobName> =
        added().flat_map(|(_, (_, job))| &job.spec.not_while).collect();
    let others: Vec<JobName> = others.into_iter().take(OTHERS).cloned().collect();
    let missing = strangers(store, &others).await?;
    let changed: Vec<JobName> = added()
        .filter(|(_, ((_, result, _), _))| *result == "updated")
        .map(|(_, ((name, ..), _))| name.clone())
        .collect();
    let records = store.read_jobs(&changed).await?;
    let records = records.into_iter().filter_map(|record| record.ok().flatten());
    let paused: BTreeSet<JobName> =
        records.filter(|job| job.paused_at.is_some()).map(|job| job.name).collect();
    let (now, nodes) = store.list_nodes().await?;
    let serving = serving(&nodes, now);
    for (line, ((name, ..), job)) in added() {
        let mut texts = Vec::new();
        for other in job.spec.not_while.iter().filter(|other| missing.contains(*other)) {
            texts.push(format!("not_while: {}", stranger_words(other)));
        }
        if let Some(why) = Unserved::of(&job.spec.lane_in(job.spec.queue.clone()), &serving) {
            texts.push(format!("{why}; runs of the job wait until one does"));
        }
        if paused.contains(name) {
            texts.push(format!("job {name} is paused, and starts no runs until it is resumed"));
        }
        if !texts.is_empty() {
            doubts.insert(line, texts);
        }
    }
    Ok(doubts)
}
