//! The counts of the runs of jobs with wanted tags, for `queues --tag`. There is no index of tags:
//! the definitions and the due sets are read page by page.

use std::collections::{BTreeMap, BTreeSet};

use super::queue_depths::with_shard;
use crate::cli::failure::CliFailure;
use crate::cli::runs::tagged_jobs::has_tags;
use schedd_core::domain::name::tag_filter::TagFilter;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{JobName, QueueName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{QueueDepth, Store};

/// The number of jobs, or of entries of a due set, read in one call.
const PAGE: usize = 1_000;
/// The maximum number of running runs that are read for each queue.
const RUNNING: usize = 1_000_000;

/// The jobs with the wanted tags, and the counts of their runs in each queue.
#[derive(Default)]
pub(super) struct TaggedRuns {
    pub(super) jobs: BTreeSet<JobName>,
    /// The counts of each queue that has such a job or run.
    pub(super) depths: BTreeMap<QueueName, QueueDepth>,
}

impl TaggedRuns {
    /// Returns these jobs and counts together with those of a shard.
    pub(super) fn with(mut self, of_shard: Self) -> Self {
        self.jobs.extend(of_shard.jobs);
        for (queue, depth) in of_shard.depths {
            let sum = self.depths.entry(queue).or_default();
            *sum = with_shard(*sum, depth);
        }
        self
    }

    /// Reads the jobs that match all filters, and counts their runs in `lanes` at `now`.
    pub(super) async fn read(
        store: &Store,
        filters: &[TagFilter],
        lanes: &[Lane],
        now: UnixMillis,
    ) -> Result<Self, CliFailure> {
        let mut tagged = Self::default();
        let mut position = 0;
        loop {
            let names = store.list_jobs(position, PAGE).await?;
            position += PAGE;
            if names.is_empty() {
                break;
            }
            for record in store.read_jobs(&names).await?.into_iter().filter_map(Result::ok) {
                let Some(record) = record else { continue };
                let (name, queue) = (record.name.clone(), record.lane.queue().clone());
                if has_tags(record, filters) {
                    tagged.jobs.insert(name);
                    tagged.depths.entry(queue).or_default();
                }
            }
        }
        for lane in lanes {
            tagged.count_planned(store, lane, now).await?;
        }
        let queues: BTreeSet<&QueueName> = lanes.iter().map(Lane::queue).collect();
        for queue in queues {
            let (runs, _) = store.list_running(queue, RUNNING).await?;
            let running = runs.iter().filter(|run| tagged.jobs.contains(run.job())).count() as u64;
            if running > 0 {
                tagged.depths.entry(queue.clone()).or_default().running = running;
            }
        }
        Ok(tagged)
    }

    async fn count_planned(
        &mut self,
        store: &Store,
        lane: &Lane,
        now: UnixMillis,
    ) -> Result<(), CliFailure> {
        let mut position = 0;
        loop {
            let entries = store.list_entries(lane, position, PAGE).await?;
            position += PAGE;
            if entries.is_empty() {
                return Ok(());
            }
            for (member, at) in entries {
                let Ok(run) = member.parse::<RunId>() else { continue };
                if !self.jobs.contains(run.job()) {
                    continue;
                }
                let depth = self.depths.entry(lane.queue().clone()).or_default();
                if at <= now {
                    depth.ready += 1;
                    depth.oldest = depth.oldest.into_iter().chain([at]).min();
                } else {
                    depth.scheduled += 1;
                }
            }
        }
    }
}
