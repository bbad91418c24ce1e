//! What the hosts of the nodes do not enforce, and which jobs ask for it. Said plainly, so that nobody counts on it.

use std::collections::{BTreeMap, BTreeSet};

use super::surroundings::{PAGE, SHOWN};
use crate::cli::nodes::is_present;
use crate::config;
use crate::domain::ids::JobName;
use crate::domain::limits::{LimitKind, listed};
use crate::domain::time::UnixMillis;
use crate::store::{Check, Level, NodeRecord, Store, StoreError};

/// The nodes that run, each with what it does not enforce, and the jobs that ask for that.
pub(super) async fn host(store: &Store, nodes: &[NodeRecord], now: UnixMillis) -> Vec<Check> {
    let present: Vec<&NodeRecord> = nodes.iter().filter(|node| is_present(node, now)).collect();
    let mut checks: Vec<Check> = present.iter().filter_map(|node| node_check(node)).collect();
    if checks.is_empty() {
        let text = "not known: no node that runs says which limits of jobs (memory, cpu, pids) it enforces";
        checks.push(Check::new("limits", Level::Note, text));
    }
    match asking(store).await {
        Ok(asking) => checks.extend(asking.into_iter().filter_map(|(kind, jobs)| unheld(kind, &jobs, &present))),
        Err(error) => checks.push(Check::new("limits", Level::Warn, format!("which jobs have some is not known: {error}"))),
    }
    let text = "not enforced: jobs run as the user of their schedd: there is no other user for a job";
    checks.push(Check::new("user", Level::Note, text));
    if present.iter().any(|node| !lacking(node).is_empty()) {
        let text = "not enforced without cgroups: what a job leaves behind is found by its process group and its environment; one that leaves both goes on unseen";
        checks.push(Check::new("processes", Level::Note, text));
    }
    checks
}

/// What a node does not enforce; nothing where it does not say.
fn lacking(node: &NodeRecord) -> BTreeSet<LimitKind> {
    let Some(limits) = &node.limits else { return BTreeSet::new() };
    LimitKind::ALL.into_iter().filter(|kind| !limits.contains(kind)).collect()
}

fn node_check(node: &NodeRecord) -> Option<Check> {
    node.limits.as_ref()?;
    let lacking = lacking(node);
    if lacking.is_empty() {
        return Some(Check::new(&node.name, Level::Ok, "all limits of jobs are enforced, each run has a cgroup of its own"));
    }
    let text = format!("not enforced: limits of {}: {}", listed(&lacking), node.limits_why);
    Some(Check::new(&node.name, Level::Note, text))
}

/// A limit some jobs ask for and some nodes do not enforce.
fn unheld(kind: LimitKind, jobs: &[JobName], present: &[&NodeRecord]) -> Option<Check> {
    let nodes: Vec<&str> = present.iter().filter(|node| lacking(node).contains(&kind)).map(|node| node.name.as_str()).collect();
    let first = jobs.iter().take(SHOWN).map(JobName::as_str).collect::<Vec<_>>().join(", ");
    let more = if jobs.len() > SHOWN { format!(" and {} more", jobs.len() - SHOWN) } else { String::new() };
    let text = format!("asked for by {first}{more}; not enforced by {}", nodes.join(", "));
    (!nodes.is_empty()).then(|| Check::new(format!("limits.{kind}"), Level::Warn, text))
}

/// The jobs that ask for limits, by kind.
async fn asking(store: &Store) -> Result<BTreeMap<LimitKind, Vec<JobName>>, StoreError> {
    let (mut found, mut at): (BTreeMap<LimitKind, Vec<JobName>>, usize) = (BTreeMap::new(), 0);
    loop {
        let names = store.list_jobs(at, PAGE).await?;
        if names.is_empty() {
            return Ok(found);
        }
        at += names.len();
        for job in store.read_jobs(&names).await?.into_iter().filter_map(|job| job.ok().flatten()) {
            // Most have none, and need not be read.
            let spec = job.definition.contains("\"limits\"").then(|| config::from_surface(&job.definition));
            let Some(Ok(spec)) = spec else { continue };
            for kind in spec.process.limits.asked() {
                found.entry(kind).or_default().push(job.name.clone());
            }
        }
    }
}
