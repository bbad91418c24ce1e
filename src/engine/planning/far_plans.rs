//! Finds planned runs whose times were computed while Redis' clock was ahead, by comparing these
//! times with the schedule. Finds jobs too whose last time such a clock passed, so that no run of
//! them is planned any more.
//!
//! Invariant: an occurrence with a run of its own, or in the ledger, is not planned again. An
//! occurrence that was recorded as missed before its time came is planned again, because this
//! occurrence was not handled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tracing::debug;

use crate::domain::name::names::{JobName, RunId};
use crate::domain::run::run_state::RunState;
use crate::domain::schedule::lateness;
use crate::domain::schedule::lateness::SkippedRange;
use crate::domain::schedule::schedule_form::Schedule;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::dispatch::definition;
use crate::engine::dispatch::definition::Definition;
use crate::engine::maintenance::ledger_view::{Folded, Recorded};
use crate::store::{
    InLedger, JobRecord, LedgerAnswer, RunRecord, SkippedRecord, Store, StoreError,
};

/// The most occurrences with a run of their own that one search passes over. If there are more such
/// occurrences, the planned run stays.
const PASSED: usize = 20_000;
/// The tolerance for a planned time that is too late. A smaller delay does not come from a clock
/// step, because no smaller step counts.
const SLACK: Duration = Duration::from_secs(5);

/// The correction of a planned run that comes too late, or that is missing.
pub(crate) struct Far {
    /// The corrected definition, by which occurrences of the job count from now on.
    pub(crate) definition: Definition,
    /// The occurrence to plan instead of the present planned run.
    pub(crate) first: UnixMillis,
    /// True if a clock that was ahead is the cause. Otherwise a planned run was lost.
    pub(crate) is_by_clock: bool,
}

/// Returns the corrected definition if the planned run of a job may come too late, or may be
/// missing, judged by the job's record and definition alone.
pub(crate) fn may_be_far(definition: &Definition, now: UnixMillis) -> Option<Definition> {
    let record = &definition.record;
    match definition.spec.schedule {
        // The job has ended, and its time is still to come. Another job may have its unique key.
        Schedule::At(at) => {
            let has_finished =
                record.ended.as_deref() == Some("finished") && record.unique.is_none();
            return (has_finished && at > now).then(|| definition.clone());
        }
        Schedule::Manual => return None,
        // The end of an open run plans the next run.
        Schedule::Delay(_) if record.pending.is_none() => return None,
        _ => {}
    }
    if !record.is_live() || record.paused_at.is_some() {
        return None;
    }
    let planned = record.pending.as_ref().map_or(UnixMillis::LAST, RunId::due);
    let counted = definition.counted_before(now).ok().filter(|_| planned > now)?;
    let first = counted.planted_after(now)?;
    (first < planned || record.pending.is_none()).then_some(counted)
}

/// Returns the first occurrence before a job's planned run that has no run and is not in the
/// ledger. Returns `None` if there is no such occurrence. For a one-shot that has ended, this is its
/// only occurrence if that was not handled.
pub(crate) async fn look_at_plan(
    store: &Store,
    definition: &Definition,
    now: UnixMillis,
) -> Result<Option<Far>, StoreError> {
    let Some(counted) = may_be_far(definition, now) else { return Ok(None) };
    let pending = definition.record.pending.as_ref();
    let (name, planned) = (&counted.record.name, pending.map_or(UnixMillis::LAST, RunId::due));
    if let Schedule::Delay(delay) = counted.spec.schedule {
        let first = now.saturating_add(delay);
        let far = Far { definition: counted, first, is_by_clock: true };
        return Ok((first.saturating_add(SLACK) < planned).then_some(far));
    }
    let is_one_shot = counted.timetable.is_one_shot();
    let mut dealt_with: BTreeSet<UnixMillis> =
        store.recorded_within(name, now, planned).await?.into_iter().collect();
    dealt_with.extend(store.list_spread(name).await?.iter().map(RunId::due));
    let folded = Folded::read(store, name, Some(&counted.record)).await?;
    let is_known_ahead = pending.is_some() || definition.record.since > now && !is_one_shot;
    let mut at = now;
    for _ in 0..PASSED {
        let Some(next) = counted.planted_after(at).filter(|next| *next < planned) else {
            return Ok(None);
        };
        let recorded = Recorded { dues: &dealt_with, skipped_ranges: &[] };
        let is_by_clock = if dealt_with.contains(&next) {
            let record = store.read_run(&RunId::regular(name.clone(), next)).await?;
            if !record.is_some_and(|record| is_missed_ahead(&record, now)) {
                at = next;
                continue;
            }
            true
        } else {
            match folded.answer_of(&RunId::regular(name.clone(), next), recorded) {
                Some(InLedger { range, .. }) if range.is_missed() => true,
                None | Some(InLedger { answer: LedgerAnswer::Nothing, .. }) => {
                    is_known_ahead || is_in_range(store, name, next).await?
                }
                Some(InLedger { range, .. }) => {
                    at = range.to.max(next);
                    continue;
                }
            }
        };
        // The end of a one-shot without a record of its run may have any cause.
        let is_sure = is_by_clock || !is_one_shot;
        return Ok(is_sure.then_some(Far { definition: counted, first: next, is_by_clock }));
    }
    Ok(None)
}

/// Returns true if a skipped range of `job` counts the occurrence `at`.
async fn is_in_range(store: &Store, job: &JobName, at: UnixMillis) -> Result<bool, StoreError> {
    let all = store.list_skipped_ranges(job).await?;
    Ok(all
        .iter()
        .map(|kept| kept.skipped_range)
        .any(|skipped_range| skipped_range.first <= at && at <= skipped_range.last))
}

/// Returns the first occurrence from `next` on that did not run while Redis' clock was ahead. The
/// records of such runs may have been trimmed, and then only the ledger has them.
pub(crate) async fn not_run_early(
    store: &Store,
    definition: &Definition,
    next: Option<UnixMillis>,
) -> Result<Option<UnixMillis>, StoreError> {
    let Some(mut at) =
        next.filter(|next| definition.record.handled.iter().any(|dealt| next <= dealt))
    else {
        return Ok(next);
    };
    let ledger = match store.read_ledger(&definition.record.name).await {
        Err(error) if error.is_passing() => return Err(error),
        // A ledger of the wrong type has no occurrence.
        ledger => ledger.unwrap_or_default(),
    };
    while let Some(range) = ledger.fate_at(at).filter(|range| !range.is_missed()) {
        let Some(next) = definition.next_after(range.to) else { return Ok(None) };
        at = next;
    }
    Ok(Some(at))
}

/// Returns true if an occurrence was recorded as missed before its time came. Only a clock that was
/// ahead causes such a record.
fn is_missed_ahead(record: &RunRecord, now: UnixMillis) -> bool {
    record.state == RunState::Skipped
        && record.reason.as_deref() == Some("missed")
        && record.run.due() > now
}

/// Shortens the skipped ranges of a job, and the missed ranges of its ledger, so that they count no
/// future occurrence.
pub(crate) async fn cut_ranges(
    store: &Store,
    job: &JobRecord,
    now: UnixMillis,
) -> Result<(), StoreError> {
    cut_skipped_ranges(store, &job.name, now).await?;
    let folded = Folded::read(store, &job.name, Some(job)).await?;
    let Some((_, last)) = folded.bounds().filter(|(_, last)| *last > now) else { return Ok(()) };
    let recorded = store.recorded_within(&job.name, now, last).await?.into_iter().collect();
    for (range, left) in folded.missed_after(now, &recorded) {
        if !store
            .repair_ledger_range(&RunId::regular(job.name.clone(), range.from), &range, left)
            .await?
        {
            debug!(job = %job.name, "Its ledger has changed meanwhile.");
        }
    }
    Ok(())
}

async fn cut_skipped_ranges(
    store: &Store,
    job: &JobName,
    now: UnixMillis,
) -> Result<(), StoreError> {
    for kept in store.list_skipped_ranges(job).await? {
        if kept.skipped_range.last <= now || kept.skipped_range.count < 2 {
            continue;
        }
        let Some(left) = cut(job, &kept, now) else { continue };
        let known = store
            .recorded_within(job, left.first.saturating_add(Duration::from_millis(1)), left.last)
            .await?;
        let counted_by =
            kept.counted_by.as_ref().and_then(|by| definition::counted_by(job, by).ok());
        let left = counted_by
            .and_then(|(timetable, since)| lateness::without(&timetable, since, left, &known))
            .unwrap_or(left);
        if !store
            .repair_skipped_range(
                &RunId::regular(job.clone(), kept.skipped_range.first),
                kept.skipped_range,
                left,
            )
            .await?
        {
            debug!(job = %job, "The record of skipped occurrences changed at the same time.");
        }
    }
    Ok(())
}

/// Returns the part of a skipped range that has passed. A range wholly in the future keeps its
/// first occurrence, which has a record. Returns `None` if the schedule that counted the range is
/// not known.
fn cut(job: &JobName, kept: &SkippedRecord, now: UnixMillis) -> Option<SkippedRange> {
    let first = kept.skipped_range.first;
    let (timetable, since) = definition::counted_by(job, kept.counted_by.as_ref()?).ok()?;
    let behind = first.max(since).saturating_add(Duration::from_millis(1));
    let last = if first < now { timetable.latest_in(behind, now).unwrap_or(first) } else { first };
    Some(SkippedRange {
        first,
        last,
        count: 1 + if last > first { timetable.count_in(behind, last) } else { 0 },
    })
}

/// Returns the time at which a run that is not the planned run of its job is to start instead of
/// `ready`. Returns `None` if the run does not wait too long.
fn ready_instead(
    definition: &Definition,
    record: &RunRecord,
    ready: UnixMillis,
    now: UnixMillis,
) -> Option<UnixMillis> {
    if record.state != RunState::Scheduled {
        return None;
    }
    let latest = now.saturating_add(SLACK);
    if let Some((from, until)) =
        record.waits_from.zip(record.ready).filter(|(_, until)| *until == ready)
    {
        // The run waits its planned delay, counted from now.
        return (from > latest).then(|| now.saturating_add(until.since(from)));
    }
    // A run that waited for another run has come to its claim, and its job is blocked behind it.
    if record.fence.is_some() || record.run.is_manual() || record.waited_from.is_some() {
        return (ready > latest).then_some(now);
    }
    // A catch-up run of a future occurrence starts at that occurrence.
    let (due, within) = (record.run.due(), definition.spec.catch_up.spread.unwrap_or_default());
    let instead = if due > now { due } else { now.saturating_add(within.mul_f64(fastrand::f64())) };
    (ready > latest.max(due).saturating_add(within)).then_some(instead)
}

/// Returns the runs that wait longer than their jobs' rules allow, each with its corrected start
/// time. The planned run of a job is never among these runs.
pub(crate) async fn ready_instead_of(
    store: &Store,
    runs: &[(RunId, UnixMillis)],
) -> Result<BTreeMap<RunId, UnixMillis>, StoreError> {
    let mut instead = BTreeMap::new();
    if runs.is_empty() {
        return Ok(instead);
    }
    let names: Vec<JobName> = runs
        .iter()
        .map(|(run, _)| run.job().clone())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut definitions = BTreeMap::new();
    for (name, job) in names.iter().zip(store.read_jobs(&names).await?) {
        if let Some(definition) = job.ok().flatten().and_then(|job| Definition::of(job).ok()) {
            definitions.insert(name, definition);
        }
    }
    let ids: Vec<RunId> = runs.iter().map(|(run, _)| run.clone()).collect();
    let now = store.now().await?;
    for ((run, ready), record) in runs.iter().zip(store.read_runs(&ids).await?) {
        let (Ok(Some(record)), Some(definition)) = (record, definitions.get(run.job())) else {
            continue;
        };
        if definition.record.pending.as_ref() != Some(run)
            && let Some(at) = ready_instead(definition, &record, *ready, now)
        {
            instead.insert(run.clone(), at);
        }
    }
    Ok(instead)
}
