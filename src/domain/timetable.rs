//! The stream of a job's occurrences: what is next, what was last, how many there were in a stretch.
//!
//! Invariant: the occurrences are one fixed, strictly increasing set of instants (an instant two schedules share is one
//! occurrence; what a window or excluded days take out is none), and every answer is about that set. `every` alone is
//! arithmetic; nothing costs more for a longer stretch, except counting, which stops at [`Timetable::COUNTED`].

mod meeting;
mod part;

use std::collections::VecDeque;

use self::meeting::Meeting;
use self::part::{Beat, Beats, Part};
use super::days::Filter;
use super::schedule::Schedule;
use super::shape::Shape;
use super::time::UnixMillis;
use super::zone::Zone;

/// A schedule in its zone, counted from its anchor: the stream of a job's occurrences.
#[derive(Debug, Clone)]
pub struct Timetable {
    schedule: Schedule,
    zone: Zone,
    parts: Vec<Part>,
    /// Nothing before this counts, and nothing after `last`.
    first: i64,
    last: i64,
    filter: Option<Filter>,
}

impl Timetable {
    /// Up to how many occurrences are counted.
    pub const COUNTED: u32 = 100_000;

    /// How often what lies in excluded days is jumped over before the search gives up: more than there are days.
    const MOST_JUMPS: u32 = 100_000;

    /// The occurrences of `schedule` in `zone`; `every` counts from `anchor`.
    pub fn new(schedule: Schedule, zone: Zone, anchor: UnixMillis) -> Self {
        let mut parts = Vec::new();
        Part::collect(&schedule, Beat { anchor: anchor.as_i64(), first: 1 }, &mut parts);
        Self { schedule, zone, parts, first: 0, last: UnixMillis::END - 1, filter: None }
    }

    /// The occurrences of `schedule` within what `shape` leaves of them. An anchor of its own is an occurrence itself.
    pub fn shaped(schedule: Schedule, shape: &Shape, zone: Zone, anchor: UnixMillis) -> Self {
        let mut timetable = Self::new(schedule, zone, anchor);
        if let Some(own) = shape.anchor {
            timetable.parts.clear();
            Part::collect(&timetable.schedule, Beat { anchor: own.as_i64(), first: 0 }, &mut timetable.parts);
        }
        timetable.first = shape.start.map_or(0, UnixMillis::as_i64);
        timetable.last = shape.end.map_or(UnixMillis::END - 1, UnixMillis::as_i64);
        timetable.filter = Filter::new(shape.only_on.clone(), shape.exclude.clone());
        timetable
    }

    /// The same without what comes behind the first `most` occurrences after `from`; of more than 10,000 nothing is cut.
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

    /// Whether it has one occurrence in all.
    pub fn is_one_shot(&self) -> bool {
        matches!(self.schedule, Schedule::At(_))
    }

    /// Whether its occurrences come at times it tells; those of a job with a delay come at the end of its runs.
    pub fn has_times(&self) -> bool {
        !matches!(self.schedule, Schedule::Delay(_))
    }

    /// The zone it is in.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// What of it goes by a wall clock: for each zone the schedules that are read there, in that zone.
    pub(in crate::domain) fn by_wall_clocks(&self) -> Vec<Self> {
        let mut tables: Vec<Self> = Vec::new();
        for part in &self.parts {
            let zone = match part {
                Part::Instants(_) | Part::Beats(_) => continue,
                Part::Cron(_) | Part::Rule(_) => &self.zone,
                Part::Calendar(expression) => expression.zone().unwrap_or(&self.zone),
            };
            match tables.iter_mut().find(|table| table.zone.name() == zone.name()) {
                Some(table) => table.parts.push(part.clone()),
                None => tables.push(Self { zone: zone.clone(), parts: vec![part.clone()], ..self.clone() }),
            }
        }
        tables
    }

    /// The same on a wall clock that is never changed, as if that were UTC.
    pub(in crate::domain) fn on_an_even_clock(&self) -> Self {
        let parts = self.parts.iter().map(Part::without_zone).collect();
        Self { zone: Zone::utc(), parts, first: 0, last: UnixMillis::END - 1, ..self.clone() }
    }

    /// The first occurrence strictly after `from`; none if there is none before 2100.
    pub fn next_after(&self, from: UnixMillis) -> Option<UnixMillis> {
        self.from(from.as_i64() + 1).next()
    }

    /// The first occurrence of all.
    pub fn first(&self) -> Option<UnixMillis> {
        self.from(0).next()
    }

    /// Whether its window and days let anything start at `at` that comes at no time of a clock.
    pub fn lets(&self, at: UnixMillis) -> bool {
        let millis = at.as_i64();
        let is_allowed = self.filter.as_ref().is_none_or(|filter| filter.left_out_by(&self.zone, millis).is_none());
        is_allowed && (self.first..=self.last).contains(&millis)
    }

    /// What keeps `at` from being an occurrence although its schedule names it; none if it is one, or is named nowhere.
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

    /// What a job that is applied or resumed at `now` runs next: its first occurrence after that. The runs of a job with a
    /// delay are no occurrences, but planted at the end of the run before: its first is so long after `now`.
    pub fn planted_after(&self, now: UnixMillis) -> Option<UnixMillis> {
        match &self.schedule {
            Schedule::Delay(delay) => Some(now.saturating_add(*delay)),
            _ => self.next_after(now),
        }
    }

    /// The newest occurrence within `[first, until]`.
    pub fn latest_in(&self, first: UnixMillis, until: UnixMillis) -> Option<UnixMillis> {
        self.newest_in(first, until, 1)
    }

    /// How many occurrences lie within `[first, until]`; exact up to [`Self::COUNTED`] and held there.
    pub fn count_in(&self, first: UnixMillis, until: UnixMillis) -> u64 {
        self.count_up_to(first, until, Self::COUNTED)
    }

    /// How many occurrences lie within `[first, until]`; exact up to `most` and held there.
    pub fn count_up_to(&self, first: UnixMillis, until: UnixMillis, most: u32) -> u64 {
        if let Some(beats) = self.beats_alone() {
            let (low, high) = beats.numbers_in(first.as_i64().max(self.first), until.as_i64().min(self.last));
            return u64::try_from(high - low + 1).unwrap_or(0).min(u64::from(most));
        }
        let within = self.from(first.as_i64()).take_while(|at| *at <= until);
        within.take(most as usize).fold(0, |count, _| count + 1)
    }

    /// The occurrence from which on at most `at_most` occurrences lie within `[first, until]`, the oldest such; none if
    /// there are none, or `at_most` is 0.
    pub fn newest_in(&self, first: UnixMillis, until: UnixMillis, at_most: u32) -> Option<UnixMillis> {
        let before = i64::from(at_most.checked_sub(1)?);
        if let Some(beats) = self.beats_alone() {
            let (low, high) = beats.numbers_in(first.as_i64().max(self.first), until.as_i64().min(self.last));
            return if low <= high { beats.number(low.max(high.saturating_sub(before))) } else { None };
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

    /// An instant from which on there are at least `at_most` occurrences up to `until`, and not many more; `first` if there are
    /// fewer. Each look counts so far only, so that it costs the same whatever it looks back on.
    fn enough_from(&self, first: i64, until: i64, at_most: usize) -> i64 {
        let most = at_most.saturating_mul(2).saturating_add(16);
        let count = |from: i64| self.from(from).take_while(|at| at.as_i64() <= until).take(most).count();
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

    /// The occurrences at or after `millis`, oldest first.
    fn from(&self, millis: i64) -> Occurrences<'_> {
        let from = millis.max(self.first);
        let heads = self.parts.iter().map(|part| (part, part.first_from(&self.zone, from))).collect();
        Occurrences { table: self, heads, jumps: 0, meeting: None }
    }

    fn beats_alone(&self) -> Option<&Beats> {
        match self.parts.as_slice() {
            [Part::Beats(beats)] if self.filter.is_none() => Some(beats),
            _ => None,
        }
    }
}

/// What leaves an instant of a schedule out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// It lies before `start`.
    Start,
    /// It lies after `end`, or behind the last of `max_runs`.
    End,
    /// Its day is none of `only_on`.
    OnlyOn,
    /// Its day is one of `exclude`.
    Exclude,
}

impl LeftOut {
    /// The key that says so.
    pub fn key(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::OnlyOn => "only_on",
            Self::Exclude => "exclude",
        }
    }
}

/// The occurrences from an instant on, oldest first: each schedule's next, of which the earliest that counts is given out.
struct Occurrences<'a> {
    table: &'a Timetable,
    heads: Vec<(&'a Part, Option<i64>)>,
    /// How often the schedules were moved on since the last that counted.
    jumps: u32,
    meeting: Option<Meeting<'a>>,
}

impl Occurrences<'_> {
    /// So many times it is cheaper to try the next than to look where the schedules and the days meet.
    const PLAIN_JUMPS: u32 = 16;

    /// Moves every schedule that is before `millis` on to it.
    fn advance(&mut self, millis: i64) {
        for (part, head) in self.heads.iter_mut().filter(|(_, head)| head.is_some_and(|at| at < millis)) {
            *head = part.first_from(&self.table.zone, millis);
        }
    }
}

impl Iterator for Occurrences<'_> {
    type Item = UnixMillis;

    fn next(&mut self) -> Option<UnixMillis> {
        loop {
            let at = self.heads.iter().filter_map(|(_, head)| *head).min().filter(|at| *at <= self.table.last)?;
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
                Some(filter) if self.jumps > Self::PLAIN_JUMPS => {
                    self.meeting.get_or_insert_with(|| Meeting::new(self.table, filter)).from(counts_from)?
                }
                _ => counts_from,
            };
            self.advance(may_come_from);
        }
    }
}

#[cfg(test)]
mod tests;
