//! Restores ends of runs that Redis has lost.
//!
//! Invariant: newer data in Redis is never replaced. Runs are restored in this order:
//! - First the notices, so that no restored end is notified a second time.
//! - Then the runs that are not the planned run of their job.
//! - Last the planned runs. So the next run of a job is planned after all occurrences that have
//!   run.
//!
//! If a skipped range meanwhile recorded the occurrence of a restored run, the occurrence is
//! removed from the range.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::engine::dispatch::definition::Definition;
use crate::engine::planning::passed_ranges::ReportedRange;
use schedd_schedule::names::{JobName, RunId, RunKind};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{JobRecord, KnownRun, RestoreOrder, RestoreReply, Store, StoreError};

/// The most runs restored in one call.
const BATCH: usize = 200;
/// The most jobs whose skipped ranges are read at once.
const AT_ONCE: usize = 16;
/// The most times that a job is read for one run. The job is read again if an operator edited it,
/// or if another of its runs was skipped or restored meanwhile.
const READINGS: usize = 8;
/// The most occurrences with a run record that are passed over, after each reading of a job, to
/// find its next run. All readings together pass over more runs than the journal remembers of a
/// job.
const ROUNDS: usize = 2_000;
/// The most jobs whose skipped ranges are cached.
const MOST_JOBS: usize = 1_000;

/// The field of a restored run that contains the time of the preceding occurrence, in Unix ms.
const FOLLOWS: &str = "follows";
/// The periods before a run that are searched for the preceding occurrence, one after the other.
/// The short periods avoid a long search for a job that runs every second.
const NEAR: [Duration; 3] =
    [Duration::from_secs(5), Duration::from_secs(300), Duration::from_secs(25 * 3_600)];

/// The numbers of runs in a restore, by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    /// The number of ended runs written to Redis again.
    pub restored: u64,
    /// The number of started at-most-once runs without a known end, which become lost.
    pub lost: u64,
    /// The number of runs that Redis still had.
    pub known: u64,
    /// The number of runs that could not be restored because of the content of their keys.
    pub failed: u64,
}

/// Restores the runs of `orders` one after the other, notices first. Stops early if data is lost
/// once more. If the keys of a run do not allow the restore, calls `failed` for that run and
/// continues.
pub async fn give_back(
    store: &Store,
    orders: &[RestoreOrder],
    failed: impl Fn(&RunId, &StoreError),
) -> Result<Given, StoreError> {
    let done: HashSet<RunId> = orders.iter().map(|order| order.run.clone()).collect();
    let mut given = Given::default();
    let mut planned = Vec::new();
    let mut ranges: HashMap<JobName, ReportedRange> = HashMap::new();
    let mut orders: Vec<&RestoreOrder> = orders.iter().collect();
    orders.sort_by_key(|order| !order.run.job().is_hidden());
    for batch in orders.chunks(BATCH) {
        if ranges.len() > MOST_JOBS {
            ranges.clear();
        }
        let jobs = read_jobs(store, batch).await?;
        ranges.extend(read_ranges(store, batch, &jobs, &ranges).await?);
        let (mut now_planned, mut others): (Vec<RestoreOrder>, Vec<RestoreOrder>) =
            batch.iter().copied().cloned().partition(|order| {
                jobs.get(order.run.job()).is_some_and(|job| is_planned(job, &order.run))
            });
        planned.append(&mut now_planned);
        for order in &mut others {
            if let Some(job) = jobs.get(order.run.job()) {
                order.job_lane = Some(job.lane.clone());
                if let Ok(definition) = Definition::of(job.clone()) {
                    note_predecessor(order, &definition);
                }
            }
            if let Some(ranges) = ranges.get_mut(order.run.job()) {
                take_out(order, ranges);
            }
        }
        let replies = store.restore_runs(&others).await?;
        for (order, reply) in others.into_iter().zip(replies) {
            match reply {
                Ok(RestoreReply::Moved) => return Ok(given),
                Ok(RestoreReply::Stale | RestoreReply::Occupied) => {
                    ranges.remove(order.run.job());
                    planned.push(order);
                }
                reply => given.count(&order, reply, &failed)?,
            }
        }
    }
    // The earliest run comes first, because the run planned after it may be the next in the list.
    planned.sort_by_key(|order| order.run.due());
    for order in planned {
        let reply = give_back_planned(store, &order, &done).await;
        if matches!(reply, Ok(RestoreReply::Moved)) {
            return Ok(given);
        }
        given.count(&order, reply, &failed)?;
    }
    Ok(given)
}

impl Given {
    fn count(
        &mut self,
        order: &RestoreOrder,
        reply: Result<RestoreReply, StoreError>,
        failed: impl Fn(&RunId, &StoreError),
    ) -> Result<(), StoreError> {
        match reply {
            Ok(RestoreReply::Restored) if order.known == KnownRun::Claimed => self.lost += 1,
            Ok(RestoreReply::Restored) => self.restored += 1,
            Ok(RestoreReply::Known) => self.known += 1,
            Ok(_) => {
                let found = "at each attempt to restore the run, the script found other data than this node had read";
                failed(&order.run, &StoreError::corrupt(format!("run {}", order.run), found));
                self.failed += 1;
            }
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                failed(&order.run, &error);
                self.failed += 1;
            }
        }
        Ok(())
    }
}

fn is_planned(job: &JobRecord, run: &RunId) -> bool {
    job.pending.as_ref() == Some(run) || job.paused_run.as_ref() == Some(run)
}

async fn read_jobs(
    store: &Store,
    orders: &[&RestoreOrder],
) -> Result<HashMap<JobName, JobRecord>, StoreError> {
    let names: HashSet<JobName> = orders.iter().map(|order| order.run.job().clone()).collect();
    let names: Vec<JobName> = names.into_iter().collect();
    let records = store.read_jobs(&names).await?;
    // An unreadable job has no planned run that any node would start.
    Ok(names
        .into_iter()
        .zip(records)
        .filter_map(|(name, record)| Some((name, record.ok()??)))
        .collect())
}

/// Returns the skipped ranges of those jobs of `orders` that are missing in `read`.
async fn read_ranges(
    store: &Store,
    orders: &[&RestoreOrder],
    jobs: &HashMap<JobName, JobRecord>,
    read: &HashMap<JobName, ReportedRange>,
) -> Result<HashMap<JobName, ReportedRange>, StoreError> {
    let names: HashSet<&JobName> = orders
        .iter()
        .map(|order| order.run.job())
        .filter(|name| !read.contains_key(*name))
        .collect();
    let reading = names.into_iter().map(|name| async move {
        let ranges = ReportedRange::read(store, name, jobs.get(name)).await;
        match ranges {
            // A key of the wrong type also prevents the restore, and is reported then.
            Err(error) if !error.is_passing() => Ok((name.clone(), ReportedRange::default())),
            ranges => ranges.map(|ranges| (name.clone(), ranges)),
        }
    });
    stream::iter(reading.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).try_collect().await
}

/// Removes the occurrence of the run from the skipped range that contains it. A manual run has no
/// occurrence and is left unchanged.
fn take_out(order: &mut RestoreOrder, ranges: &mut ReportedRange) {
    if order.run.kind() == RunKind::Regular {
        (order.taken_from, order.in_ledger) = ranges.take(&order.run);
        if let Some(mark) = &mut ranges.mark {
            order.ranges_mark.clone_from(mark);
            *mark = order.ranges_mark_after();
        }
    }
}

/// Restores the planned run of a job, and adds the next run of the job to the due set.
async fn give_back_planned(
    store: &Store,
    order: &RestoreOrder,
    done: &HashSet<RunId>,
) -> Result<RestoreReply, StoreError> {
    let mut from = order.run.due();
    for _ in 0..READINGS {
        let mut order = order.clone();
        let definition = look_at(store, &mut order).await?;
        for _ in 0..ROUNDS {
            if let Some(definition) = &definition {
                from = after_all(definition, from, done);
                let next = definition.next_after(from).map(|due| definition.planned(due));
                order.planned = Some((definition.record.rev.clone(), next));
            }
            let replies = store.restore_runs(std::slice::from_ref(&order)).await?;
            match replies.into_iter().next() {
                Some(Ok(RestoreReply::Occupied)) => {
                    from = order
                        .planned
                        .as_ref()
                        .and_then(|(_, next)| next.as_ref())
                        .map_or(from, |next| next.run.due());
                }
                Some(Ok(RestoreReply::Stale)) | None => break,
                Some(other) => return other,
            }
        }
    }
    Ok(RestoreReply::Stale)
}

/// Adds to `order` the present lane of the job, and the skipped range that contains the run.
/// Returns the definition of the job if the run is its planned run, and `None` otherwise.
async fn look_at(
    store: &Store,
    order: &mut RestoreOrder,
) -> Result<Option<Definition>, StoreError> {
    let job = store.read_job(order.run.job()).await?;
    let mut ranges = ReportedRange::read(store, order.run.job(), job.as_ref()).await?;
    take_out(order, &mut ranges);
    order.planned = None;
    let Some(job) = job else { return Ok(None) };
    order.job_lane = Some(job.lane.clone());
    if !is_planned(&job, &order.run) {
        return Ok(None);
    }
    let name = job.name.clone();
    let definition = Definition::of(job).map_err(|error| StoreError::Corrupt {
        subject: format!("job {name}"),
        found: error.to_string(),
    })?;
    note_predecessor(order, &definition);
    Ok(Some(definition))
}

/// Adds the time of the preceding occurrence to the facts of a restored run, if it is at most 25
/// hours earlier. When both occurrences are trimmed, the ledger can then join them into one range.
fn note_predecessor(order: &mut RestoreOrder, definition: &Definition) {
    if order.facts.iter().any(|(field, _)| field == FOLLOWS) {
        return;
    }
    let due = order.run.due();
    let before = due.saturating_sub(Duration::from_millis(1));
    let near = NEAR
        .iter()
        .find_map(|near| definition.timetable.latest_in(due.saturating_sub(*near), before));
    order.facts.extend(near.map(|at| (FOLLOWS.to_owned(), at.as_i64().to_string())));
}

/// Returns the last of the occurrences after `from` that follow without a gap and whose runs are
/// all in `done`. Returns `from` if the next occurrence is not in `done`.
fn after_all(definition: &Definition, mut from: UnixMillis, done: &HashSet<RunId>) -> UnixMillis {
    while let Some(next) = definition.next_after(from) {
        if !done.contains(&RunId::regular(definition.record.name.clone(), next)) {
            break;
        }
        from = next;
    }
    from
}
