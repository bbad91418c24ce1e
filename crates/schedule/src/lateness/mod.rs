//! The decision about a due regular run: either the run starts, or it is skipped. Later occurrences
//! up to now that get no run either are skipped together with it.
//!
//! A run is missed if a later occurrence of the job is due too, or if the run is older than
//! `late_after`. The decision depends only on the schedule, the rules and the time, so every node
//! decides alike.

mod catch_up;
#[cfg(test)]
mod lateness_tests;
mod skip_cause;

use std::time::Duration;

use crate::schedule_version::ScheduleVersions;
use crate::time::unix_millis::UnixMillis;
use crate::timetable::Timetable;
pub use catch_up::{CatchUp, CatchUpMode};
pub use skip_cause::{SkipCause, skip_cause};

/// The decision about a due regular run: it starts, or a range of occurrences is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The run starts.
    Run {
        /// The first occurrence after the run, which is planned next. `None` if there is none.
        successor: Option<UnixMillis>,
        /// True if the run was missed and starts only because of the catch-up rule.
        is_missed: bool,
    },
    /// The run and the occurrences after it up to `last` are skipped.
    Skip {
        /// The last occurrence of the skipped range.
        last: UnixMillis,
        /// The number of skipped occurrences, exact up to 100,000.
        count: u64,
        /// The first occurrence after the skipped range, which is planned next. `None` if there is
        /// none.
        successor: Option<UnixMillis>,
    },
}

/// A due regular run, with the schedule, rules and times that decide if the run starts.
#[derive(Debug, Clone, Copy)]
pub struct Due<'a> {
    /// The timetable of the job.
    pub timetable: &'a Timetable,
    /// The time since which the job has this schedule. A run due before `since` comes from an
    /// earlier schedule. No missed occurrences are counted between such a run and `since`.
    pub since: UnixMillis,
    /// The last occurrence of the job that already has a record. The run planned next is later than
    /// this occurrence.
    pub taken: UnixMillis,
    /// The rule for missed occurrences.
    pub catch_up: &'a CatchUp,
    /// The maximum age of a run that may start. An older run is skipped in every catch-up mode.
    pub skip_if_late: Option<Duration>,
    /// The age above which the run counts as missed.
    pub late_after: Duration,
    /// The due time of the run.
    pub due: UnixMillis,
    /// The time before which no run may start, because a run of the job set it. The age of the run
    /// counts from this time. The Unix epoch if there is no such time.
    pub not_before: UnixMillis,
    /// The present time by Redis' clock.
    pub now: UnixMillis,
}

impl Due<'_> {
    /// Returns the time that has passed since the run due at `due` could start.
    fn age_of(&self, due: UnixMillis) -> Duration {
        self.now.since(due.max(self.not_before))
    }
}

/// Decides if a due regular run starts or is skipped.
pub fn judge(run: Due<'_>) -> Decision {
    let Due { timetable, catch_up, due, now, .. } = run;
    let base = due.max(run.since);
    let later = timetable.next_after(base);
    let successor_after = |at: UnixMillis| timetable.next_after(at.max(run.taken));
    let max_age = [catch_up.max_age, run.skip_if_late].into_iter().flatten().min();
    let is_too_old = max_age.is_some_and(|most| run.age_of(due) > most);
    if timetable.is_one_shot() {
        // If the run comes from an earlier schedule, the next run is the one-shot that replaced
        // that schedule.
        return if is_too_old {
            Decision::Skip { last: due, count: 1, successor: successor_after(base) }
        } else {
            Decision::Run { successor: successor_after(base), is_missed: false }
        };
    }
    let is_late = is_too_old || run.age_of(due) > run.late_after;
    let has_later_due = later.is_some_and(|next| next <= now);
    if !is_late && !has_later_due {
        return Decision::Run { successor: successor_after(base), is_missed: false };
    }

    let newest =
        if has_later_due { latest_after(timetable, base, now).unwrap_or(due) } else { due };
    // The first occurrence up to now that gets a run. `None` means that each occurrence up to now
    // is skipped.
    let first_to_run = match catch_up.mode {
        CatchUpMode::Skip => (run.age_of(newest) <= run.late_after).then_some(newest),
        CatchUpMode::Latest => Some(newest),
        CatchUpMode::All => Some(
            newest_of(timetable, base, now, catch_up.max_count).map_or(due, |first| first.max(due)),
        ),
    };
    let first_to_run = match (first_to_run, max_age) {
        (Some(first), Some(most)) if run.age_of(first) > most => {
            first_within(timetable, base, now, most, catch_up.mode)
        }
        (first, _) => first,
    };
    match first_to_run {
        Some(first) if first <= due => {
            Decision::Run { successor: successor_after(base), is_missed: true }
        }
        Some(first) => {
            let last =
                latest_after(timetable, base, first.saturating_sub(Duration::from_millis(1)))
                    .unwrap_or(due);
            let successor = if first > run.taken { Some(first) } else { successor_after(first) };
            Decision::Skip { last, count: range(timetable, base, last), successor }
        }
        None => Decision::Skip {
            last: newest,
            count: range(timetable, base, newest),
            successor: successor_after(base.max(newest)),
        },
    }
}

/// The missed occurrences of a job that each get a run. The first one is the planned run of the
/// job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// The oldest missed occurrences, the oldest first. The first one is the due time of the
    /// planned run.
    pub dues: Vec<UnixMillis>,
    /// The number of all missed occurrences, exact up to 100,000.
    pub count: u64,
    /// The first occurrence after the occurrences in `dues`, which is planned next. `None` if there
    /// is none.
    pub successor: Option<UnixMillis>,
}

/// Returns the missed occurrences that each get a run, at most `most`. `run` is a missed run that
/// [`judge`] decided to start. The first of these occurrences is the due time of `run`.
pub fn missed_from(run: Due<'_>, most: usize) -> Missed {
    let Due { timetable, due, now, .. } = run;
    let base = due.max(run.since);
    let newest = latest_after(timetable, base, now);
    // The newest occurrence may be on time, and then it is not missed.
    let last = newest.and_then(|newest| {
        let is_late = now.since(newest) > run.late_after;
        if is_late {
            Some(newest)
        } else {
            latest_after(timetable, base, newest.saturating_sub(Duration::from_millis(1)))
        }
    });
    let last = last.filter(|_| run.catch_up.mode == CatchUpMode::All);
    let behind = std::iter::successors(timetable.next_after(base), |at| timetable.next_after(*at));
    let behind = behind.take_while(|at| last.is_some_and(|last| *at <= last));
    let dues: Vec<UnixMillis> = std::iter::once(due).chain(behind).take(most).collect();
    let successor =
        timetable.next_after(dues.last().map_or(base, |last| base.max(*last)).max(run.taken));
    Missed { dues, count: last.map_or(1, |last| range(timetable, base, last)), successor }
}

/// Returns the last skipped occurrence of a pause, and the number of skipped occurrences. The first
/// skipped occurrence is `paused_run`, the due time of the planned run that the pause removed.
/// Returns `None` if `paused_run` is later than `now`.
pub fn paused_range(
    timetable: &Timetable,
    paused_run: UnixMillis,
    since: UnixMillis,
    now: UnixMillis,
) -> Option<(UnixMillis, u64)> {
    if paused_run > now {
        return None;
    }
    let base = paused_run.max(since);
    let last = latest_after(timetable, base, now).unwrap_or(paused_run);
    Some((last, range(timetable, base, last)))
}

/// A range of consecutive occurrences that were skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedRange {
    /// The due time of the first skipped occurrence.
    pub first: UnixMillis,
    /// The due time of the last skipped occurrence.
    pub last: UnixMillis,
    /// The number of skipped occurrences, exact up to 100,000.
    pub count: u64,
}

/// Returns `range` without the occurrences in `known`, a sorted list. Returns `None` if no
/// occurrence is left. `timetable` has the occurrences after `since`. Only the first occurrence of
/// `range` may come from an earlier schedule.
pub fn without(
    timetable: &Timetable,
    since: UnixMillis,
    range: SkippedRange,
    known: &[UnixMillis],
) -> Option<SkippedRange> {
    let is_known = |at: UnixMillis| known.binary_search(&at).is_ok();
    let (mut first, mut last) = (range.first, range.last);
    while is_known(first) {
        first = timetable.next_after(first.max(since)).filter(|next| *next <= range.last)?;
    }
    while last > first && is_known(last) {
        last = timetable
            .latest_in(one_after(first.max(since)), last.saturating_sub(Duration::from_millis(1)))
            .unwrap_or(first);
    }
    let behind = range.first.max(since);
    let is_counted = |at: UnixMillis| {
        at == range.first || behind < at && at <= range.last && timetable.count_in(at, at) == 1
    };
    let known_count = known.iter().filter(|at| is_counted(**at)).count();
    let count = range.count.saturating_sub(u64::try_from(known_count).unwrap_or(u64::MAX)).max(1);
    Some(SkippedRange { first, last, count })
}

/// The rest of a skipped range after the removal of an occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// The whole range is left, because the range did not contain the occurrence.
    All,
    /// This smaller range is left.
    Some(SkippedRange),
    /// No occurrence is left.
    Nothing,
}

/// Removes the occurrence `at` from the skipped range `range`, because the run of `at` has its own
/// record. `is_recorded` returns true for every other occurrence with a record.
///
/// `counted_by` has the schedules by which the range was counted. If it is `None`, each millisecond
/// within the range counts as an occurrence.
pub fn taken_out(
    counted_by: Option<&ScheduleVersions>,
    range: SkippedRange,
    at: UnixMillis,
    is_recorded: impl Fn(UnixMillis) -> bool,
) -> Rest {
    let SkippedRange { mut first, mut last, count } = range;
    if at < first
        || at > last
        || at != first && (count < 2 || !counted_by.is_none_or(|versions| versions.has(at)))
    {
        return Rest::All;
    }
    if count < 2 {
        return Rest::Nothing;
    }
    let next_after = |from: UnixMillis| match counted_by {
        Some(versions) => versions.next_after(from),
        None => Some(one_after(from)),
    };
    let latest_before = |until: UnixMillis| {
        let until = until.saturating_sub(Duration::from_millis(1));
        counted_by.map_or(Some(until), |versions| versions.latest_in(one_after(first), until))
    };
    if at == first {
        let mut next = next_after(first);
        while next.is_some_and(is_recorded_before(last, &is_recorded)) {
            next = next.and_then(next_after);
        }
        let Some(next) = next.filter(|next| *next <= last) else { return Rest::Nothing };
        first = next;
    } else if at == last {
        while last > first && (last == at || is_recorded(last)) {
            last = latest_before(last).map_or(first, |before| before.max(first));
        }
    }
    // A count above the limit is not exact, so it is not lowered.
    let count = if count > u64::from(Timetable::COUNTED) { count } else { count - 1 };
    Rest::Some(SkippedRange { first, last, count })
}

fn is_recorded_before(
    last: UnixMillis,
    is_recorded: impl Fn(UnixMillis) -> bool,
) -> impl Fn(UnixMillis) -> bool {
    move |at| at <= last && is_recorded(at)
}

/// Returns the range of occurrences after the due time `owed` of a run, up to `now`. Returns `None`
/// if the run is not due yet, or if no later occurrence is due.
pub fn range_behind(
    timetable: &Timetable,
    owed: UnixMillis,
    since: UnixMillis,
    now: UnixMillis,
) -> Option<SkippedRange> {
    let base = owed.max(since);
    let first = timetable.next_after(base).filter(|first| owed <= now && *first <= now)?;
    let last = latest_after(timetable, base, now)?;
    Some(SkippedRange { first, last, count: timetable.count_in(one_after(base), last) })
}

fn one_after(at: UnixMillis) -> UnixMillis {
    at.saturating_add(Duration::from_millis(1))
}

fn latest_after(timetable: &Timetable, after: UnixMillis, until: UnixMillis) -> Option<UnixMillis> {
    timetable.latest_in(one_after(after), until)
}

/// Returns the number of occurrences up to `last`: the run due at `base` and all later occurrences.
fn range(timetable: &Timetable, base: UnixMillis, last: UnixMillis) -> u64 {
    if last <= base { 1 } else { timetable.count_in(one_after(base), last) + 1 }
}

/// Returns the oldest of the `most` newest occurrences up to `now`. Returns `None` if there are at
/// most `most` occurrences from the run due at `base` on.
fn newest_of(
    timetable: &Timetable,
    base: UnixMillis,
    now: UnixMillis,
    most: u32,
) -> Option<UnixMillis> {
    let behind = timetable.count_in(one_after(base), now);
    if behind < u64::from(most) { None } else { timetable.newest_in(one_after(base), now, most) }
}

/// Returns the first occurrence after `base` and up to `now` that is at most `most` old, or `None`.
/// In the modes `skip` and `latest` the result is always `None`. In these modes only the newest
/// occurrence may run, and the caller found that it is too old.
fn first_within(
    timetable: &Timetable,
    base: UnixMillis,
    now: UnixMillis,
    most: Duration,
    mode: CatchUpMode,
) -> Option<UnixMillis> {
    if mode != CatchUpMode::All {
        return None;
    }
    let bound = now.saturating_sub(most).max(base).saturating_sub(Duration::from_millis(1));
    timetable.next_after(bound.max(base)).filter(|first| *first <= now)
}
