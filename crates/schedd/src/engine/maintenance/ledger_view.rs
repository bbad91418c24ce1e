//! A view of the ledger of a job, which counts occurrences whose run records were trimmed.
//!
//! Invariant: no occurrence is counted twice. The first and the last occurrence of a ledger range
//! certainly belong to the range. An occurrence in between belongs to the range only if two
//! conditions are met:
//! - The schedule version of that time has the occurrence.
//! - The range, together with other known occurrences between its ends, accounts for all
//!   occurrences of the schedule there.
//!
//! If a schedule version is no longer known, the range covers each time between its ends.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::engine::dispatch::definition;
use crate::engine::dispatch::definition::Definition;
use schedd_core::domain::explain::PastSchedule;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness;
use schedd_schedule::lateness::{Rest, SkippedRange};
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::nested_ranges;
use schedd_schedule::nested_ranges::Ends;
use schedd_schedule::schedule_version::{ScheduleVersion, ScheduleVersions};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    InLedger, JobRecord, Ledger, LedgerAnswer, LedgerRange, SkippedRecord, Store, StoreError,
    StoredVersion,
};

/// The most occurrences of a ledger range that is compared with the schedule. A larger range is
/// assumed to be complete.
const COUNTED: u64 = 10_000;
/// The most occurrences counted for one job. Short ranges are counted first, and the remaining
/// ranges are assumed correct.
const COUNTED_IN_ALL: u64 = 100_000;

/// The ledger of a job, and the schedule versions of the job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folded {
    ledger: Ledger,
    versions: ScheduleVersions,
}

/// The occurrences of a job that have run records, and the skipped ranges in some of these records.
#[derive(Clone, Copy)]
pub(crate) struct Recorded<'a> {
    pub(crate) dues: &'a BTreeSet<UnixMillis>,
    pub(crate) skipped_ranges: &'a [SkippedRecord],
}

/// A ledger range that counts more occurrences than the schedules of the job had.
#[derive(Debug, Clone)]
pub(crate) struct LedgerExcess {
    /// The run of the first occurrence of the range, which certainly belongs to the range.
    pub(crate) run: RunId,
    pub(crate) range: LedgerRange,
    /// The range with its count lowered by one. `None` if no occurrence is left.
    pub(crate) left: Option<SkippedRange>,
    /// The number of occurrences counted between the ends of the range. It exceeds `has`, the
    /// number of occurrences that the schedules have there.
    pub(crate) total: u64,
    pub(crate) has: u64,
}

impl Folded {
    /// Reads the ledger of a job and its schedule versions. A ledger of the wrong type counts as
    /// empty.
    pub(crate) async fn read(
        store: &Store,
        name: &JobName,
        job: Option<&JobRecord>,
    ) -> Result<Self, StoreError> {
        let ledger = or_nothing(store.read_ledger(name).await)?;
        if ledger.ranges.is_empty() {
            return Ok(Self { ledger, ..Self::default() });
        }
        Ok(Self { ledger, versions: read_versions(store, name, job).await? })
    }

    /// Returns the first occurrence of the earliest range and the last occurrence of the latest
    /// range. `None` if the ledger is empty.
    pub(crate) fn bounds(&self) -> Option<(UnixMillis, UnixMillis)> {
        let ranges = &self.ledger.ranges;
        Some((
            ranges.iter().map(|range| range.from).min()?,
            ranges.iter().map(|range| range.to).max()?,
        ))
    }

    /// Returns the ledger range that covers the due time of `run`, and how the ledger counts this
    /// run. The caller has checked that `run` has no run record. Returns `None` if no range covers
    /// its due time.
    pub(crate) fn answer_of(&self, run: &RunId, recorded: Recorded<'_>) -> Option<InLedger> {
        let range = self.ledger.fate_at(run.due())?;
        let answer = match range.state {
            RunState::Skipped => match self.without(range, run, recorded) {
                Rest::All => LedgerAnswer::Nothing,
                Rest::Some(left) => LedgerAnswer::Skipped(Some(left)),
                Rest::Nothing => LedgerAnswer::Skipped(None),
            },
            _ if self.holds(range, run, recorded) => LedgerAnswer::End,
            _ => LedgerAnswer::Nothing,
        };
        Some(InLedger { range: range.clone(), answer })
    }

    /// Returns true if a ledger range that lies within `skipped_range` covers the occurrence `at`.
    pub(crate) fn counts_within(&self, at: UnixMillis, skipped_range: SkippedRange) -> bool {
        let mut ranges = self.ledger.ranges.iter();
        ranges.any(|range| {
            skipped_range.first <= range.from
                && range.from <= at
                && at <= range.to
                && range.to <= skipped_range.last
        })
    }

    /// Returns the first occurrence of `job` that has a run record and is certainly counted in the
    /// ledger too. `dues` are the occurrences with run records. Also returns its ledger range, and
    /// this range without the occurrence (`None` if empty).
    pub(crate) fn counted_twice(
        &self,
        job: &JobName,
        dues: &BTreeSet<UnixMillis>,
    ) -> Option<(RunId, LedgerRange, Option<SkippedRange>)> {
        let (first, last) = self.bounds()?;
        let within: Vec<UnixMillis> = dues.range(first..=last).copied().collect();
        let narrowest = nested_ranges::narrowest_at(&self.ends(), within.iter().copied());
        let total: Vec<(UnixMillis, usize)> = within
            .into_iter()
            .zip(narrowest)
            .filter_map(|(due, place)| Some((due, place?)))
            .collect();
        let ranges = &self.ledger.ranges;
        let at_end = total.iter().find(|(due, place)| ranges[*place].ends_at(*due));
        let (due, place) = at_end.or_else(|| self.first_over(&total, dues))?;
        let (run, range) = (RunId::regular(job.clone(), *due), &ranges[*place]);
        match self.left_of(range, &run, Recorded { dues, skipped_ranges: &[] }) {
            Rest::All => None,
            Rest::Some(left) => Some((run, range.clone(), Some(left))),
            Rest::Nothing => Some((run, range.clone(), None)),
        }
    }

    /// Returns the first occurrence of `total` whose range counts more occurrences than the
    /// schedules have. `total` contains the occurrences with run records, each with the index of
    /// its narrowest ledger range. `dues` are all occurrences with run records. The caller has
    /// checked that no occurrence of `total` is an end of its range, so the counts are exact.
    fn first_over<'t>(
        &self,
        total: &'t [(UnixMillis, usize)],
        dues: &BTreeSet<UnixMillis>,
    ) -> Option<&'t (UnixMillis, usize)> {
        let (mut over, mut counted) = (HashMap::new(), 0_u64);
        let mut is_over = |place: usize| {
            *over.entry(place).or_insert_with(|| {
                let range = &self.ledger.ranges[place];
                let total = self.total_in(range, Recorded { dues, skipped_ranges: &[] });
                counted = counted.saturating_add(total);
                counted <= COUNTED_IN_ALL
                    && self.versions.covers(range.from, range.to)
                    && self.is_full(range, total, 1)
            })
        };
        total.iter().find(|(due, place)| self.versions.has(*due) && is_over(*place))
    }

    /// Returns the narrowest range between whose ends more occurrences are counted than the
    /// schedules have there. The count includes the narrower ranges and the run records (`dues`) in
    /// between. No narrower range counts too many occurrences, so one occurrence must leave this
    /// range. Returns `None` if no range counts too many.
    pub(crate) fn ledger_excess(
        &self,
        job: &JobName,
        dues: &BTreeSet<UnixMillis>,
    ) -> Option<LedgerExcess> {
        let (ranges, ends) = (&self.ledger.ranges, self.ends());
        // An end that is not an occurrence of a known schedule is left out of the comparison.
        let odd = |range: &LedgerRange| {
            u64::from(!self.versions.has(range.from))
                + u64::from(range.from < range.to && !self.versions.has(range.to))
        };
        let counts: Vec<u64> =
            ranges.iter().map(|range| range.count.saturating_sub(odd(range))).collect();
        let in_ledger = nested_ranges::sums_within(&ends, &counts);
        let named = nested_ranges::narrowest_at(&ends, ends.iter().map(|(from, _)| *from));
        let is_judged = |place: &usize| {
            let range = &ranges[*place];
            named[*place] == Some(*place)
                && (range.from < range.to || range.count > 1)
                && self.versions.covers(range.from, range.to)
                && self.versions.has(range.to)
        };
        let mut judged: Vec<usize> = (0..ranges.len()).filter(is_judged).collect();
        judged.sort_by_key(|place| ranges[*place].to.since(ranges[*place].from));
        let mut counted = 0_u64;
        for place in judged {
            let range = &ranges[place];
            let records =
                dues.range(range.from..=range.to).filter(|due| self.versions.has(**due)).count();
            let total = in_ledger[place].saturating_add(u64::try_from(records).unwrap_or(u64::MAX));
            counted = counted.saturating_add(total);
            if total > COUNTED || counted > COUNTED_IN_ALL {
                continue;
            }
            let has = self.versions.count_up_to(range.from, range.to, most(total));
            if total > has {
                let left = SkippedRange {
                    first: range.from,
                    last: range.to,
                    count: range.count.saturating_sub(1),
                };
                let run = RunId::regular(job.clone(), range.from);
                return Some(LedgerExcess {
                    run,
                    range: range.clone(),
                    left: Some(left).filter(|left| left.count > 0),
                    total,
                    has,
                });
            }
        }
        None
    }

    /// Returns the ledger ranges of missed occurrences that end after `now`. Each range comes with
    /// its part up to `now`, or with `None` if the range begins after `now`. `dues` are the
    /// occurrences after `now` with run records.
    pub(crate) fn missed_after(
        &self,
        now: UnixMillis,
        dues: &BTreeSet<UnixMillis>,
    ) -> Vec<(LedgerRange, Option<SkippedRange>)> {
        let ranges = self.ledger.ranges.iter().filter(|range| range.to > now && range.is_missed());
        ranges
            .map(|range| {
                (range.clone(), (range.from <= now).then(|| self.passed_of(range, now, dues)))
            })
            .collect()
    }

    /// Returns the part up to `now` of a range that begins at or before `now`.
    fn passed_of(
        &self,
        range: &LedgerRange,
        now: UnixMillis,
        dues: &BTreeSet<UnixMillis>,
    ) -> SkippedRange {
        let next = now.saturating_add(Duration::from_millis(1));
        let last = if self.versions.covers(range.from, range.to) {
            self.versions.latest_in(range.from, now)
        } else {
            Some(now)
        };
        let to_come = self.versions.count_up_to(next, range.to, most(range.count));
        // Occurrences with a run record or in another range are not part of this count.
        let inner =
            self.ledger.ranges.iter().filter(|other| {
                range.from <= other.from && other.to <= range.to && *other != range
            });
        let of_others = inner
            .filter(|other| other.from > now)
            .map(|other| other.count)
            .fold(0, u64::saturating_add);
        let recorded = u64::try_from(dues.range(next..=range.to).count()).unwrap_or(u64::MAX);
        let own = to_come.saturating_sub(of_others).saturating_sub(recorded);
        let last = last.unwrap_or(range.from).max(range.from);
        SkippedRange { first: range.from, last, count: range.count.saturating_sub(own).max(1) }
    }

    fn ends(&self) -> Vec<Ends> {
        self.ledger.ranges.iter().map(|range| (range.from, range.to)).collect()
    }

    /// Applies an answer of `answer_of` to this copy of the ledger, so that later answers include
    /// the change.
    pub(crate) fn note(&mut self, total: &InLedger) {
        if let LedgerAnswer::Skipped(left) = total.answer {
            self.shrink(&total.range, left);
        }
    }

    /// Replaces `range` by `left`, or removes the range if `left` is `None`.
    pub(crate) fn shrink(&mut self, range: &LedgerRange, left: Option<SkippedRange>) {
        let ranges = &mut self.ledger.ranges;
        let Some(place) = ranges.iter().position(|other| other == range) else { return };
        match (left, ranges.get_mut(place)) {
            (Some(left), Some(range)) => {
                (range.from, range.to, range.count) = (left.first, left.last, left.count);
            }
            _ => drop(ranges.remove(place)),
        }
    }

    fn without(&self, range: &LedgerRange, run: &RunId, recorded: Recorded<'_>) -> Rest {
        if self.holds(range, run, recorded) {
            self.left_of(range, run, recorded)
        } else {
            Rest::All
        }
    }

    /// Returns true if the occurrence of `run` belongs to `range`.
    fn holds(&self, range: &LedgerRange, run: &RunId, recorded: Recorded<'_>) -> bool {
        if range.ends_at(run.due()) || !self.versions.covers(range.from, range.to) {
            return true;
        }
        self.versions.has(run.due()) && self.is_full(range, self.total_in(range, recorded), 0)
    }

    /// Returns the number of occurrences that are counted between the ends of `range`. A range that
    /// only overlaps `range` counts by its ends there, because they certainly belong to it.
    fn total_in(&self, range: &LedgerRange, recorded: Recorded<'_>) -> u64 {
        let is_in = |at: UnixMillis| range.from <= at && at <= range.to;
        let is_end = |at: UnixMillis| u64::from(is_in(at) && self.versions.has(at));
        let in_ledger =
            self.ledger.ranges.iter().map(|other| match (is_in(other.from), is_in(other.to)) {
                (true, true) => other.count,
                (true, false) => is_end(other.from),
                (false, _) => is_end(other.to),
            });
        let in_ledger = in_ledger.fold(0, u64::saturating_add);
        let records = recorded.dues.range(range.from..=range.to).count();
        // The first occurrence of a skipped range has a run record.
        let behind_them = recorded.skipped_ranges.iter().map(|kept| {
            let skipped_range = kept.skipped_range;
            match (is_in(skipped_range.first), is_in(skipped_range.last)) {
                (true, true) => skipped_range.count.saturating_sub(1),
                (true, false) => 0,
                (false, _) => is_end(skipped_range.last),
            }
        });
        let behind_them = behind_them.fold(0, u64::saturating_add);
        in_ledger
            .saturating_add(behind_them)
            .saturating_add(u64::try_from(records).unwrap_or(u64::MAX))
    }

    /// Returns true if `total` exceeds the number of occurrences that the schedules have within
    /// `range` by at least `beyond`. If `beyond` is 0, an equal number is enough.
    fn is_full(&self, range: &LedgerRange, total: u64, beyond: u64) -> bool {
        // The first occurrence always counts as one, because it may belong to an older schedule.
        let behind = range.from.saturating_add(Duration::from_millis(1));
        let has = || self.versions.count_up_to(behind, range.to, most(total));
        if total > COUNTED { beyond == 0 } else { total > has().saturating_add(beyond) }
    }

    /// Returns `range` without `run`. The occurrence of `run` must belong to `range`.
    fn left_of(&self, range: &LedgerRange, run: &RunId, recorded: Recorded<'_>) -> Rest {
        // This was the only occurrence of the range. If the schedule is unknown, `run` may lie
        // anywhere between the ends.
        if range.count < 2 {
            return Rest::Nothing;
        }
        let skipped_range = SkippedRange { first: range.from, last: range.to, count: range.count };
        let is_reported = |at: UnixMillis| {
            recorded.dues.contains(&at)
                || self.ledger.fate_at(at).is_some_and(|other| other != range)
        };
        let known = Some(&self.versions).filter(|versions| versions.covers(range.from, range.to));
        match lateness::taken_out(known, skipped_range, run.due(), is_reported) {
            // The count of a ledger range is a plain number, which each removed occurrence lowers
            // by one.
            Rest::Some(left) => {
                Rest::Some(SkippedRange { count: range.count.saturating_sub(1), ..left })
            }
            rest => rest,
        }
    }
}

/// Returns the known schedule versions of a job. A schedule that is unusable on this host counts as
/// unknown.
async fn read_versions(
    store: &Store,
    name: &JobName,
    job: Option<&JobRecord>,
) -> Result<ScheduleVersions, StoreError> {
    Ok(versions_of(&past_schedules(store, name).await?, job))
}

/// Returns the stored earlier schedules of a job, oldest first. The definition is `None` for a
/// schedule that is unusable on this host.
pub(crate) async fn past_schedules(
    store: &Store,
    name: &JobName,
) -> Result<Vec<PastSchedule>, StoreError> {
    let past = |kept: StoredVersion| PastSchedule {
        from: kept.from,
        until: kept.until,
        definition: kept.counted_by.and_then(|by| definition::kept_schedule(name, &by).ok()),
    };
    Ok(or_nothing(store.read_versions(name).await)?.into_iter().map(past).collect())
}

/// Returns the schedule versions: the earlier schedules in `past` and the present schedule of
/// `job`.
pub(crate) fn versions_of(past: &[PastSchedule], job: Option<&JobRecord>) -> ScheduleVersions {
    let timetable_of =
        |one: &PastSchedule| one.definition.as_ref().map(|(_, timetable)| timetable.clone());
    let mut versions: Vec<ScheduleVersion> = past
        .iter()
        .map(|one| ScheduleVersion::new(timetable_of(one), one.from, one.until))
        .collect();
    if let Some(job) = job {
        // A one-shot may have ended before its occurrence, which was then still recorded.
        let until = job.ended_at.filter(|_| !job.is_once).unwrap_or(UnixMillis::LAST);
        let timetable = Definition::of(job.clone()).ok().map(|definition| definition.timetable);
        versions.push(ScheduleVersion::new(timetable, job.since, until));
    }
    ScheduleVersions::new(versions)
}

/// Returns `total` plus one as the limit for counting occurrences. This is enough to decide whether
/// there are fewer than `total`.
fn most(total: u64) -> u32 {
    u32::try_from(total).unwrap_or(u32::MAX).saturating_add(1)
}

/// Returns the value that was read, or an empty value if the key has the wrong type.
fn or_nothing<T: Default>(read: Result<T, StoreError>) -> Result<T, StoreError> {
    match read {
        Err(error) if !error.is_passing() => Ok(T::default()),
        read => read,
    }
}
