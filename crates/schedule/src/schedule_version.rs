//! The schedule versions of a job: each schedule that the job has had, with the period in which the
//! job had it.
//!
//! Invariant: an occurrence belongs to the schedule that the job had at the time of the occurrence.
//! The time of a one-shot is an occurrence even if it was already past when the one-shot was added.
//! Times before the oldest kept version are unknown. In a gap between two kept versions the job had
//! no schedule.

use std::time::Duration;

use super::timetable::Timetable;
use crate::time::unix_millis::UnixMillis;

/// A schedule of a job, and the period in which the job had it.
#[derive(Debug, Clone)]
pub struct ScheduleVersion {
    /// The start of the period. Only occurrences later than `from` belong to this version.
    from: UnixMillis,
    /// The last instant of the period.
    until: UnixMillis,
    /// The timetable of the schedule. `None` if the schedule is a delay, which has no occurrences,
    /// or if it is unknown.
    timetable: Option<Timetable>,
}

/// The schedule versions of a job, oldest first, as far back as they are kept.
#[derive(Debug, Clone, Default)]
pub struct ScheduleVersions(Vec<ScheduleVersion>);

impl ScheduleVersion {
    /// Creates the schedule version of `timetable`, with the occurrences after `from` up to
    /// `until`.
    pub fn new(timetable: Option<Timetable>, from: UnixMillis, until: UnixMillis) -> Self {
        Self { from, until, timetable: timetable.filter(Timetable::has_times) }
    }

    /// Returns the timetable of this version, and the part of `first` to `last` that belongs to the
    /// version. Returns `None` if that part is empty or the version has no timetable.
    fn within(
        &self,
        first: UnixMillis,
        last: UnixMillis,
    ) -> Option<(&Timetable, UnixMillis, UnixMillis)> {
        let timetable = self.timetable.as_ref()?;
        let first = if timetable.is_one_shot() { first } else { first.max(one_after(self.from)) };
        let last = last.min(self.until);
        (first <= last).then_some((timetable, first, last))
    }

    fn holds(&self, at: UnixMillis) -> bool {
        self.within(at, at).is_some_and(|(timetable, ..)| timetable.count_in(at, at) > 0)
    }

    fn is_one_shot(&self) -> bool {
        self.timetable.as_ref().is_some_and(Timetable::is_one_shot)
    }

    /// Returns the time of a one-shot if it lies from `first` to `last`. Returns `None` if this
    /// version is not a one-shot.
    fn instant_within(&self, first: UnixMillis, last: UnixMillis) -> Option<UnixMillis> {
        let (timetable, first, last) = self.within(first, last)?;
        if timetable.is_one_shot() { timetable.latest_in(first, last) } else { None }
    }
}

impl ScheduleVersions {
    /// Creates the history of a job from its schedule versions, oldest first.
    pub fn new(versions: Vec<ScheduleVersion>) -> Self {
        Self(versions)
    }

    /// Creates the history of a job with a single schedule, which the job has had since `since`.
    pub fn of_one(timetable: Timetable, since: UnixMillis) -> Self {
        Self(vec![ScheduleVersion::new(Some(timetable), since, UnixMillis::LAST)])
    }

    /// Returns true if this history knows every occurrence after `first` up to `last`.
    pub fn covers(&self, first: UnixMillis, last: UnixMillis) -> bool {
        let reaches_back = self.0.iter().any(|version| version.from <= first);
        reaches_back
            && self.0.iter().all(|version| {
                version.timetable.is_some() || version.until <= first || last <= version.from
            })
    }

    /// Returns true if `at` is an occurrence of the job.
    pub fn has(&self, at: UnixMillis) -> bool {
        self.0.iter().any(|version| version.holds(at))
    }

    /// Returns the number of occurrences from `first` to `last`. The counting stops at `most`
    /// occurrences of each schedule version.
    pub fn count_up_to(&self, first: UnixMillis, last: UnixMillis, most: u32) -> u64 {
        let parts = self.0.iter().enumerate().filter_map(|(place, version)| {
            // The time of a one-shot may also be an occurrence of another version. Then only the
            // other version counts this occurrence.
            let replaces = |other: usize, version: &ScheduleVersion| {
                other > place || other < place && !version.is_one_shot()
            };
            let is_replaced = |at| {
                self.0
                    .iter()
                    .enumerate()
                    .any(|(other, version)| replaces(other, version) && version.holds(at))
            };
            if version.instant_within(first, last).is_some_and(is_replaced) {
                return None;
            }
            version
                .within(first, last)
                .map(|(timetable, first, last)| timetable.count_up_to(first, last, most))
        });
        parts.sum()
    }

    /// Returns the first occurrence after `from`, or `None`.
    pub fn next_after(&self, from: UnixMillis) -> Option<UnixMillis> {
        let next = |version: &ScheduleVersion| {
            let (timetable, first, last) = version.within(one_after(from), UnixMillis::LAST)?;
            timetable.next_after(first.saturating_sub(MOMENT)).filter(|next| *next <= last)
        };
        self.0.iter().filter_map(next).min()
    }

    /// Returns the latest occurrence from `first` to `last`, or `None`.
    pub fn latest_in(&self, first: UnixMillis, last: UnixMillis) -> Option<UnixMillis> {
        let latest = |version: &ScheduleVersion| {
            version
                .within(first, last)
                .and_then(|(timetable, first, last)| timetable.latest_in(first, last))
        };
        self.0.iter().filter_map(latest).max()
    }
}

const MOMENT: Duration = Duration::from_millis(1);

fn one_after(at: UnixMillis) -> UnixMillis {
    at.saturating_add(MOMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule_form::Schedule;
    use crate::time::zone::Zone;

    fn s(seconds: i64) -> UnixMillis {
        UnixMillis::new(seconds * 1000).unwrap()
    }

    fn version(schedule: Schedule, from: i64, until: i64) -> ScheduleVersion {
        ScheduleVersion::new(Some(Timetable::new(schedule, Zone::utc(), s(0))), s(from), s(until))
    }

    fn every(seconds: u64) -> Schedule {
        Schedule::Every(Duration::from_secs(seconds))
    }

    #[test]
    fn an_occurrence_is_one_of_the_schedule_that_held_at_its_instant() {
        let versions = ScheduleVersions::new(vec![
            version(every(10), 0, 50),
            version(every(7), 50, 80),
            version(every(10), 100, 1_000),
        ]);
        for (at, wanted) in [
            (0, false),
            (50, true),
            (56, true),
            (60, false),
            (77, true),
            (84, false),
            (100, false),
            (110, true),
        ] {
            assert_eq!(versions.has(s(at)), wanted, "{at}");
        }
        let count = |first: i64, last: i64| versions.count_up_to(s(first), s(last), 100);
        assert_eq!((count(0, 110), count(50, 63), count(81, 109)), (10, 3, 0));
        assert_eq!(
            (versions.next_after(s(77)), versions.next_after(s(50)), versions.next_after(s(1_000))),
            (Some(s(110)), Some(s(56)), None)
        );
        assert_eq!(
            (versions.latest_in(s(0), s(109)), versions.latest_in(s(78), s(100))),
            (Some(s(77)), None)
        );
    }

    #[test]
    fn what_is_older_than_the_first_or_of_a_schedule_nobody_knows_is_not_known() {
        let unknown = ScheduleVersion::new(None, s(50), s(80));
        let versions = ScheduleVersions::new(vec![
            version(every(10), 20, 50),
            unknown,
            version(Schedule::Delay(Duration::from_secs(5)), 80, 90),
        ]);
        let is_covered = |first: i64, last: i64| versions.covers(s(first), s(last));
        assert!(is_covered(20, 50) && is_covered(30, 40) && is_covered(90, 99));
        assert!(
            !is_covered(19, 30)
                && !is_covered(30, 51)
                && !is_covered(60, 70)
                && !is_covered(85, 95)
        );
        assert!(!ScheduleVersions::default().covers(s(0), s(1)));
    }

    #[test]
    fn the_instant_of_a_one_shot_counts_whenever_it_was_named_and_once() {
        let versions = ScheduleVersions::new(vec![
            version(every(10), 0, 50),
            version(Schedule::At(s(30)), 50, 60),
            version(Schedule::At(s(45)), 60, 99),
        ]);
        assert!(versions.has(s(45)) && versions.has(s(30)) && !versions.has(s(60)));
        assert_eq!(versions.count_up_to(s(1), s(99), 100), 6);
        // A one-shot that was replaced before its time has no occurrence.
        assert!(!ScheduleVersions::new(vec![version(Schedule::At(s(30)), 0, 20)]).has(s(30)));
    }
}
