//! Gives back to Redis how the runs of this node's journal ended.
//!
//! Invariant: what Redis knows better stays as it is. First the runs that are nobody's planned one, so that planting what comes
//! after a planned one passes over all that have run.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::super::definition::Definition;
use super::super::journal::{ClaimedRun, EndedRun};
use super::super::shared::Shared;
use crate::domain::ids::{Fence, JobName, RunId};
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;
use crate::store::{JobRecord, Known, RestoreOrder, RestoreReply, StoreError};

/// Runs given back in one call.
const BATCH: usize = 200;
/// How often a job is read again for one run: more runs of it than are remembered cannot stand in the way.
const ROUNDS: usize = 2_000;

/// The field of a run given back that names the occurrence it follows, ms.
const FOLLOWS: &str = "follows";
/// How far back that is looked for, step by step, so that a job of every second is not asked for those of a day.
const NEAR: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(300), Duration::from_secs(25 * 3_600)];

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    /// Ended runs written back.
    pub(super) restored: u64,
    /// Runs whose end nobody knows, and that may not start again.
    pub(super) lost: u64,
    /// Redis knew them.
    pub(super) known: u64,
    /// Not written, for what their keys hold.
    pub(super) failed: u64,
}

/// Gives back, under the mark `epoch`. Ends early if the data is lost once more.
pub(super) async fn give_back(shared: &Shared, epoch: &str, now: UnixMillis) -> Result<Given, StoreError> {
    let orders = orders(shared, epoch, now);
    let done: HashSet<RunId> = orders.iter().map(|order| order.run.clone()).collect();
    let mut given = Given::default();
    let mut planned = Vec::new();
    for batch in orders.chunks(BATCH) {
        let jobs = read_jobs(shared, batch).await?;
        let (mut now_planned, mut others): (Vec<RestoreOrder>, Vec<RestoreOrder>) =
            batch.iter().cloned().partition(|order| jobs.get(order.run.job()).is_some_and(|job| is_planned(job, &order.run)));
        planned.append(&mut now_planned);
        for order in &mut others {
            if let Some(job) = jobs.get(order.run.job()) {
                order.job_lane = job.lane.clone();
                if let Ok(definition) = Definition::of(job.clone()) {
                    note_predecessor(order, &definition);
                }
            }
        }
        let replies = shared.store.restore_runs(&others).await?;
        for (order, reply) in others.into_iter().zip(replies) {
            match reply {
                Ok(RestoreReply::Moved) => return Ok(given),
                Ok(RestoreReply::Stale | RestoreReply::Occupied) => planned.push(order),
                reply => given.count(shared, &order, reply)?,
            }
        }
    }
    // The earliest first: what it plants may be the next of these.
    planned.sort_by_key(|order| order.run.due());
    for order in planned {
        let reply = give_back_planned(shared, &order, &done).await;
        if matches!(reply, Ok(RestoreReply::Moved)) {
            return Ok(given);
        }
        given.count(shared, &order, reply)?;
    }
    Ok(given)
}

impl Given {
    fn count(
        &mut self,
        shared: &Shared,
        order: &RestoreOrder,
        reply: Result<RestoreReply, StoreError>,
    ) -> Result<(), StoreError> {
        match reply {
            Ok(RestoreReply::Restored) if order.known == Known::Claimed => self.lost += 1,
            Ok(RestoreReply::Restored) => self.restored += 1,
            Ok(RestoreReply::Known) => self.known += 1,
            Ok(_) => self.failed += 1,
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                shared.weather.failed(&error, &format!("a run of {} is not given back", order.run.job()));
                self.failed += 1;
            }
        }
        Ok(())
    }
}

fn is_planned(job: &JobRecord, run: &RunId) -> bool {
    job.pending.as_ref() == Some(run) || job.held.as_ref() == Some(run)
}

async fn read_jobs(shared: &Shared, orders: &[RestoreOrder]) -> Result<HashMap<JobName, JobRecord>, StoreError> {
    let names: HashSet<JobName> = orders.iter().map(|order| order.run.job().clone()).collect();
    let names: Vec<JobName> = names.into_iter().collect();
    let records = shared.store.read_jobs(&names).await?;
    // One that cannot be read has no planned run that anybody would start.
    Ok(names.into_iter().zip(records).filter_map(|(name, record)| Some((name, record.ok()??))).collect())
}

/// Gives one back that is its job's planned run, and has what comes after it planted.
async fn give_back_planned(shared: &Shared, order: &RestoreOrder, done: &HashSet<RunId>) -> Result<RestoreReply, StoreError> {
    let mut order = order.clone();
    let mut from = order.run.due();
    for _ in 0..ROUNDS {
        let job = shared.store.read_job(order.run.job()).await?;
        order.planned = None;
        if let Some(job) = job {
            order.job_lane = job.lane.clone();
            if is_planned(&job, &order.run) {
                let (name, rev) = (job.name.clone(), job.rev.clone());
                let definition = Definition::of(job)
                    .map_err(|error| StoreError::Corrupt { subject: format!("job {name}"), found: error.to_string() })?;
                note_predecessor(&mut order, &definition);
                from = after_all(&definition, from, done);
                let next = definition.next_after(from).map(|due| definition.planned(due));
                order.planned = Some((rev, next));
            }
        }
        let replies = shared.store.restore_runs(std::slice::from_ref(&order)).await?;
        match replies.into_iter().next() {
            Some(Ok(RestoreReply::Occupied)) => {
                from = order.planned.as_ref().and_then(|(_, next)| next.as_ref()).map_or(from, |next| next.run.due());
            }
            Some(Ok(RestoreReply::Stale)) => {}
            Some(other) => return other,
            None => break,
        }
    }
    Ok(RestoreReply::Stale)
}

/// Notes which occurrence a run follows, if that is near: when both are trimmed they are told of together, for nothing between
/// them is missing.
fn note_predecessor(order: &mut RestoreOrder, definition: &Definition) {
    if order.facts.iter().any(|(field, _)| field == FOLLOWS) {
        return;
    }
    let due = order.run.due();
    let before = due.saturating_sub(Duration::from_millis(1));
    let near = NEAR.iter().find_map(|near| definition.timetable.latest_in(due.saturating_sub(*near), before));
    order.facts.extend(near.map(|at| (FOLLOWS.to_owned(), at.as_i64().to_string())));
}

/// The last occurrence from `from` on before the first that is not among those done.
fn after_all(definition: &Definition, mut from: UnixMillis, done: &HashSet<RunId>) -> UnixMillis {
    while let Some(next) = definition.next_after(from) {
        if !done.contains(&RunId::regular(definition.record.name.clone(), next)) {
            break;
        }
        from = next;
    }
    from
}

/// What the journal knows, as orders: of a run that ended more than once the last end. Past history's age nothing is given back.
fn orders(shared: &Shared, epoch: &str, now: UnixMillis) -> Vec<RestoreOrder> {
    let node = shared.settings.node.as_str();
    let max_age = shared.keeping().history.max_age;
    shared.watch.journal().with(|memory| {
        let mut orders: HashMap<RunId, RestoreOrder> = HashMap::new();
        let ended = memory.ended().filter_map(|run| ended_order(run, epoch, node));
        let claimed = memory.claimed().filter_map(|run| claimed_order(run, epoch, node, now));
        for order in ended.chain(claimed) {
            if now.since(order.finished_at) < max_age {
                orders.insert(order.run.clone(), order);
            }
        }
        let mut orders: Vec<RestoreOrder> = orders.into_values().collect();
        orders.sort_by_key(|order| order.finished_at);
        orders
    })
}

fn ended_order(run: &EndedRun, epoch: &str, node: &str) -> Option<RestoreOrder> {
    let separator = if run.reason.is_empty() { "" } else { "; " };
    let lane: crate::domain::lane::Lane = run.queue.parse().ok()?;
    let mut facts = run.facts.clone();
    facts.push(("node".to_owned(), node.to_owned()));
    facts.push(("restored".to_owned(), node.to_owned()));
    Some(RestoreOrder {
        run: run.run.parse().ok()?,
        epoch: epoch.to_owned(),
        job_lane: lane.clone(),
        lane,
        known: Known::Ended,
        state: run.state.parse().ok().filter(|state: &RunState| state.is_final())?,
        reason: format!("{}{separator}restored by the journal of {node}", run.reason),
        finished_at: UnixMillis::new(run.ended_at)?,
        fence: Fence::new(run.fence)?,
        planned: None,
        facts,
    })
}

fn claimed_order(run: &ClaimedRun, epoch: &str, node: &str, now: UnixMillis) -> Option<RestoreOrder> {
    let lane: crate::domain::lane::Lane = run.queue.parse().ok()?;
    let facts = [
        ("attempt", run.attempt.to_string()),
        ("started_at", run.at.to_string()),
        ("node", node.to_owned()),
        ("restored", node.to_owned()),
    ];
    Some(RestoreOrder {
        run: run.run.parse().ok()?,
        epoch: epoch.to_owned(),
        job_lane: lane.clone(),
        lane,
        known: Known::Claimed,
        state: RunState::Lost,
        reason: format!("Redis lost its end; that it started is known by the journal of {node}"),
        finished_at: now,
        fence: Fence::new(run.fence)?,
        planned: None,
        facts: facts.map(|(field, value)| (field.to_owned(), value)).to_vec(),
    })
}
