//! `nodes`: lists the nodes by name, with problems in their files or differences between these
//! files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::data_loss_verb::read_losses;
use super::node_presence::{is_present, warn_if_none_of};
use crate::cli::connect::{answering_places, connect};
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Cell, Colour, Console, Relative, Table, labels_json, shown};
use schedd_core::domain::name::job_source::SourceName;
use schedd_schedule::names::{JobName, Label, QueueName};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{NodeRecord, Store};

pub(crate) const NODES_HELP: &str = "\
Example:
  schedctl nodes

STATE is gone for a node that was not seen for 15 seconds, and stopped for a node that stopped in
order while it has jobs with on = \"each-node\"; such a node has no RUNNING. AT LIMIT: the
reason why the node starts no runs, and the time since then. CONFIG: the problems of the node's jobs
file, and the jobs that the files of other nodes define differently. The last change of such a job
wins.";

/// The maximum number of jobs named for a node whose file differs from another file.
const DIFFERENCES_SHOWN: usize = 3;

/// The jobs that each file defines differently from other files, with the names of those files.
pub(crate) type Differences = BTreeMap<String, BTreeMap<JobName, Vec<String>>>;

/// Lists the nodes. Returns the exit code.
pub(crate) async fn nodes(global: &Global, console: &mut Console) -> Result<u8, CliFailure> {
    let store = connect(global, console).await?;
    let (now, mut nodes) = store.list_nodes().await?;
    let places = answering_places(&store, console).await?;
    for shard in places.stores().iter().skip(1) {
        add_running(&mut nodes, &shard.list_nodes().await?.1);
    }
    warn_if_none_of(&nodes, now, &store, console);
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let differences = differences(&store, &sources(&nodes)).await?;
    if console.is_json() {
        console.json(&Value::Array(
            nodes.iter().map(|node| node_json(node, now, &differences)).collect(),
        ));
        return Ok(0);
    }
    let local = local_zone();
    let rows: Vec<[Cell; 10]> =
        nodes.iter().map(|node| node_row(node, Relative { now }, &local, &differences)).collect();
    Table::new([
        "NAME", "STATE", "STARTED", "SEEN", "RUNNING", "QUEUES", "LABELS", "AT LIMIT", "VERSION",
        "CONFIG",
    ])
    .page(&rows, console);
    let losses = read_losses(&places).await?;
    if let Some(at) = losses.first().and_then(|(_, last)| last.at) {
        // A server that loses its data loses those of several shards.
        let of_place = |shard: &Option<u32>| losses.iter().filter(|(it, _)| it == shard).count();
        let times = match losses.iter().map(|(shard, _)| of_place(shard)).max() {
            Some(count @ 2..) => format!("{count} times, the last"),
            _ => "once,".to_owned(),
        };
        console.note(&format!(
            "Redis has lost data {times} {}; see schedctl data-loss",
            shown(at, &local)
        ));
    }
    Ok(0)
}

/// Adds the runs that the nodes execute in a shard.
fn add_running(nodes: &mut [NodeRecord], of_shard: &[NodeRecord]) {
    for node in nodes {
        let same = of_shard.iter().find(|other| other.name == node.name);
        if let (Some(running), Some(more)) = (&mut node.running, same.and_then(|it| it.running)) {
            *running += more;
        }
    }
}

fn state(node: &NodeRecord, now: UnixMillis) -> &str {
    // A node that stopped in order, whose instances of jobs wait for it.
    let is_known = is_present(node, now) || node.state == "stopped";
    if is_known { &node.state } else { "gone" }
}

/// Returns the number of runs that the node executes. Returns `None` for a node that is gone, because
/// other nodes take over its runs.
fn running(node: &NodeRecord, now: UnixMillis) -> Option<u32> {
    node.running.filter(|_| is_present(node, now))
}

/// Returns the names of the queues that the node serves, or `None` if the node serves all queues.
fn queues(node: &NodeRecord) -> Option<String> {
    let queues = node.serving.queues.as_ref()?;
    Some(queues.iter().map(QueueName::as_str).collect::<Vec<_>>().join(", "))
}

/// Returns the labels that were given to the node. The name of the node, which is always a label, is
/// left out.
fn own_labels(node: &NodeRecord) -> BTreeSet<Label> {
    let labels = node.serving.labels.iter().filter(|label| label.as_str() != node.name);
    labels.cloned().collect()
}

fn labels(node: &NodeRecord) -> String {
    own_labels(node).iter().map(Label::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns the reason why a present node claims no runs, and the time since which. Returns `None`
/// if the node claims runs or is gone.
fn at_limit(node: &NodeRecord, now: UnixMillis) -> Option<&(String, UnixMillis)> {
    node.at_limit.as_ref().filter(|_| is_present(node, now))
}

/// Returns the source names of the nodes' jobs files.
pub(crate) fn sources(nodes: &[NodeRecord]) -> Vec<SourceName> {
    nodes.iter().filter_map(|node| node.name.parse().ok()).collect()
}

/// Returns the jobs that several files define differently. A difference is not an error, because
/// the last change of a job wins.
pub(crate) async fn differences(
    store: &Store,
    sources: &[SourceName],
) -> Result<Differences, CliFailure> {
    let mut texts: BTreeMap<JobName, Vec<(&str, String)>> = BTreeMap::new();
    for source in sources {
        for (job, hash) in store.list_source(source).await? {
            texts.entry(job).or_default().push((source.as_str(), hash));
        }
    }
    let mut differences = Differences::new();
    for (job, sources) in texts {
        for (node, hash) in &sources {
            let others = sources
                .iter()
                .filter(|(_, other)| other != hash)
                .map(|(name, _)| (*name).to_owned());
            let others: Vec<String> = others.collect();
            if !others.is_empty() {
                differences.entry((*node).to_owned()).or_default().insert(job.clone(), others);
            }
        }
    }
    Ok(differences)
}

/// Returns the problems of a node's file as text, or `None` if the file has no problems.
fn trouble(node: &NodeRecord, differences: &Differences) -> Option<String> {
    let mut texts: Vec<String> = node.config_error.iter().cloned().collect();
    let jobs = differences.get(&node.name);
    let report = |(job, others): (&JobName, &Vec<String>)| {
        format!("job {job} differs from the files of {}", others.join(", "))
    };
    texts.extend(jobs.into_iter().flatten().take(DIFFERENCES_SHOWN).map(report));
    let more = jobs.map_or(0, BTreeMap::len).saturating_sub(DIFFERENCES_SHOWN);
    if more > 0 {
        texts.push(if more == 1 {
            "1 more job differs".to_owned()
        } else {
            format!("{more} more jobs differ")
        });
    }
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn node_json(node: &NodeRecord, now: UnixMillis, differences: &Differences) -> Value {
    let differing = differences.get(&node.name).into_iter().flatten();
    json!({
        "name": node.name,
        "state": state(node, now),
        "started_at": node.started_at.map(|at| at.to_string()),
        "last_seen": node.last_seen.map(|at| at.to_string()),
        "config_error": node.config_error,
        "host": node.host,
        "pid": node.pid,
        "version": node.version,
        "running": running(node, now),
        "clock_offset_ms": node.clock_offset_ms,
        "queues": node.serving.queues.as_ref().map(|all| all.iter().map(QueueName::as_str).collect::<Vec<_>>()),
        "labels": labels_json(&own_labels(node)),
        "at_limit": at_limit(node, now).map(|(why, since)| json!({"reason": why, "since": since.to_string()})),
        "differs": differing.map(|(job, others)| json!({"job": job.as_str(), "from": others})).collect::<Vec<_>>(),
    })
}

fn node_row(
    node: &NodeRecord,
    when: Relative,
    local: &Zone,
    differences: &Differences,
) -> [Cell; 10] {
    let state = state(node, when.now);
    let colour = if state == "running" { Colour::Green } else { Colour::Yellow };
    let config = trouble(node, differences);
    let at_limit =
        at_limit(node, when.now).map(|(why, since)| format!("{why}, {}", when.passed(*since)));
    let config_colour = match (&node.config_error, &config) {
        (Some(_), _) => Colour::Red,
        (None, Some(_)) => Colour::Yellow,
        (None, None) => Colour::Plain,
    };
    [
        Cell::new(&node.name),
        Cell::new(state).coloured(colour),
        Cell::maybe(node.started_at.map(|at| shown(at, local))),
        Cell::maybe(node.last_seen.map(|at| when.passed(at))),
        Cell::maybe(running(node, when.now).map(|count| count.to_string())),
        Cell::new(queues(node).unwrap_or_else(|| "all".to_owned())),
        Cell::maybe(Some(labels(node)).filter(|labels| !labels.is_empty())),
        Cell::maybe(at_limit).coloured(Colour::Yellow),
        Cell::new(&node.version),
        Cell::new(config.as_deref().unwrap_or("ok")).coloured(config_colour),
    ]
}
