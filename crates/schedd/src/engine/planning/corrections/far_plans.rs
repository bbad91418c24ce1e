//! Finds planned runs whose due times were computed while Redis' clock was ahead, by a comparison
//! with the schedule. Also finds jobs that have no planned run because the clock, while it was
//! ahead, had passed their last occurrence.
//!
//! Invariant: an occurrence with a run record or an entry in the ledger is not planned again. The
//! exception is an occurrence that was recorded as missed before its time came, because this
//! occurrence never ran.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tracing::debug;

use crate::engine::dispatch::definition;
use crate::engine::dispatch::definition::Definition;
use crate::engine::maintenance::ledger_view::{Folded, Recorded};
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    InLedger, JobRecord, LedgerAnswer, RunRecord, SkippedRecord, Store, StoreError,
};

/// The most occurrences with a run record that one search skips. If there are more such
/// occurrences, the planned run is not corrected.
const PASSED: usize = 20_000;
/// The longest delay for which a planned run is not corrected. Only steps of the clock of at least
/// this length are detected, so a smaller delay has another cause.
const SLACK: Duration = Duration::from_secs(5);

/// The correction of a planned run that is too late or missing.
pub(crate) struct Far {
    /// The definition of the job, with occurrences counted from no later than the present time.
    pub(crate) definition: Definition,
    /// The occurrence of the run that replaces the present planned run.
    pub(crate) first: UnixMillis,
    /// True if a clock that was ahead is the cause. False if the planned run was lost.
    pub(crate) is_by_clock: bool,
}

/// Returns the corrected definition if the planned run of a job may be too late or missing. Only
/// the job's record and definition are examined, not its runs.
pub(crate) fn may_be_far(definition: &Definition, now: UnixMillis) -> Option<Definition> {
    let record = &definition.record;
    match definition.spec.schedule {
        // A one-shot needs a correction only if it has ended although its time is in the future.
        Schedule::At(at) => {
            let has_finished = record.ended.as_deref() == Some("finished");
            return (has_finished && at > now).then(|| definition.clone());
        }
        Schedule::Manual | Schedule::After(_) => return None,
        // This job has an open run, and the end of that run plans the next run.
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

/// Returns the correction for a job whose planned run is missing or too late, or `None`. The
/// planned run is too late if an earlier future occurrence has no run record and is not counted in
/// the ledger. An occurrence that was recorded as missed before its time came counts as not
/// recorded. A one-shot that has ended is corrected if its only occurrence has not run.
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
    if is_one_shot && has_lost_key(store, &counted.record).await? {
        return Ok(None);
    }
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
        // A one-shot can also end without a run record for other reasons, for example by a cancel.
        let is_sure = is_by_clock || !is_one_shot;
        return Ok(is_sure.then_some(Far { definition: counted, first: next, is_by_clock }));
    }
    Ok(None)
}

/// Returns true if another job owns the unique key of `job` by now.
async fn has_lost_key(store: &Store, job: &JobRecord) -> Result<bool, StoreError> {
    let Some(key) = &job.unique else { return Ok(false) };
    let owner = store.read_holders(std::slice::from_ref(key)).await?.pop();
    // An unreadable key counts as lost. The consistency check reports the key.
    Ok(owner.is_some_and(|owner| {
        owner.is_err() || owner.is_ok_and(|owner| owner.is_some_and(|owner| owner.job != job.name))
    }))
}

/// Returns true if a skipped range of `job` counts the occurrence `at`.
async fn is_in_range(store: &Store, job: &JobName, at: UnixMillis) -> Result<bool, StoreError> {
    let all = store.list_skipped_ranges(job).await?;
    Ok(all
        .iter()
        .map(|kept| kept.skipped_range)
        .any(|skipped_range| skipped_range.first <= at && at <= skipped_range.last))
}

/// Returns the first occurrence at `next` or later that did not run while Redis' clock was ahead,
/// or `None` if no occurrence is left. The ledger shows which occurrences ran, because their run
/// records may have been trimmed.
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
        // An unreadable ledger counts as empty.
        ledger => ledger.unwrap_or_default(),
    };
    while let Some(range) = ledger.fate_at(at).filter(|range| !range.is_missed()) {
        let Some(next) = definition.next_after(range.to) else { return Ok(None) };
        at = next;
    }
    Ok(Some(at))
}

/// Returns true if `record` says that its occurrence was missed, although the occurrence is still
/// in the future. Only a clock that was ahead causes such a record.
fn is_missed_ahead(record: &RunRecord, now: UnixMillis) -> bool {
    record.state == RunState::Skipped
        && record.reason.as_deref() == Some("missed")
        && record.run.due() > now
}

/// Removes future occurrences from the skipped ranges of a job and from the missed ranges of its
/// ledger.
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
            debug!(job = %job.name, "The ledger of the job was not shortened, because it changed at the same time.");
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
            debug!(job = %job, "A skipped range of the job was not shortened, because it changed at the same time.");
        }
    }
    Ok(())
}

/// Returns the part of a skipped range that has passed. If the whole range is in the future, only
/// its first occurrence is kept, because the first occurrence has a run record. Returns `None` if
/// the schedule that counted the range is not known.
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

/// Returns an earlier ready time for the run of `record`, which is not the planned run of its job.
/// Returns `None` if the present ready time `ready` is not too late.
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
        // This run waits for its retry. The delay before the retry is counted again from now.
        return (from > latest).then(|| now.saturating_add(until.since(from)));
    }
    // A run that was planned for a time that a run or an operator has set.
    if definition.record.next_run.as_ref() == Some(&record.run) {
        return (ready > latest.max(record.run.due())).then(|| record.run.due().max(now));
    }
    // A run that was claimed before, a manual run, or a run that waited for an open run starts now.
    // Its job may start no other run before this run has ended.
    if record.fence.is_some() || record.run.is_manual() || record.waited_from.is_some() {
        return (ready > latest).then_some(now);
    }
    // A catch-up run of a future occurrence starts at that occurrence, and other catch-up runs
    // within the spread.
    let (due, within) = (record.run.due(), definition.spec.catch_up.spread.unwrap_or_default());
    let instead = if due > now { due } else { now.saturating_add(within.mul_f64(fastrand::f64())) };
    (ready > latest.max(due).saturating_add(within)).then_some(instead)
}

/// Returns an earlier ready time for each run of `runs` whose ready time is later than the rules of
/// its job allow. A clock that was ahead causes such times. The planned run of a job is left out.
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
