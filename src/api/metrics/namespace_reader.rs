//! The figures of the whole namespace, read from Redis.
//!
//! Invariant: Redis is read at most once in [`FRESH_FOR`], whatever the number of requests, and only
//! for a request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Mutex;
use tracing::debug;

use super::node_families::OTHER_QUEUES;
use super::watched_jobs::{JobFigures, WatchedJobs};
use crate::cli::embedded::{CliFailure, MergedPlaces, queue_depths};
use schedd_core::config::MetricsConfig;
use schedd_schedule::names::QueueName;
use schedd_store::Store;

/// The time for which figures are answered again.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// The longest time of a reading. A slower reading counts as failed, so that the other figures are
/// answered in time.
const READING: Duration = Duration::from_secs(5);
/// The most queues with figures of their own besides the declared queues.
const MOST_UNDECLARED: usize = 50;
/// The value of the label `rule` for findings that the consistency check counted but did not keep.
const NOT_KEPT: &str = "(not kept)";

/// The reader of the figures, with the figures that it read last.
#[derive(Default)]
pub(in crate::api) struct NamespaceReader {
    state: Arc<Mutex<ReaderState>>,
}

#[derive(Default)]
struct ReaderState {
    /// The instant of the last reading and its figures, or `None` in their place if it failed.
    last: Option<(Instant, Option<Arc<NamespaceFigures>>)>,
    watched: WatchedJobs,
}

/// The figures of the whole namespace.
#[derive(Debug)]
pub(super) struct NamespaceFigures {
    /// The load of each queue. The key is the text of the label `queue`: the name of the queue, or
    /// `(other)` for all queues beyond the bound.
    pub(super) queues: BTreeMap<String, QueueLoad>,
    pub(super) jobs: u64,
    pub(super) dead_letters: u64,
    pub(super) notices_waiting: u64,
    /// The number of findings of the consistency check, by code.
    pub(super) findings: BTreeMap<String, u64>,
    /// The figures of the jobs that `[metrics]` names.
    pub(super) jobs_watched: Vec<JobFigures>,
}

/// The runs of a queue, or of several queues.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct QueueLoad {
    pub(super) ready: u64,
    pub(super) running: u64,
    /// The time since the oldest ready run became ready.
    pub(super) oldest: Duration,
}

impl NamespaceReader {
    /// Returns the figures, read now or a moment ago, or `None` if Redis could not be read.
    pub(super) async fn figures(
        &self,
        store: &Store,
        config: &Arc<MetricsConfig>,
    ) -> Option<Arc<NamespaceFigures>> {
        let (state, store, config) = (self.state.clone(), store.clone(), config.clone());
        // A client that goes away does not end the reading. Otherwise the next request would begin
        // another one.
        tokio::spawn(async move { state.lock().await.figures(&store, &config).await })
            .await
            .ok()
            .flatten()
    }
}

impl ReaderState {
    async fn figures(
        &mut self,
        store: &Store,
        config: &MetricsConfig,
    ) -> Option<Arc<NamespaceFigures>> {
        if let Some((_, figures)) = self.last.as_ref().filter(|(at, _)| at.elapsed() < FRESH_FOR) {
            return figures.clone();
        }
        let at = Instant::now();
        let reading = tokio::time::timeout(READING, read(store, config, &mut self.watched)).await;
        let figures = match reading {
            Ok(Ok(figures)) => Some(Arc::new(figures)),
            Ok(Err(error)) => {
                debug!(
                    "The figures of the namespace cannot be read: {}.",
                    error.lines().join("; ")
                );
                None
            }
            Err(_) => None,
        };
        self.last = Some((at, figures.clone()));
        figures
    }
}

async fn read(
    store: &Store,
    config: &MetricsConfig,
    watched: &mut WatchedJobs,
) -> Result<NamespaceFigures, CliFailure> {
    let places = MergedPlaces::of(store).await?;
    let declared = store.read_queues().await?;
    let (now, depths) = queue_depths(&places).await?;
    let loads = depths.into_iter().map(|(queue, depth)| {
        let oldest = depth.oldest.map(|at| now.since(at)).unwrap_or_default();
        (queue, QueueLoad { ready: depth.ready, running: depth.running, oldest })
    });
    let is_declared =
        |queue: &QueueName| declared.contains_key(queue) || *queue == QueueName::default_queue();
    let queues = bounded(loads, is_declared);
    let stats = places.read_stats().await?;
    let notes = places.each(|store| async move { store.read_check_note().await }).await?;
    let mut findings = BTreeMap::new();
    for note in notes.into_iter().flatten() {
        for (code, count) in by_code(&note.list, note.findings) {
            *findings.entry(code).or_default() += count;
        }
    }
    Ok(NamespaceFigures {
        queues,
        jobs: stats.jobs,
        dead_letters: stats.dead,
        notices_waiting: stats.notices,
        findings,
        jobs_watched: watched.read(store, config).await?,
    })
}

/// Returns the loads by the value of the label `queue`. Queues beyond the bound get one value
/// together.
fn bounded(
    loads: impl Iterator<Item = (QueueName, QueueLoad)>,
    is_declared: impl Fn(&QueueName) -> bool,
) -> BTreeMap<String, QueueLoad> {
    let (mut queues, mut undeclared) = (BTreeMap::new(), 0);
    for (queue, load) in loads {
        undeclared += usize::from(!is_declared(&queue));
        let is_own = is_declared(&queue) || undeclared <= MOST_UNDECLARED;
        let label = if is_own { queue.as_str() } else { OTHER_QUEUES };
        let sum: &mut QueueLoad = queues.entry(label.to_owned()).or_default();
        sum.ready += load.ready;
        sum.running += load.running;
        sum.oldest = sum.oldest.max(load.oldest);
    }
    queues
}

/// Counts the findings in `list`, the stored JSON, by code. `all` is the number of all findings.
fn by_code(list: &str, all: u64) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let items = serde_json::from_str(list).ok();
    let Some(Value::Array(items)) = items else { return counts };
    for code in items.iter().filter_map(|item| item["finding"].as_str()) {
        *counts.entry(code.to_owned()).or_default() += 1;
    }
    let more = all.saturating_sub(counts.values().sum());
    if more > 0 {
        counts.insert(NOT_KEPT.to_owned(), more);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_beyond_the_bound_share_a_label_but_declared_queues_keep_theirs() {
        let load =
            |ready, seconds| QueueLoad { ready, running: 1, oldest: Duration::from_secs(seconds) };
        let names = (0..MOST_UNDECLARED + 2).map(|number| format!("a{number:03}"));
        let loads = names
            .chain(["b".to_owned()])
            .zip(1..)
            .map(|(name, at): (String, u64)| (name.parse::<QueueName>().unwrap(), load(at, at)));
        let queues = bounded(loads, |queue| queue.as_str() == "b");
        assert_eq!(queues.len(), MOST_UNDECLARED + 2);
        assert_eq!(queues[OTHER_QUEUES], QueueLoad { running: 2, ..load(51 + 52, 52) });
        assert_eq!(queues["b"], load(53, 53));
    }

    #[test]
    fn findings_are_counted_by_code_and_those_that_were_not_kept_too() {
        let list =
            r#"[{"finding": "missing:jobs"}, {"finding": "missing:jobs"}, {"finding": "x"}]"#;
        let wanted = [("(not kept)", 4), ("missing:jobs", 2), ("x", 1)];
        let wanted = wanted.map(|(code, count)| (code.to_owned(), count)).into();
        assert_eq!(by_code(list, 7), wanted);
        assert!(by_code("", 0).is_empty());
    }
}
