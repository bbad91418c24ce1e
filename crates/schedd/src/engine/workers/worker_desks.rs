//! The place where workers ask for runs of the namespace and of its shards.
//!
//! A question waits at the desk of each shard that may have runs for it. Its turn lets only one of
//! the desks of a node claim at a time. Two nodes that get the same question at the same moment may
//! each claim runs of other shards for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::ask_turn::AskTurn;
use super::run_report::{ReportedRun, WorkerReply};
use super::waiting_asks::AskError;
use super::worker_ask::{HandedRun, WorkerAsk};
use super::worker_desk::{WorkerAnswer, WorkerDesk};
use schedd_schedule::names::QueueName;
use schedd_store::StoreError;

/// The place where workers ask a node for runs and report about them. Clones share the same place.
#[derive(Clone)]
pub struct WorkerDesks {
    home: WorkerDesk,
    shards: Arc<Mutex<BTreeMap<u32, WorkerDesk>>>,
}

/// Returns the number of polls for runs at these desks so far.
fn polls_of(desks: &[WorkerDesk]) -> u64 {
    desks.iter().map(WorkerDesk::polls).sum()
}

impl WorkerDesks {
    pub(in crate::engine) fn new(home: WorkerDesk) -> Self {
        Self { home, shards: Arc::default() }
    }

    /// Adds the desk of a shard.
    pub(in crate::engine) fn add(&self, shard: u32, desk: WorkerDesk) {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, desk);
    }

    /// Returns runs for a worker, and waits for them if none is ready. If the question has the id of
    /// an earlier one, returns the runs of that one whose leases live.
    pub async fn ask(&self, ask: WorkerAsk) -> Result<WorkerAnswer, AskError> {
        let ask = Arc::new(ask);
        let desks = self.desks_for(&ask.queue);
        for desk in &desks {
            desk.note_worker(&ask);
        }
        let is_draining = self.home.is_draining();
        // Each desk looks for the runs of an earlier question at its first poll for this one. Of several
        // desks, none is to claim runs while another has some.
        if desks.len() > 1 || is_draining {
            let runs = Self::claimed_before(&desks, &ask).await?;
            if !runs.is_empty() || is_draining {
                return Ok(WorkerAnswer { runs, is_draining });
            }
        }
        let polls = polls_of(&desks);
        let turn = Arc::new(AskTurn::new(self.home.incarnation(), desks.len() > 1));
        let waits = desks.iter().map(|desk| desk.wait_for_runs(&ask, &turn));
        let mut waits: FuturesUnordered<_> = waits.collect();
        while let Some(answer) = waits.next().await {
            let runs = answer?;
            if !runs.is_empty() {
                return Ok(WorkerAnswer { runs, is_draining: self.home.is_draining() });
            }
        }
        // The worker may have sent this question to another node before, over a connection that broke.
        // That node may have claimed runs for it meanwhile. This node then polled too, or drains.
        let runs = if polls_of(&desks) == polls && !self.home.is_draining() {
            Vec::new()
        } else {
            Self::claimed_before(&desks, &ask).await?
        };
        Ok(WorkerAnswer { runs, is_draining: self.home.is_draining() })
    }

    /// Returns the runs that earlier questions with the id of `ask` got and that have not ended.
    async fn claimed_before(
        desks: &[WorkerDesk],
        ask: &WorkerAsk,
    ) -> Result<Vec<HandedRun>, StoreError> {
        let earlier = join_all(desks.iter().map(|desk| desk.claimed_before(ask))).await;
        let mut runs = Vec::new();
        for (desk, earlier) in desks.iter().zip(earlier) {
            match earlier {
                Ok(earlier) => runs.extend(earlier),
                // The question waits for runs of other places, although the shard does not answer.
                Err(_) if desk.is_of_shard() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(runs)
    }

    /// Returns why no worker can ask for runs of `queue`: nobody declared it. Returns `None` for a
    /// declared queue.
    pub async fn unknown_queue(&self, queue: &QueueName) -> Result<Option<String>, StoreError> {
        self.home.unknown_queue(queue).await
    }

    /// Records reports of a worker that may serve these queues, all if there are none. Returns the
    /// answer to each report: [`WorkerReply::Again`] for a run of a shard that does not answer, while
    /// other reports were recorded.
    pub async fn record(
        &self,
        reports: Vec<ReportedRun>,
        queues: &[QueueName],
    ) -> Result<Vec<WorkerReply>, StoreError> {
        let mut by_place: BTreeMap<Option<u32>, Vec<(usize, ReportedRun)>> = BTreeMap::new();
        let count = reports.len();
        for (at, report) in reports.into_iter().enumerate() {
            by_place.entry(report.token.shard).or_default().push((at, report));
        }
        let recorded = by_place.into_iter().map(async |(place, reports)| {
            let (indexes, reports): (Vec<usize>, Vec<ReportedRun>) = reports.into_iter().unzip();
            let replies = match self.desk_of(place) {
                Some(desk) => desk.reports().record(reports, queues).await,
                None => Err(StoreError::Unavailable {
                    address: format!("shard {}", place.unwrap_or_default()),
                    why: "this node does not serve it yet".to_owned(),
                }),
            };
            (indexes, replies)
        });
        let mut replies = vec![WorkerReply::Again; count];
        let (mut is_any_recorded, mut failure) = (false, None);
        for (indexes, of_place) in join_all(recorded).await {
            match of_place {
                Ok(of_place) => {
                    is_any_recorded = true;
                    for (at, reply) in indexes.into_iter().zip(of_place) {
                        replies[at] = reply;
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if !is_any_recorded => Err(error),
            _ => Ok(replies),
        }
    }

    fn desk_of(&self, place: Option<u32>) -> Option<WorkerDesk> {
        let Some(shard) = place else { return Some(self.home.clone()) };
        self.shards.lock().unwrap_or_else(PoisonError::into_inner).get(&shard).cloned()
    }

    /// Returns the desks that may have runs of `queue`: that of the namespace, and those of the shards
    /// if the queue is spread or was.
    fn desks_for(&self, queue: &QueueName) -> Vec<WorkerDesk> {
        let shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let is_spread = self.home.is_spread(queue);
        let of_shards = shards.values().filter(|desk| is_spread || desk.has_lane_of(queue));
        [&self.home].into_iter().chain(of_shards).cloned().collect()
    }
}
