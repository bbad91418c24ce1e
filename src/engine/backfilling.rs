//! Past occurrences made up for because a person asks: which those are, and their runs one after the other.
//!
//! Invariant: what is made up for never moves the schedule, and two backfill runs of a job are never out at once. The id of a
//! backfill run is that of its occurrence, so asking twice makes up for each once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::definition::Definition;
use super::person::WishError;
use crate::domain::ids::{JobName, RunId};
use crate::domain::lane::Lane;
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;
use crate::store::{PlantReply, Store, StoreError};

/// Backfill runs passed over in one go because they are over.
const ROUNDS: usize = 1_000;
/// Occurrences looked up in one go.
const PAGE: usize = 200;
/// Occurrences looked at for one wish.
const LOOKED_AT: usize = 100_000;
/// Backfill runs a job may have waiting.
const WAITING: usize = 10_000;

/// A window of time that is past.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Its first instant.
    pub from: UnixMillis,
    /// The first instant after it.
    pub to: UnixMillis,
}

/// What of a window is to be made up for.
#[derive(Debug, Clone, Default)]
pub struct BackfillPlan {
    /// The backfill runs to be planted, oldest due first.
    pub runs: Vec<RunId>,
    /// Occurrences left out because they succeeded, as history or the ledger tells.
    pub succeeded: u64,
    /// Occurrences left out because they have a backfill run already.
    pub repeated: u64,
    /// Occurrences left out because their own run is still to come or not over.
    pub owed: u64,
    /// The first occurrence that was not looked at, because enough were found before it.
    pub cut_at: Option<UnixMillis>,
}

/// Which occurrences of `window` are to be made up for, at most `most`; by the schedule as it is now.
pub async fn plan(store: &Store, definition: &Definition, window: Window, most: usize) -> Result<BackfillPlan, WishError> {
    let job = &definition.record.name;
    let ledger = store.read_ledger(job).await?;
    let timetable = &definition.timetable;
    let first = timetable.next_after(window.from.saturating_sub(Duration::from_millis(1)));
    let all = std::iter::successors(first, |at| timetable.next_after(*at)).take_while(|at| *at < window.to);
    let mut all = all.peekable();
    let waiting: BTreeSet<RunId> = store.list_backfill(job, WAITING).await?.into_iter().collect();
    let (mut plan, mut looked_at) = (BackfillPlan::default(), 0);
    while plan.runs.len() < most && looked_at < LOOKED_AT {
        let dues: Vec<UnixMillis> = all.by_ref().take(PAGE.min(most - plan.runs.len())).collect();
        if dues.is_empty() {
            break;
        }
        looked_at += dues.len();
        let ids: Vec<RunId> =
            dues.iter().flat_map(|due| [RunId::regular(job.clone(), *due), RunId::backfill(job.clone(), *due)]).collect();
        let records = store.read_runs(&ids).await?;
        for (pair, runs) in ids.chunks_exact(2).zip(records.chunks_exact(2)) {
            let due = pair[0].due();
            // A record that cannot be read tells nothing, and is not run over.
            let state = |at: usize| match &runs[at] {
                Ok(record) => record.as_ref().map(|record| record.state),
                Err(_) => Some(RunState::Running),
            };
            let is_to_come = definition.record.pending.as_ref().is_some_and(|pending| due >= pending.due());
            let told = state(0).or_else(|| ledger.fate_at(due).map(|range| range.state));
            if state(1).is_some() || waiting.contains(&pair[1]) {
                plan.repeated += 1;
            } else if told == Some(RunState::Succeeded) {
                plan.succeeded += 1;
            } else if is_to_come || told.is_some_and(|state| !state.is_final()) {
                plan.owed += 1;
            } else {
                plan.runs.push(pair[1].clone());
            }
        }
    }
    plan.cut_at = all.peek().copied();
    Ok(plan)
}

/// Plants the next backfill run of a job, if none of it is out.
pub async fn advance(store: &Store, job: &JobName) -> Result<(), StoreError> {
    for _ in 0..ROUNDS {
        let Some(first) = store.list_backfill(job, 1).await?.into_iter().next() else { return Ok(()) };
        let lane = store.read_job(job).await?.map_or_else(Lane::default_lane, |job| job.lane);
        match store.plant_backfill(&first, &lane).await? {
            PlantReply::Over | PlantReply::Stale => {}
            PlantReply::Planted | PlantReply::Busy | PlantReply::Empty => return Ok(()),
        }
    }
    Ok(())
}
