//! Computes skipped ranges of past occurrences, where each range is recorded in one run. Some
//! occurrences within a range have a run record of their own, such as a run restored from a
//! journal.
//!
//! Invariant: an occurrence with a run record is never also counted in a skipped range. Code that
//! records a range leaves out such occurrences. Code that restores a run removes the occurrence of
//! that run from the range.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::engine::dispatch::definition;
use crate::engine::dispatch::definition::Definition;
use crate::engine::maintenance::ledger_view::{Folded, Recorded};
use schedd_core::domain::consistency::SkippedRangeFacts;
use schedd_schedule::lateness;
use schedd_schedule::lateness::{Rest, SkippedRange};
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::schedule_version::ScheduleVersions;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::timetable::Timetable;
use schedd_store::{
    InLedger, JobRecord, LedgerAnswer, SkippedRecord, Store, StoreError, TakenFrom,
};

/// Returns the part of `skipped_range` whose occurrences have no run record. Returns `None` if all
/// occurrences have run records.
pub(crate) async fn unrecorded(
    store: &Store,
    definition: &Definition,
    skipped_range: SkippedRange,
) -> Result<Option<SkippedRange>, StoreError> {
    let known = store
        .recorded_within(&definition.record.name, skipped_range.first, skipped_range.last)
        .await?;
    Ok(lateness::without(&definition.timetable, definition.since(), skipped_range, &known))
}

/// Cuts the skipped range from `run` to `last` before the first later occurrence that has a run
/// record. Returns the last occurrence, the count and the next occurrence to plan. Without such a
/// record, these are the given values. Otherwise the next occurrence comes after the recorded
/// occurrence, and after `taken`, the last occurrence that the caller excludes. Only occurrences
/// after `since` are counted, except that of `run`.
pub async fn up_to_recorded(
    store: &Store,
    definition: &Definition,
    run: &RunId,
    (last, count, next): (UnixMillis, u64, Option<UnixMillis>),
    (taken, since): (UnixMillis, UnixMillis),
) -> Result<(UnixMillis, u64, Option<UnixMillis>), StoreError> {
    if count < 2 {
        return Ok((last, count, next));
    }
    let moment = Duration::from_millis(1);
    let behind = run.due().max(since).saturating_add(moment);
    let known = store.recorded_within(run.job(), behind, last).await?;
    let Some(known) = known.first().copied() else { return Ok((last, count, next)) };
    let before = known.saturating_sub(moment);
    let next = definition.next_after(known.max(taken));
    let table = &definition.timetable;
    Ok((
        table.latest_in(behind, before).unwrap_or(run.due()),
        1 + table.count_in(behind, before),
        next,
    ))
}

/// Returns the skipped ranges recorded in these runs. Each comes with the largest correct range,
/// which counts all occurrences of the schedule except those with run records. Left out are runs
/// that skipped only their own occurrence, ranges too large to count exactly, and ranges whose
/// schedule is not known.
pub(crate) async fn look_at_skipped_ranges(
    store: &Store,
    runs: &[RunId],
) -> Result<Vec<SkippedRangeFacts>, StoreError> {
    let exact = 2..=u64::from(Timetable::COUNTED);
    let mut of_job: BTreeMap<&JobName, Vec<(&RunId, SkippedRecord)>> = BTreeMap::new();
    for (run, kept) in runs.iter().zip(store.read_skipped_ranges(runs).await?) {
        if let Some(kept) = kept
            .filter(|kept| kept.counted_by.is_some() && exact.contains(&kept.skipped_range.count))
        {
            of_job.entry(run.job()).or_default().push((run, kept));
        }
    }
    let mut facts = Vec::new();
    for (job, skipped_ranges) in of_job {
        let Some((first, last)) = bounds(skipped_ranges.iter().map(|(_, kept)| kept)) else {
            continue;
        };
        let recorded = store.recorded_within(job, first, last).await?;
        for (run, kept) in skipped_ranges {
            let written = kept.skipped_range;
            let Some(Ok((timetable, since))) =
                kept.counted_by.map(|by| definition::counted_by(job, &by))
            else {
                continue;
            };
            let behind = written.first.max(since).saturating_add(Duration::from_millis(1));
            let whole =
                SkippedRange { count: 1 + timetable.count_in(behind, written.last), ..written };
            let others: Vec<UnixMillis> = recorded
                .iter()
                .copied()
                .filter(|due| written.first < *due && *due <= written.last)
                .collect();
            let possible = lateness::without(&timetable, since, whole, &others);
            facts.extend(possible.map(|possible| SkippedRangeFacts {
                run: run.clone(),
                written,
                possible,
            }));
        }
    }
    Ok(facts)
}

/// Returns the ledger of `job`, and the occurrences within the bounds of the ledger that still have
/// run records.
pub(crate) async fn look_at_ledger(
    store: &Store,
    job: &JobRecord,
) -> Result<(Folded, BTreeSet<UnixMillis>), StoreError> {
    let folded = Folded::read(store, &job.name, Some(job)).await?;
    let Some((first, last)) = folded.bounds() else { return Ok((folded, BTreeSet::new())) };
    let recorded = store.recorded_within(&job.name, first, last).await?;
    Ok((folded, recorded.into_iter().collect()))
}

/// Returns the first occurrence of the earliest range and the last occurrence of the latest range,
/// or `None` if there is no range.
fn bounds<'a>(
    skipped_ranges: impl Iterator<Item = &'a SkippedRecord> + Clone,
) -> Option<(UnixMillis, UnixMillis)> {
    let first = skipped_ranges.clone().map(|kept| kept.skipped_range.first).min()?;
    Some((first, skipped_ranges.map(|kept| kept.skipped_range.last).max()?))
}

/// The skipped ranges of a job, from which the occurrences of restored runs are removed.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReportedRange {
    /// The job's [`JobRecord::ranges_mark`]. `None` if the job has no record.
    pub(crate) mark: Option<String>,
    skipped_ranges: Vec<SkippedRecord>,
    recorded: BTreeSet<UnixMillis>,
    folded: Folded,
}

impl ReportedRange {
    /// Reads the skipped ranges of the job `name`. `job` is the record of this job, if it has one.
    pub(crate) async fn read(
        store: &Store,
        name: &JobName,
        job: Option<&JobRecord>,
    ) -> Result<Self, StoreError> {
        let skipped_ranges = store.list_skipped_ranges(name).await?;
        let folded = Folded::read(store, name, job).await?;
        let all = bounds(skipped_ranges.iter()).into_iter().chain(folded.bounds());
        let recorded = match all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
            Some((first, last)) => store.recorded_within(name, first, last).await?,
            None => Vec::new(),
        };
        Ok(Self {
            mark: job.map(|job| job.ranges_mark.clone()),
            skipped_ranges,
            recorded: recorded.into_iter().collect(),
            folded,
        })
    }

    /// Removes the occurrence of `run`, which now has a run record, from the skipped range that
    /// contains it. Returns the changed range, and the ledger entry for the run. The ledger entry
    /// is `None` if the run already had a record.
    pub(crate) fn take(&mut self, run: &RunId) -> (Option<TakenFrom>, Option<InLedger>) {
        let at = run.due();
        let recorded = Recorded { dues: &self.recorded, skipped_ranges: &self.skipped_ranges };
        let folded =
            if self.recorded.contains(&at) { None } else { self.folded.answer_of(run, recorded) };
        // The ledger counts occurrences that were removed from the skipped range before.
        let is_in_ledger =
            |skipped_range: SkippedRange| self.folded.counts_within(at, skipped_range);
        let taken = self.skipped_ranges.iter().enumerate().find_map(|(place, kept)| {
            // An unusable definition counts as a missing definition.
            let counted_by =
                kept.counted_by.as_ref().and_then(|by| definition::counted_by(run.job(), by).ok());
            let counted_by =
                counted_by.map(|(timetable, since)| ScheduleVersions::of_one(timetable, since));
            let is_reported = |due| {
                self.recorded.contains(&due) || self.folded.counts_within(due, kept.skipped_range)
            };
            match lateness::taken_out(counted_by.as_ref(), kept.skipped_range, at, is_reported) {
                Rest::Some(rest) if !is_in_ledger(kept.skipped_range) => Some((place, Some(rest))),
                Rest::Nothing if !is_in_ledger(kept.skipped_range) => Some((place, None)),
                _ => None,
            }
        });
        self.recorded.insert(at);
        let Some((place, rest)) = taken else {
            if let Some(range) = &folded {
                self.folded.note(range);
            }
            return (None, folded);
        };
        let taken = self.note(place, rest);
        (taken, folded.map(|range| InLedger { answer: LedgerAnswer::Nothing, ..range }))
    }

    fn note(&mut self, place: usize, rest: Option<SkippedRange>) -> Option<TakenFrom> {
        let kept = self.skipped_ranges.get_mut(place)?;
        let skipped_range = kept.skipped_range;
        match rest {
            Some(rest) => {
                kept.skipped_range = rest;
                self.recorded.insert(rest.first);
            }
            None => drop(self.skipped_ranges.remove(place)),
        }
        Some(TakenFrom { skipped_range, rest })
    }
}
