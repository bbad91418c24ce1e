//! Plans backfills: selects the past occurrences that an operator asks for, and adds a backfill run
//! of each to the due set, one after the other.
//!
//! Invariant: a backfill never changes the planned run of a job. At most one backfill run of a job
//! is in the due set or open. The id of a backfill run comes from its occurrence, so a repeated
//! request adds no second run.

use std::collections::BTreeSet;
use std::time::Duration;

use super::operation_error::OperationError;
use crate::engine::dispatch::definition::Definition;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{PlantReply, Store, StoreError};

/// The most runs that one call of `advance` skips because they have already ended.
const ROUNDS: usize = 1_000;
/// The number of occurrences that one call reads from Redis.
const PAGE: usize = 200;
/// The most occurrences that one request examines.
const LOOKED_AT: usize = 100_000;
/// The most backfill runs of a job that may wait at a time.
const WAITING: usize = 10_000;

/// A period in the past whose occurrences a backfill runs.
#[derive(Debug, Clone, Copy)]
pub struct BackfillWindow {
    /// The first instant of the window.
    pub from: UnixMillis,
    /// The first instant after the window.
    pub to: UnixMillis,
}

/// The result of planning a backfill: the runs to add, and the numbers of occurrences left out.
#[derive(Debug, Clone, Default)]
pub struct BackfillPlan {
    /// The backfill runs to add, oldest due time first.
    pub runs: Vec<RunId>,
    /// The number of occurrences left out because their run has already succeeded.
    pub succeeded: u64,
    /// The number of occurrences left out because they already have a backfill run.
    pub repeated: u64,
    /// The number of occurrences left out because their regular run is planned or has not ended.
    pub owed: u64,
    /// The first occurrence that was not examined, because the limit of runs or of examined
    /// occurrences was reached. `None` if all were examined.
    pub cut_at: Option<UnixMillis>,
}

/// Returns the backfill runs for the occurrences of `window`, by the present schedule of the job,
/// at most `most` runs.
pub async fn plan(
    store: &Store,
    definition: &Definition,
    window: BackfillWindow,
    most: usize,
) -> Result<BackfillPlan, OperationError> {
    let job = &definition.record.name;
    let ledger = store.read_ledger(job).await?;
    let timetable = &definition.timetable;
    let first = timetable.next_after(window.from.saturating_sub(Duration::from_millis(1)));
    let all = std::iter::successors(first, |at| timetable.next_after(*at))
        .take_while(|at| *at < window.to);
    let mut all = all.peekable();
    let waiting: BTreeSet<RunId> = store.list_backfill(job, WAITING).await?.into_iter().collect();
    let (mut plan, mut looked_at) = (BackfillPlan::default(), 0);
    while plan.runs.len() < most && looked_at < LOOKED_AT {
        let dues: Vec<UnixMillis> = all.by_ref().take(PAGE.min(most - plan.runs.len())).collect();
        if dues.is_empty() {
            break;
        }
        looked_at += dues.len();
        let ids: Vec<RunId> = dues
            .iter()
            .flat_map(|due| [RunId::regular(job.clone(), *due), RunId::backfill(job.clone(), *due)])
            .collect();
        let records = store.read_runs(&ids).await?;
        for (pair, runs) in ids.chunks_exact(2).zip(records.chunks_exact(2)) {
            let due = pair[0].due();
            // An unreadable record counts as an open run. Otherwise the backfill run would replace
            // the record.
            let state = |at: usize| match &runs[at] {
                Ok(record) => record.as_ref().map(|record| record.state),
                Err(_) => Some(RunState::Running),
            };
            let is_to_come =
                definition.record.pending.as_ref().is_some_and(|pending| due >= pending.due());
            let state_then = state(0).or_else(|| ledger.fate_at(due).map(|range| range.state));
            if state(1).is_some() || waiting.contains(&pair[1]) {
                plan.repeated += 1;
            } else if state_then == Some(RunState::Succeeded) {
                plan.succeeded += 1;
            } else if is_to_come || state_then.is_some_and(|state| !state.is_final()) {
                plan.owed += 1;
            } else {
                plan.runs.push(pair[1].clone());
            }
        }
    }
    plan.cut_at = all.peek().copied();
    Ok(plan)
}

/// Adds the next backfill run of a job to the due set, unless a backfill run of this job is planned
/// or open.
pub async fn advance(store: &Store, job: &JobName) -> Result<(), StoreError> {
    for _ in 0..ROUNDS {
        let Some(first) = store.list_backfill(job, 1).await?.into_iter().next() else {
            return Ok(());
        };
        let lane = store.read_job(job).await?.map_or_else(Lane::default_lane, |job| job.lane);
        match store.plant_backfill(&first, &lane).await? {
            PlantReply::Over | PlantReply::Stale => {}
            PlantReply::Planted | PlantReply::Busy | PlantReply::Empty => return Ok(()),
        }
    }
    Ok(())
}
