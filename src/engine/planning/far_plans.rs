//! Finds planned runs whose times were computed while Redis' clock was ahead, by comparing these
//! times with the schedule.
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
use crate::domain::schedule::lateness::SkippedStretch;
use crate::domain::schedule::schedule_form::Schedule;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::dispatch::definition;
use crate::engine::dispatch::definition::Definition;
use crate::engine::maintenance::ledger_view::{Folded, Recorded};
use crate::store::{InLedger, KeptStretch, LedgerTells, RunRecord, Store, StoreError};

/// The most occurrences with a run of their own that one search passes over. If there are more such
/// occurrences, the planned run stays.
const PASSED: usize = 20_000;
/// The tolerance for a planned time that is too late. A smaller delay does not come from a clock
/// step, because no smaller step counts.
const SLACK: Duration = Duration::from_secs(5);

/// The correction of a planned run whose due time is too late.
pub(crate) struct Far {
    /// The corrected definition, by which occurrences of the job count from now on.
    pub(crate) definition: Definition,
    /// The occurrence to plan instead of the present planned run.
    pub(crate) first: UnixMillis,
}

/// Returns the corrected definition if the planned run of a job may come too late, judged by the
/// job's record and definition alone.
pub(crate) fn may_be_far(definition: &Definition, now: UnixMillis) -> Option<Definition> {
    let record = &definition.record;
    let pending = record.pending.as_ref().filter(|_| record.is_live() && record.paused_at.is_none())?;
    if matches!(definition.spec.schedule, Schedule::At(_) | Schedule::Manual) || pending.due() <= now {
        return None;
    }
    let counted = definition.counted_before(now).ok()?;
    let first = counted.planted_after(now)?;
    (first < pending.due()).then_some(counted)
}

/// Returns the first occurrence before a job's planned run that has no run and is not in the
/// ledger. Returns `None` if there is no such occurrence.
pub(crate) async fn look_at_plan(store: &Store, definition: &Definition, now: UnixMillis) -> Result<Option<Far>, StoreError> {
    let Some(counted) = may_be_far(definition, now) else { return Ok(None) };
    let (name, planned) = (&counted.record.name, definition.record.pending.as_ref().map_or(now, RunId::due));
    if let Schedule::Delay(delay) = counted.spec.schedule {
        let first = now.saturating_add(delay);
        return Ok((first.saturating_add(SLACK) < planned).then_some(Far { definition: counted, first }));
    }
    let mut dealt_with: BTreeSet<UnixMillis> = store.recorded_within(name, now, planned).await?.into_iter().collect();
    dealt_with.extend(store.list_spread(name).await?.iter().map(RunId::due));
    let folded = Folded::read(store, name, Some(&counted.record)).await?;
    let mut at = now;
    for _ in 0..PASSED {
        let Some(next) = counted.planted_after(at).filter(|next| *next < planned) else { return Ok(None) };
        let recorded = Recorded { dues: &dealt_with, stretches: &[] };
        at = if dealt_with.contains(&next) {
            let record = store.read_run(&RunId::regular(name.clone(), next)).await?;
            if record.is_some_and(|record| is_missed_ahead(&record, now)) {
                return Ok(Some(Far { definition: counted, first: next }));
            }
            next
        } else {
            match folded.tells_of(&RunId::regular(name.clone(), next), recorded) {
                None | Some(InLedger { tells: LedgerTells::Nothing, .. }) => {
                    return Ok(Some(Far { definition: counted, first: next }));
                }
                Some(InLedger { range, .. }) => range.to.max(next),
            }
        };
    }
    Ok(None)
}

/// Returns true if an occurrence was recorded as missed before its time came. Only a clock that was
/// ahead causes such a record.
fn is_missed_ahead(record: &RunRecord, now: UnixMillis) -> bool {
    record.state == RunState::Skipped && record.reason.as_deref() == Some("missed") && record.run.due() > now
}

/// Shortens the skipped ranges of a job so that they count no future occurrence.
pub(crate) async fn cut_stretches(store: &Store, job: &JobName, now: UnixMillis) -> Result<(), StoreError> {
    for kept in store.list_stretches(job).await? {
        if kept.stretch.last <= now || kept.stretch.count < 2 {
            continue;
        }
        let Some(left) = cut(job, &kept, now) else { continue };
        let known = store.recorded_within(job, left.first.saturating_add(Duration::from_millis(1)), left.last).await?;
        let counted_by = kept.counted_by.as_ref().and_then(|by| definition::counted_by(job, by).ok());
        let left = counted_by.and_then(|(timetable, since)| lateness::without(&timetable, since, left, &known)).unwrap_or(left);
        if !store.mend_stretch(&RunId::regular(job.clone(), kept.stretch.first), kept.stretch, left).await? {
            debug!(job = %job, "The record of skipped occurrences changed at the same time.");
        }
    }
    Ok(())
}

/// Returns the part of a skipped range that has passed. A range wholly in the future keeps its
/// first occurrence, which has a record. Returns `None` if the schedule that counted the range is
/// not known.
fn cut(job: &JobName, kept: &KeptStretch, now: UnixMillis) -> Option<SkippedStretch> {
    let first = kept.stretch.first;
    let (timetable, since) = definition::counted_by(job, kept.counted_by.as_ref()?).ok()?;
    let behind = first.max(since).saturating_add(Duration::from_millis(1));
    let last = if first < now { timetable.latest_in(behind, now).unwrap_or(first) } else { first };
    Some(SkippedStretch { first, last, count: 1 + if last > first { timetable.count_in(behind, last) } else { 0 } })
}

/// Returns the time at which a run that is not the planned run of its job is to start instead of
/// `ready`. Returns `None` if the run does not wait too long.
fn ready_instead(definition: &Definition, record: &RunRecord, ready: UnixMillis, now: UnixMillis) -> Option<UnixMillis> {
    if record.state != RunState::Scheduled {
        return None;
    }
    let latest = now.saturating_add(SLACK);
    if let Some((from, until)) = record.waits_from.zip(record.ready).filter(|(_, until)| *until == ready) {
        // The run waits its planned delay, counted from now.
        return (from > latest).then(|| now.saturating_add(until.since(from)));
    }
    if record.fence.is_some() || record.run.is_manual() {
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
    let names: Vec<JobName> = runs.iter().map(|(run, _)| run.job().clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let mut definitions = BTreeMap::new();
    for (name, job) in names.iter().zip(store.read_jobs(&names).await?) {
        if let Some(definition) = job.ok().flatten().and_then(|job| Definition::of(job).ok()) {
            definitions.insert(name, definition);
        }
    }
    let ids: Vec<RunId> = runs.iter().map(|(run, _)| run.clone()).collect();
    let now = store.now().await?;
    for ((run, ready), record) in runs.iter().zip(store.read_runs(&ids).await?) {
        let (Ok(Some(record)), Some(definition)) = (record, definitions.get(run.job())) else { continue };
        if definition.record.pending.as_ref() != Some(run)
            && let Some(at) = ready_instead(definition, &record, *ready, now)
        {
            instead.insert(run.clone(), at);
        }
    }
    Ok(instead)
}
