//! The timetable of a job: its next occurrence, its latest occurrence, and the number of
//! occurrences in a range.
//!
//! Invariant: the occurrences are a fixed, strictly increasing list of instants, on which all
//! queries agree. An instant that two schedules share is a single occurrence. Instants before
//! `start`, after `end` or on excluded days are not occurrences.
//!
//! The cost of a query does not grow with the length of the range. Only counting takes longer, up
//! to [`Timetable::COUNTED`] occurrences.

mod meeting;
mod timetable_part;
#[cfg(test)]
mod timetable_tests;

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::day_sets::Filter;
use super::left_out::LeftOut;
use super::schedule_form::Schedule;
use super::schedule_modifiers::Shape;
use crate::time::unix_millis::UnixMillis;
use crate::time::zone::Zone;
use meeting::Meeting;
use timetable_part::{PartBeat, PartBeats, TimetablePart};

/// The occurrences of a job: its schedule with zone, anchor and modifiers.
#[derive(Debug, Clone)]
pub struct Timetable {
    schedule: Schedule,
    zone: Zone,
    parts: Vec<TimetablePart>,
    /// The first instant that may be an occurrence, a Unix time in ms. The field `last` is the last
    /// such instant.
    first: i64,
    last: i64,
    filter: Option<Filter>,
}

impl Timetable {
    /// The number of occurrences at which counting stops.
    pub const COUNTED: u32 = 100_000;

    /// The maximum number of jumps over excluded days in a search. A search cannot need more,
    /// because fewer days than this lie between 1970 and 2100.
    const MOST_JUMPS: u32 = 100_000;

    /// Creates the timetable of the occurrences of `schedule` in `zone`. `every` counts from
    /// `anchor`.
    pub fn new(schedule: Schedule, zone: Zone, anchor: UnixMillis) -> Self {
        let mut parts = Vec::new();
        TimetablePart::collect(
            &schedule,
            PartBeat { anchor: anchor.as_i64(), first: 1 },
            &mut parts,
        );
        Self { schedule, zone, parts, first: 0, last: UnixMillis::END - 1, filter: None }
    }

    /// Creates the timetable of the occurrences of `schedule` that the modifiers in `shape` allow.
    /// An anchor in `shape` replaces `anchor`, and is an occurrence itself.
    pub fn shaped(schedule: Schedule, shape: &Shape, zone: Zone, anchor: UnixMillis) -> Self {
        let mut timetable = Self::new(schedule, zone, anchor);
        if let Some(own) = shape.anchor {
            timetable.parts.clear();
            TimetablePart::collect(
                &timetable.schedule,
                PartBeat { anchor: own.as_i64(), first: 0 },
                &mut timetable.parts,
            );
        }
        timetable.first = shape.start.map_or(0, UnixMillis::as_i64);
        timetable.last = shape.end.map_or(UnixMillis::END - 1, UnixMillis::as_i64);
        timetable.filter = Filter::new(shape.only_on.clone(), shape.exclude.clone());
        timetable
    }

    /// Returns this timetable with only the first `most` occurrences after `from`. If `most` is
    /// above 10,000, the timetable stays as it is, because the search for the last occurrence would
    /// take too long.
    #[must_use]
    pub fn ending_after(mut self, from: UnixMillis, most: u32) -> Self {
        const CUT: u32 = 10_000;
        if most == 0 {
            self.last = from.as_i64();
        } else if most <= CUT
            && let Some(last) = self.from(from.as_i64() + 1).nth(most as usize - 1)
        {
            self.last = last.as_i64();
        }
        self
    }

    /// Returns true if the job is a one-shot: its schedule is `At`.
    pub fn is_one_shot(&self) -> bool {
        matches!(self.schedule, Schedule::At(_))
    }

    /// Returns true if the schedule decides the times of the runs. A job with a delay has no such
    /// times, because each run starts after the end of the previous run. Neither has a job with
    /// parents.
    pub fn has_times(&self) -> bool {
        !matches!(self.schedule, Schedule::Delay(_) | Schedule::After(_))
    }

    /// Returns the zone of the timetable.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Returns the parts of the timetable that follow a wall clock: a timetable for each zone,
    /// with the schedules of that zone.
    pub fn by_wall_clocks(&self) -> Vec<Self> {
        let mut tables: Vec<Self> = Vec::new();
        for part in &self.parts {
            let zone = match part {
                TimetablePart::Instants(_) | TimetablePart::Beats(_) => continue,
                TimetablePart::Cron(_) | TimetablePart::Rule(_) => &self.zone,
                TimetablePart::Calendar(expression) => expression.zone().unwrap_or(&self.zone),
            };
            match tables.iter_mut().find(|table| table.zone.name() == zone.name()) {
                Some(table) => table.parts.push(part.clone()),
                None => tables.push(Self {
                    zone: zone.clone(),
                    parts: vec![part.clone()],
                    ..self.clone()
                }),
            }
        }
        tables
    }

    /// Returns this timetable in UTC, without its start and end. UTC has no clock changes, so the
    /// result has each wall clock time of the schedule once.
    pub(crate) fn on_an_even_clock(&self) -> Self {
        let parts = self.parts.iter().map(TimetablePart::without_zone).collect();
        Self { zone: Zone::utc(), parts, first: 0, last: UnixMillis::END - 1, ..self.clone() }
    }

    /// Returns the first occurrence strictly after `from`. Returns `None` if no such occurrence
    /// comes before 2100.
    pub fn next_after(&self, from: UnixMillis) -> Option<UnixMillis> {
        self.from(from.as_i64() + 1).next()
    }

    /// Returns the first of all occurrences. Returns `None` if no occurrence comes before 2100.
    pub fn first(&self) -> Option<UnixMillis> {
        self.from(0).next()
    }

    /// Returns true if `start`, `end`, `only_on` and `exclude` allow a run at `at`. This check is
    /// for `@reboot` runs, which are not occurrences.
    pub fn lets(&self, at: UnixMillis) -> bool {
        let millis = at.as_i64();
        let is_allowed = self
            .filter
            .as_ref()
            .is_none_or(|filter| filter.left_out_by(&self.zone, millis).is_none());
        is_allowed && (self.first..=self.last).contains(&millis)
    }

    /// Returns the modifier, such as `exclude`, that keeps a time of the schedule from being an
    /// occurrence. Returns `None` if `at` is an occurrence, or if the schedule does not have the
    /// time `at`.
    pub fn left_out_by(&self, at: UnixMillis) -> Option<LeftOut> {
        let millis = at.as_i64();
        if !self.parts.iter().any(|part| part.first_from(&self.zone, millis) == Some(millis)) {
            return None;
        }
        if millis < self.first {
            return Some(LeftOut::Start);
        }
        if millis > self.last {
            return Some(LeftOut::End);
        }
        self.filter.as_ref()?.left_out_by(&self.zone, millis)
    }

    /// Returns the due time of the next run of a job that is applied or resumed at `now`. This is
    /// the first occurrence after `now`, or `now` plus the delay if the schedule is a delay.
    /// Returns `None` if there is no such occurrence.
    pub fn planted_after(&self, now: UnixMillis) -> Option<UnixMillis> {
        match &self.schedule {
            Schedule::Delay(delay) => Some(now.saturating_add(*delay)),
            _ => self.next_after(now),
        }
    }

    /// Returns the latest occurrence from `first` to `until`, both included, or `None`.
    pub fn latest_in(&self, first: UnixMillis, until: UnixMillis) -> Option<UnixMillis> {
        self.newest_in(first, until, 1)
    }

    /// Returns the number of occurrences from `first` to `until`, both included, at most
    /// [`Self::COUNTED`].
    pub fn count_in(&self, first: UnixMillis, until: UnixMillis) -> u64 {
        self.count_up_to(first, until, Self::COUNTED)
    }

    /// Returns the number of occurrences from `first` to `until`, both included, at most `most`.
    pub fn count_up_to(&self, first: UnixMillis, until: UnixMillis, most: u32) -> u64 {
        if let Some(beats) = self.beats_alone() {
            let (low, high) =
                beats.numbers_in(first.as_i64().max(self.first), until.as_i64().min(self.last));
            return u64::try_from(high - low + 1).unwrap_or(0).min(u64::from(most));
        }
        let within = self.from(first.as_i64()).take_while(|at| *at <= until);
        within.take(most as usize).fold(0, |count, _| count + 1)
    }

    /// Returns the oldest of the `at_most` newest occurrences from `first` to `until`, both
    /// included. Returns `None` if there are no occurrences, or if `at_most` is 0.
    pub fn newest_in(
        &self,
        first: UnixMillis,
        until: UnixMillis,
        at_most: u32,
    ) -> Option<UnixMillis> {
        let before = i64::from(at_most.checked_sub(1)?);
        if let Some(beats) = self.beats_alone() {
            let (low, high) =
                beats.numbers_in(first.as_i64().max(self.first), until.as_i64().min(self.last));
            return if low <= high {
                beats.number(low.max(high.saturating_sub(before)))
            } else {
                None
            };
        }
        let (first, until) = (first.as_i64(), until.as_i64().min(self.last));
        if first > until {
            return None;
        }
        let at_most = at_most as usize;
        let from = self.enough_from(first, until, at_most);
        let mut newest: VecDeque<UnixMillis> = VecDeque::new();
        for at in self.from(from).take_while(|at| at.as_i64() <= until) {
            if newest.len() == at_most {
                newest.pop_front();
            }
            newest.push_back(at);
        }
        newest.pop_front()
    }

    /// Returns an instant such that the range from it to `until` has at least `at_most`
    /// occurrences, but not many more. Returns `first` if the range has fewer occurrences. Each
    /// step of the search counts only up to a bound, so a long range is not slower.
    fn enough_from(&self, first: i64, until: i64, at_most: usize) -> i64 {
        let most = at_most.saturating_mul(2).saturating_add(16);
        let count =
            |from: i64| self.from(from).take_while(|at| at.as_i64() <= until).take(most).count();
        let (mut enough, mut too_few, mut width) = (until, until + 1, 1_000);
        let mut found = count(enough);
        while found < at_most && enough > first {
            too_few = enough;
            enough = until.saturating_sub(width).max(first);
            width = width.saturating_mul(2);
            found = count(enough);
        }
        while found >= most && too_few - enough > 1 {
            let middle = enough + (too_few - enough) / 2;
            let there = count(middle);
            if there >= at_most {
                (enough, found) = (middle, there);
            } else {
                too_few = middle;
            }
        }
        enough
    }

    /// Returns the occurrences from `millis` on, the oldest first.
    fn from(&self, millis: i64) -> Occurrences<'_> {
        let from = millis.max(self.first);
        let heads =
            self.parts.iter().map(|part| (part, part.first_from(&self.zone, from))).collect();
        Occurrences { table: self, heads, jumps: 0, meeting: None }
    }

    fn beats_alone(&self) -> Option<&PartBeats> {
        match self.parts.as_slice() {
            [TimetablePart::Beats(beats)] if self.filter.is_none() => Some(beats),
            _ => None,
        }
    }
}

/// An iterator over the occurrences from an instant on, the oldest first. It keeps the next instant
/// of each schedule and yields the earliest instant that counts.
struct Occurrences<'a> {
    table: &'a Timetable,
    heads: Vec<(&'a TimetablePart, Option<i64>)>,
    /// The number of jumps over excluded instants since the last yielded occurrence.
    jumps: u32,
    meeting: Option<Meeting<'a>>,
}

impl Occurrences<'_> {
    /// The number of jumps over excluded instants after which [`Meeting`] finds the next day,
    /// because that search is then cheaper than further jumps.
    const PLAIN_JUMPS: u32 = 16;

    /// Moves each schedule whose next instant is before `millis` on to its first instant from
    /// `millis` on.
    fn advance(&mut self, millis: i64) {
        for (part, head) in
            self.heads.iter_mut().filter(|(_, head)| head.is_some_and(|at| at < millis))
        {
            *head = part.first_from(&self.table.zone, millis);
        }
    }
}

impl Iterator for Occurrences<'_> {
    type Item = UnixMillis;

    fn next(&mut self) -> Option<UnixMillis> {
        loop {
            let at = self
                .heads
                .iter()
                .filter_map(|(_, head)| *head)
                .min()
                .filter(|at| *at <= self.table.last)?;
            let counts_from = match &self.table.filter {
                Some(filter) => filter.first_allowed(&self.table.zone, at)?,
                None => at,
            };
            if counts_from == at {
                self.advance(at + 1);
                self.jumps = 0;
                return UnixMillis::new(at);
            }
            self.jumps += 1;
            if self.jumps > Timetable::MOST_JUMPS {
                return None;
            }
            let may_come_from = match &self.table.filter {
                Some(filter) if self.jumps > Self::PLAIN_JUMPS => self
                    .meeting
                    .get_or_insert_with(|| {
                        Meeting::new(&self.table.zone, &self.table.parts, filter)
                    })
                    .from(counts_from)?,
                _ => counts_from,
            };
            self.advance(may_come_from);
        }
    }
}

/// Formats the number of occurrences in a skipped range. Counting stops at 100,000, so a larger
/// number is reported as `at least 100,000` or `more than 100,000`.
pub fn skipped_count(count: u64) -> String {
    match count.cmp(&u64::from(Timetable::COUNTED)) {
        Ordering::Less => count.to_string(),
        Ordering::Equal => "at least 100,000".to_owned(),
        Ordering::Greater => "more than 100,000".to_owned(),
    }
}
