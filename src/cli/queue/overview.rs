//! `queues`: each queue with its settings, its load, and the waiting and run times of its runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::queue_depths::{queues_and_lanes, together, with_shard};
use super::tagged_runs::TaggedRuns;
use crate::cli::connect::{answering_places, connect};
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::render::{Cell, Colour, Console, Table, percentile, span, spread_json};
use crate::cli::state::node_presence::{is_present, serving};
use schedd_core::domain::name::tag_filter::TagFilter;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::lane_serving::{Serving, Unserved};
use schedd_core::domain::queue::queue_rules::Share;
use schedd_schedule::names::{JobName, Label, QueueName};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{LaneAsk, LanePoll, NodeRecord, QueueDepth, QueueRecord, RunTimes, Store};

/// The number of the last ended runs of all queues from which waiting and run times are calculated.
const SAMPLED: usize = 1_000;

const QUEUES_HELP: &str = "\
Examples:
  schedctl queues
  schedctl queues --tag team=db

STATE: open, paused, full (LIMIT is reached), rate_limited (RATE allows no start now), unserved (no
node serves the queue, no worker asks for its runs) or wrong_type (the data in Redis is damaged).
DEPTH: number of ready runs. OLDEST: time since the oldest of these runs became ready. SCHEDULED:
number of runs that are due later.
CONCURRENCY: maximum number of running runs on each node. LIMIT: maximum number of running runs on
all nodes together. UTIL: running runs in percent of the maximum.
REMARK: a backlog by warn_depth or warn_oldest, runs that no node takes, nodes that start no runs.
WAIT: time from ready to start, of runs with one attempt. RUN: duration of runs. Both columns show
the median and the 95th percentile of the last 1,000 ended runs of all queues.

With --tag, only runs of jobs with this tag are counted, and queues without such jobs are left out.
STATE, the limits and REMARK are still those of the whole queue.";

/// Lists the queues with their load and the waiting and run times of their runs.
#[derive(Debug, clap::Args)]
#[command(after_help = QUEUES_HELP)]
pub(crate) struct QueuesArgs {
    /// Only count runs of jobs with this tag; may be given several times
    #[arg(long = "tag", value_name = "NAME[=VALUE]")]
    tags: Vec<TagFilter>,
}

/// The state of one queue, as `queues` and `top` show it.
pub(crate) struct QueueOverview {
    /// The name of the queue.
    pub(crate) name: QueueName,
    /// The settings of the queue.
    pub(crate) record: QueueRecord,
    /// The numbers of the queue's runs in each state.
    pub(crate) depth: QueueDepth,
    /// The word for the state of the queue, such as `open` or `paused`.
    pub(crate) state: &'static str,
    /// The number of present nodes that serve the queue.
    pub(crate) nodes: u64,
    /// The numbers of ready runs that no node takes, each with the reason.
    pub(crate) untaken: Vec<(Unserved, u64)>,
    /// The nodes that serve the queue, each with the reason why the node claims no runs. The list
    /// is empty if one of the nodes claims runs.
    pub(crate) at_limit: Vec<(String, String)>,
    /// A phrase about the backlog of the queue; `None` if it has none by its settings.
    pub(crate) backlog: Option<String>,
    /// The time since which the longest-waiting run has been ready; `None` if no run is ready. Only
    /// runs with labels that some node carries count.
    pub(crate) oldest_wanted: Option<UnixMillis>,
}

impl QueueOverview {
    /// Returns remarks about runs of the queue that no node takes, and about nodes that claim
    /// nothing. Returns `None` if there is nothing to remark.
    pub(crate) fn remark(&self) -> Option<String> {
        let reasons = self.untaken.iter().map(|(why, runs)| {
            let runs = if *runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
            format!("no node takes {runs}: {why}")
        });
        let backlog = self.backlog.iter().map(|backlog| format!("backlog: {backlog}"));
        let reasons: Vec<String> = backlog.chain(reasons).chain(self.limit_words()).collect();
        Some(reasons.join("; ")).filter(|text| !text.is_empty())
    }

    /// Adds the runs of the queue in a shard. The settings are those of the namespace itself.
    fn add(&mut self, of_shard: Self, now: UnixMillis) {
        self.depth = with_shard(self.depth, of_shard.depth);
        let backlog = &self.record.settings.backlog;
        let age = self.depth.oldest.map(|at| now.since(at));
        self.backlog = backlog.backlog(self.depth.ready, age);
        self.oldest_wanted = self.oldest_wanted.into_iter().chain(of_shard.oldest_wanted).min();
        for (why, runs) in of_shard.untaken {
            match self.untaken.iter_mut().find(|(other, _)| *other == why) {
                Some((_, sum)) => *sum += runs,
                None => self.untaken.push((why, runs)),
            }
        }
        if self.state == "open" {
            self.state = of_shard.state;
        }
    }

    fn limit_words(&self) -> Option<String> {
        let ((node, why), others) = self.at_limit.split_first()?;
        Some(match others {
            [] => format!("the only node that serves the queue starts no runs: {node}, {why}"),
            others => format!(
                "all {} nodes that serve the queue start no runs: {node}, {why}, ...",
                others.len() + 1
            ),
        })
    }
}

/// The time of Redis, the nodes, and the state of every queue.
type Standings = (UnixMillis, Vec<NodeRecord>, Vec<QueueOverview>);

/// The state of a queue, with the waiting and run times of its runs.
struct View {
    standing: QueueOverview,
    times: Times,
}

/// The waiting and run times of a queue's runs among the last ended runs.
#[derive(Default)]
struct Times {
    wait_ms: Vec<u64>,
    run_ms: Vec<u64>,
}

/// Lists the queues. Returns the exit code.
pub(crate) async fn queues(
    global: &Global,
    args: &QueuesArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let store = connect(global, console).await?;
    let places = answering_places(&store, console).await?;
    let (now, views) = Box::pin(view_all(&places, &args.tags)).await?;
    if console.is_json() {
        console.json(&views.iter().map(|view| view.json(now)).collect::<serde_json::Value>());
        return Ok(0);
    }
    let headers = [
        "QUEUE",
        "STATE",
        "DEPTH",
        "OLDEST",
        "SCHEDULED",
        "RUNNING",
        "LIMIT",
        "CONCURRENCY",
        "UTIL",
        "RATE",
        "WAIT",
        "RUN",
        "NODES",
        "REMARK",
    ];
    let rows: Vec<[Cell; 14]> = views.iter().map(|view| view.row(now)).collect();
    Table::new(headers).page(&rows, console);
    Ok(0)
}

async fn view_all(
    places: &MergedPlaces,
    tags: &[TagFilter],
) -> Result<(UnixMillis, Vec<View>), CliFailure> {
    let read_times = |store: Store| async move { store.read_run_times(SAMPLED).await };
    let ((now, mut standings), times) =
        tokio::try_join!(standings(places), places.each(read_times))?;
    let mut times = times.concat();
    if !tags.is_empty() {
        let tagged = |store: Store| async move {
            let (_, lanes) = queues_and_lanes(&store).await?;
            TaggedRuns::read(&store, tags, &lanes, now).await
        };
        let tagged = places.each(tagged).await?.into_iter();
        let tagged = tagged.reduce(TaggedRuns::with).unwrap_or_default();
        times.retain(|run| tagged.jobs.contains(&run.job));
        standings.retain_mut(|standing| match tagged.depths.get(&standing.name) {
            Some(depth) => {
                standing.depth = *depth;
                true
            }
            None => false,
        });
    }
    let mut times = sorted_by_queue(times);
    let view = |standing: QueueOverview| View {
        times: times.remove(&standing.name).unwrap_or_default(),
        standing,
    };
    Ok((now, standings.into_iter().map(view).collect()))
}

/// Returns the time of Redis and the state of every queue.
pub(crate) async fn standings(
    places: &MergedPlaces,
) -> Result<(UnixMillis, Vec<QueueOverview>), CliFailure> {
    let (now, _, standings) = standings_with_nodes(places).await?;
    Ok((now, standings))
}

/// Returns the time of Redis, the nodes, and the state of every queue in all places together. The
/// time and the nodes are those of the namespace itself.
pub(crate) async fn standings_with_nodes(places: &MergedPlaces) -> Result<Standings, CliFailure> {
    let mut all = places.each(|store| async move { standings_of(&store).await }).await?;
    let (now, nodes, mut queues) = all.remove(0);
    for other in all.into_iter().flat_map(|(_, _, of_shard)| of_shard) {
        match queues.iter_mut().find(|queue| queue.name == other.name) {
            Some(queue) => queue.add(other, now),
            None => queues.push(other),
        }
    }
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((now, nodes, queues))
}

/// Returns the time of Redis, the nodes, and the state of every queue in one place.
async fn standings_of(store: &Store) -> Result<Standings, CliFailure> {
    let (names, lanes) = queues_and_lanes(store).await?;
    let (records, (now, nodes)) =
        tokio::try_join!(store.read_queue_settings(&names), store.list_nodes())?;
    let serving = serving(&nodes, now);
    let asked: Vec<LaneAsk> = lanes.iter().map(|lane| LaneAsk::new(lane.clone(), 1)).collect();
    let (depths, poll) = tokio::try_join!(store.read_depths(&lanes, now), store.list_due(&asked))?;
    let lanes_now: Vec<((Lane, QueueDepth), LanePoll)> =
        lanes.into_iter().zip(depths).zip(poll.lanes).collect();
    let standing = |(name, record): (QueueName, QueueRecord)| {
        let own: Vec<&((Lane, QueueDepth), LanePoll)> =
            lanes_now.iter().filter(|((lane, _), _)| *lane.queue() == name).collect();
        let depth = own.iter().map(|((_, depth), _)| *depth).reduce(together).unwrap_or_default();
        let due = own.iter().map(|(of_lane, _)| of_lane).filter(|(_, depth)| depth.ready > 0);
        let (mut untaken, mut oldest_wanted): (Vec<(Unserved, u64)>, Option<UnixMillis>) =
            (Vec::new(), None);
        for (lane, depth) in due {
            let why = Unserved::of(lane, &serving);
            if !matches!(why, Some(Unserved::Labels(_))) {
                oldest_wanted = oldest_wanted.into_iter().chain(depth.oldest).min();
            }
            match why.map(|why| (untaken.iter().position(|(other, _)| *other == why), why)) {
                Some((Some(at), _)) => untaken[at].1 += depth.ready,
                Some((None, why)) => untaken.push((why, depth.ready)),
                None => {}
            }
        }
        let has_workers =
            serving.iter().any(|each| each.handlers.is_some() && each.takes_queue(&name));
        let has_own_runs = own.iter().any(|((lane, depth), _)| {
            lane.handler().is_none() && depth.ready + depth.scheduled > 0
        });
        let is_unserved = (!has_workers || has_own_runs)
            && Unserved::of(&Lane::from(name.clone()), &serving).is_some();
        QueueOverview {
            state: match state(&record, depth, own.iter().map(|(_, poll)| poll)) {
                "open" if is_unserved => "unserved",
                state => state,
            },
            backlog: record
                .settings
                .backlog
                .backlog(depth.ready, depth.oldest.map(|at| now.since(at))),
            untaken,
            oldest_wanted,
            at_limit: limits_of(&name, &nodes, now),
            nodes: nodes_of(&serving, &name),
            name,
            record,
            depth,
        }
    };
    let standings = names.into_iter().zip(records).map(standing).collect();
    Ok((now, nodes, standings))
}

/// Returns the present nodes that serve a queue, each with the reason why the node claims no runs.
/// Returns an empty list if one of these nodes claims runs.
fn limits_of(queue: &QueueName, nodes: &[NodeRecord], now: UnixMillis) -> Vec<(String, String)> {
    let serving =
        nodes.iter().filter(|node| is_present(node, now) && node.serving.takes_queue(queue));
    let at_limit = serving.map(|node| Some((node.name.clone(), node.at_limit.as_ref()?.0.clone())));
    at_limit.collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// Returns the word for the state of a queue. `polls` has the result of reading each lane of the
/// queue.
fn state<'p>(
    record: &QueueRecord,
    depth: QueueDepth,
    mut polls: impl Iterator<Item = &'p LanePoll> + Clone,
) -> &'static str {
    if polls.clone().any(|poll| matches!(poll, LanePoll::WrongType(_))) {
        "wrong_type"
    } else if record.settings.is_paused {
        "paused"
    } else if record.settings.limit.is_some_and(|limit| depth.running >= u64::from(limit)) {
        "full"
    } else if polls.any(|poll| matches!(poll, LanePoll::Due { capacity: Some(0), .. })) {
        "rate_limited"
    } else {
        "open"
    }
}

/// Returns the number of nodes in `serving` that serve `queue`. Workers do not count.
fn nodes_of(serving: &[Serving], queue: &QueueName) -> u64 {
    let nodes = serving.iter().filter(|serving| serving.handlers.is_none());
    nodes.filter(|node| node.takes_queue(queue)).count() as u64
}

fn untaken_json(why: &Unserved, runs: u64) -> Value {
    let requires: Vec<&str> = match why {
        Unserved::Labels(labels) => labels.iter().map(Label::as_str).collect(),
        Unserved::Queue(_) | Unserved::Nodes(_) | Unserved::Handler(..) => Vec::new(),
    };
    json!({"runs": runs, "requires": requires, "reason": why.to_string()})
}

fn sorted_by_queue(all: Vec<RunTimes>) -> BTreeMap<QueueName, Times> {
    let mut times: BTreeMap<QueueName, Times> = BTreeMap::new();
    for RunTimes { queue, wait_ms, run_ms, .. } in all {
        let own = times.entry(queue).or_default();
        own.wait_ms.extend(wait_ms);
        own.run_ms.push(run_ms);
    }
    for own in times.values_mut() {
        own.wait_ms.sort_unstable();
        own.run_ms.sort_unstable();
    }
    times
}

/// Returns the median and the 95th percentile of times in ms as text, such as `2s / 9s`. `sorted`
/// has the times in rising order. The text is empty if there are no times.
fn spread(sorted: &[u64]) -> String {
    let text = |percent| percentile(sorted, percent).map(|ms| span(Duration::from_millis(ms)));
    text(50).zip(text(95)).map_or_else(String::new, |(median, most)| format!("{median} / {most}"))
}

impl View {
    /// Returns the maximum number of running runs of the queue: its concurrency on each node times
    /// the number of present nodes that serve the queue, or its limit if this is less.
    fn capacity(&self) -> u64 {
        let settings = &self.standing.record.settings;
        let of_nodes = u64::from(settings.concurrency).saturating_mul(self.standing.nodes);
        settings.limit.map_or(of_nodes, |limit| u64::from(limit).min(of_nodes))
    }

    fn utilisation(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "both are small")]
        let part = |running: u64, capacity: u64| running as f64 / capacity as f64;
        (self.capacity() > 0).then(|| part(self.standing.depth.running, self.capacity()))
    }

    fn json(&self, now: UnixMillis) -> Value {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let QueueRecord { settings, paused, set, .. } = &self.standing.record;
        let weight = match settings.share {
            Share::Strict => None,
            Share::Weight(weight) => Some(weight),
        };
        json!({
            "name": self.standing.name.as_str(),
            "state": self.standing.state,
            "depth": self.standing.depth.ready,
            "oldest_ready": self.standing.depth.oldest.map(|at| at.to_string()),
            "oldest_age_ms": self.standing.depth.oldest.map(|at| now.as_i64().saturating_sub(at.as_i64())),
            "next_ready": self.standing.depth.next.map(|at| at.to_string()),
            "scheduled": self.standing.depth.scheduled,
            "running": self.standing.depth.running,
            "limit": settings.limit,
            "concurrency": settings.concurrency,
            "capacity": self.capacity(),
            "utilisation": self.utilisation(),
            "rate": settings.rate.map(|rate| rate.to_string()),
            "burst": settings.rate.map(schedd_core::domain::queue::rate::Rate::burst),
            "weight": weight,
            "strict": settings.share == Share::Strict,
            "warn_depth": settings.backlog.depth,
            "warn_oldest_ms": settings.backlog.oldest.map(millis),
            "on_backlog": settings.backlog.job.as_ref().map(JobName::as_str),
            "backlog": self.standing.backlog,
            "paused": settings.is_paused,
            "paused_at": paused.as_ref().map(|(at, _)| at.to_string()),
            "paused_by": paused.as_ref().map(|(_, by)| by).filter(|by| !by.is_empty()),
            "set_at": set.as_ref().map(|(at, _)| at.to_string()),
            "set_by": set.as_ref().map(|(_, by)| by).filter(|by| !by.is_empty()),
            "wait_ms": spread_json(&self.times.wait_ms),
            "run_ms": spread_json(&self.times.run_ms),
            "sampled_runs": self.times.run_ms.len(),
            "nodes": self.standing.nodes,
            "at_limit": self.standing.at_limit.iter().map(|(node, why)| json!({"node": node, "reason": why})).collect::<Vec<_>>(),
            "unserved": self.standing.untaken.iter().map(|(why, runs)| untaken_json(why, *runs)).collect::<Vec<_>>(),
        })
    }

    fn row(&self, now: UnixMillis) -> [Cell; 14] {
        let settings = &self.standing.record.settings;
        let colour = match self.standing.state {
            "open" => Colour::Green,
            "wrong_type" => Colour::Red,
            _ => Colour::Yellow,
        };
        let rate = settings.rate.map(|rate| {
            let burst = if rate.burst() == rate.count() {
                String::new()
            } else {
                format!(" burst {}", rate.burst())
            };
            format!("{rate}{burst}")
        });
        [
            Cell::new(self.standing.name.as_str()),
            Cell::new(self.standing.state).coloured(colour),
            Cell::new(self.standing.depth.ready.to_string()),
            Cell::maybe(self.standing.depth.oldest.map(|at| span(now.since(at)))),
            Cell::new(self.standing.depth.scheduled.to_string()),
            Cell::new(self.standing.depth.running.to_string()),
            Cell::maybe(settings.limit.map(|limit| limit.to_string())),
            Cell::new(settings.concurrency.to_string()),
            Cell::maybe(self.utilisation().map(|part| format!("{:.0}%", part * 100.0))),
            Cell::maybe(rate),
            Cell::new(spread(&self.times.wait_ms)),
            Cell::new(spread(&self.times.run_ms)),
            Cell::new(self.standing.nodes.to_string()),
            Cell::maybe(self.standing.remark()).coloured(Colour::Yellow),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_there() {
        assert_eq!(
            (percentile(&[], 50), percentile(&[7], 50), percentile(&[7], 95)),
            (None, Some(7), Some(7))
        );
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!((percentile(&hundred, 50), percentile(&hundred, 95)), (Some(51), Some(96)));
    }
}
