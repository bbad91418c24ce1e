//! The stream of a job's occurrences: what is next, what was last, how many there were in a stretch.
//!
//! Invariant: the occurrences are one fixed, strictly increasing set of instants (an instant two schedules share is one
//! occurrence; what a window or excluded days take out is none), and every answer is about that set. `every` alone is
//! arithmetic; nothing costs more for a longer stretch, except counting, which stops at [`Timetable::COUNTED`].

use std::collections::VecDeque;

use super::calendar::CalendarExpr;
use super::cron::CronExpr;
use super::days::Filter;
use super::recurrence::Recurrence;
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

    /// The zone it is in.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The same schedule read on a wall clock that is never changed, as if that were UTC; none for one that goes by real time.
    pub(in crate::domain) fn on_the_wall(&self) -> Option<Self> {
        let is_on_it = |part: &Part| match part {
            Part::Instants(_) | Part::Beats(_) => false,
            Part::Cron(_) | Part::Rule(_) => true,
            Part::Calendar(expression) => expression.zone().is_none(),
        };
        let are_all = !self.parts.is_empty() && self.parts.iter().all(is_on_it);
        are_all.then(|| Self { zone: Zone::utc(), first: 0, last: UnixMillis::END - 1, ..self.clone() })
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
        if let Some(beats) = self.beats_alone() {
            let (low, high) = beats.numbers_in(first.as_i64().max(self.first), until.as_i64().min(self.last));
            return u64::try_from(high - low + 1).unwrap_or(0).min(u64::from(Self::COUNTED));
        }
        let within = self.from(first.as_i64()).take_while(|at| *at <= until);
        within.take(Self::COUNTED as usize).fold(0, |count, _| count + 1)
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
        Occurrences { table: self, heads, jumps: 0 }
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

/// One of the schedules a job's occurrences come from.
#[derive(Debug, Clone)]
enum Part {
    /// In order.
    Instants(Vec<i64>),
    Beats(Beats),
    Cron(CronExpr),
    Calendar(CalendarExpr),
    Rule(Recurrence),
}

/// Where `every` counts from: its instants are anchor + k * period, k at least `first`.
#[derive(Clone, Copy)]
struct Beat {
    anchor: i64,
    first: i64,
}

impl Part {
    fn collect(schedule: &Schedule, beat: Beat, parts: &mut Vec<Self>) {
        match schedule {
            Schedule::Manual | Schedule::Delay(_) => {}
            Schedule::At(at) => parts.push(Self::Instants(vec![at.as_i64()])),
            Schedule::Instants(list) => parts.push(Self::Instants(list.iter().map(|at| at.as_i64()).collect())),
            Schedule::Every(period) => parts.extend(Beats::new(*period, beat).map(Self::Beats)),
            Schedule::Cron(list) => parts.extend(list.iter().cloned().map(Self::Cron)),
            Schedule::Calendar(list) => parts.extend(list.iter().cloned().map(Self::Calendar)),
            Schedule::Rules(list) => parts.extend(list.iter().cloned().map(Self::Rule)),
            Schedule::Several(list) => list.iter().for_each(|one| Self::collect(one, beat, parts)),
        }
    }

    /// Its first instant at or after `millis`.
    fn first_from(&self, zone: &Zone, millis: i64) -> Option<i64> {
        // Rounded up to the whole second.
        let second = millis.div_euclid(1_000) + i64::from(millis.rem_euclid(1_000) > 0);
        let found = match self {
            Self::Instants(list) => return list.get(list.partition_point(|at| *at < millis)).copied(),
            Self::Beats(beats) => return beats.number(beats.first_number(millis)).map(UnixMillis::as_i64),
            Self::Cron(expr) => expr.first_from(zone, second),
            Self::Calendar(expr) => expr.first_from(zone, second),
            Self::Rule(rule) => rule.first_from(zone, second),
        };
        found.and_then(|second| second.checked_mul(1_000)).filter(|at| *at < UnixMillis::END)
    }
}

/// Instants in beats of a period, in milliseconds.
#[derive(Debug, Clone)]
struct Beats {
    anchor: i64,
    period: i64,
    first: i64,
}

impl Beats {
    fn new(period: std::time::Duration, beat: Beat) -> Option<Self> {
        // A period past the end of time never comes; one below a millisecond is held at one.
        let period = i64::try_from(period.as_millis()).ok().filter(|period| *period < UnixMillis::END)?.max(1);
        Some(Self { anchor: beat.anchor, period, first: beat.first })
    }

    fn number(&self, k: i64) -> Option<UnixMillis> {
        k.checked_mul(self.period)?.checked_add(self.anchor).and_then(UnixMillis::new)
    }

    /// The first k whose instant is not before `millis`.
    fn first_number(&self, millis: i64) -> i64 {
        let distance = millis - self.anchor;
        (distance.div_euclid(self.period) + i64::from(distance.rem_euclid(self.period) > 0)).max(self.first)
    }

    /// The first and last k whose instants lie within; the last is below the first if none does.
    fn numbers_in(&self, first: i64, until: i64) -> (i64, i64) {
        (self.first_number(first), (until - self.anchor).div_euclid(self.period))
    }
}

/// The occurrences from an instant on, oldest first: each schedule's next, of which the earliest that counts is given out.
struct Occurrences<'a> {
    table: &'a Timetable,
    heads: Vec<(&'a Part, Option<i64>)>,
    jumps: u32,
}

impl Occurrences<'_> {
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
            self.advance(counts_from);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::domain::days::{DayItem, Days};
    use crate::domain::zone::ZoneName;

    fn at(text: &str) -> UnixMillis {
        UnixMillis::from_timestamp(text.parse().unwrap()).unwrap()
    }

    fn ms(millis: i64) -> UnixMillis {
        UnixMillis::new(millis).unwrap()
    }

    fn zone(name: &str) -> Zone {
        Zone::load(&name.parse::<ZoneName>().unwrap()).unwrap()
    }

    fn cron(exprs: &[&str], zone_name: &str) -> Timetable {
        let list = exprs.iter().map(|expr| expr.parse().unwrap()).collect();
        Timetable::new(Schedule::Cron(list), zone(zone_name), ms(0))
    }

    fn every(period: Duration, anchor: i64) -> Timetable {
        Timetable::new(Schedule::Every(period), Zone::utc(), ms(anchor))
    }

    #[test]
    fn a_manual_job_never_comes_and_a_one_shot_comes_once() {
        let manual = Timetable::new(Schedule::Manual, Zone::utc(), ms(0));
        assert_eq!((manual.next_after(ms(0)), manual.latest_in(ms(0), ms(9))), (None, None));
        let once = Timetable::new(Schedule::At(ms(5_000)), Zone::utc(), ms(0));
        assert_eq!((once.next_after(ms(4_999)), once.next_after(ms(5_000))), (Some(ms(5_000)), None));
        assert_eq!((once.latest_in(ms(5_000), ms(5_000)), once.count_in(ms(0), ms(5_000))), (Some(ms(5_000)), 1));
        assert_eq!((once.latest_in(ms(0), ms(4_999)), once.count_in(ms(5_001), ms(9_000))), (None, 0));
    }

    #[test]
    fn what_leaves_a_time_out_is_told_and_what_the_schedule_does_not_name_is_left_out_by_nothing() {
        let days = |text: &str| Days::of([text.parse().unwrap()]);
        let shape = Shape {
            start: Some(at("2026-12-20T00:00:00Z")),
            end: Some(at("2026-12-30T00:00:00Z")),
            exclude: days("2026-12-24"),
            only_on: Some(days("mon..fri")),
            ..Shape::default()
        };
        let daily = Schedule::Cron(vec!["0 9 * * *".parse().unwrap()]);
        let table = Timetable::shaped(daily, &shape, zone("UTC"), ms(0));
        for (text, by) in [
            ("2026-12-19T09:00:00Z", Some(LeftOut::Start)),
            ("2026-12-20T09:00:00Z", Some(LeftOut::OnlyOn)),
            ("2026-12-23T09:00:00Z", None),
            ("2026-12-24T09:00:00Z", Some(LeftOut::Exclude)),
            ("2026-12-24T09:00:01Z", None),
            ("2026-12-31T09:00:00Z", Some(LeftOut::End)),
        ] {
            assert_eq!(table.left_out_by(at(text)), by, "{text}");
            assert_eq!(table.lets(at(text)), by.is_none() && !text.contains("-24T"), "{text}");
        }
    }

    #[test]
    fn every_counts_from_its_anchor_and_never_hits_it() {
        let table = every(Duration::from_secs(30), 1_000);
        assert_eq!(table.next_after(ms(0)), Some(ms(31_000)));
        assert_eq!(table.next_after(ms(1_000)), Some(ms(31_000)));
        assert_eq!(table.next_after(ms(31_000)), Some(ms(61_000)));
        assert_eq!(table.latest_in(ms(0), ms(90_999)), Some(ms(61_000)));
        assert_eq!(table.latest_in(ms(61_001), ms(90_999)), None);
        assert_eq!((table.count_in(ms(0), ms(1_000)), table.count_in(ms(31_000), ms(91_000))), (0, 3));
        assert_eq!(table.newest_in(ms(0), ms(301_000), 3), Some(ms(241_000)));
        assert_eq!(table.newest_in(ms(0), ms(61_000), 3), Some(ms(31_000)));
        assert_eq!(table.newest_in(ms(0), ms(61_000), 0), None);
    }

    #[test]
    fn every_stops_before_2100_whatever_its_period() {
        let end = ms(UnixMillis::END - 1);
        assert_eq!(every(Duration::from_secs(1), 0).next_after(end), None);
        assert_eq!(every(Duration::MAX, 7).next_after(ms(0)), None);
        assert_eq!(every(Duration::ZERO, 7).next_after(ms(7)), Some(ms(8)));
        assert_eq!(every(Duration::from_secs(1), 0).count_in(ms(0), end), u64::from(Timetable::COUNTED));
        assert_eq!(every(Duration::from_secs(86_400), UnixMillis::END - 1).latest_in(ms(0), end), None);
    }

    #[test]
    fn a_cron_occurrence_is_a_whole_second_strictly_after_the_millisecond_asked_from() {
        let table = cron(&["* * * * *"], "UTC");
        assert_eq!(table.next_after(ms(59_999)), Some(ms(60_000)));
        assert_eq!(table.next_after(ms(60_000)), Some(ms(120_000)));
        assert_eq!(table.next_after(ms(60_001)), Some(ms(120_000)));
        assert_eq!(table.latest_in(ms(60_001), ms(119_999)), None);
        assert_eq!(table.latest_in(ms(60_000), ms(119_999)), Some(ms(60_000)));
        assert_eq!(table.next_after(ms(UnixMillis::END - 1)), None);
    }

    #[test]
    fn a_list_is_one_ordered_stream_in_which_a_shared_instant_counts_once() {
        let table = cron(&["0 9 * * *", "*/30 9 * * *"], "Europe/Berlin");
        let (first, until) = (at("2026-06-01T00:00:00Z"), at("2026-06-02T23:00:00Z"));
        assert_eq!(table.count_in(first, until), 4);
        assert_eq!(table.next_after(first), Some(at("2026-06-01T07:00:00Z")));
        assert_eq!(table.next_after(at("2026-06-01T07:00:00Z")), Some(at("2026-06-01T07:30:00Z")));
        assert_eq!(table.latest_in(first, until), Some(at("2026-06-02T07:30:00Z")));
        assert_eq!(table.newest_in(first, until, 2), Some(at("2026-06-02T07:00:00Z")));
        assert_eq!(table.newest_in(first, until, 99), Some(at("2026-06-01T07:00:00Z")));
    }

    #[test]
    fn the_newest_of_thirty_years_costs_no_more_than_of_a_day() {
        let (first, until) = (at("2000-01-01T00:00:00Z"), at("2030-01-01T00:00:30.500Z"));
        for (expr, wanted) in [
            ("* * * * *", "2030-01-01T00:00:00Z"),
            ("* * * * * *", "2030-01-01T00:00:30Z"),
            ("0 0 29 2 *", "2028-02-28T23:00:00Z"),
            ("* * * * * * 2003", "2003-12-31T22:59:59Z"),
            ("0 0 1 1 * ", "2029-12-31T23:00:00Z"),
        ] {
            let table = cron(&[expr], "Europe/Berlin");
            let started = Instant::now();
            assert_eq!(table.latest_in(first, until), Some(at(wanted)), "{expr}");
            // Stepping through the shortest of these would take thousands of times as long as the bound.
            assert!(started.elapsed() < Duration::from_millis(100), "{expr} took {:?}", started.elapsed());
        }
    }

    #[test]
    fn a_long_stretch_is_counted_up_to_the_cap() {
        let table = cron(&["* * * * *"], "America/New_York");
        let first = at("2026-01-01T05:00:00Z");
        assert_eq!(table.count_in(first, at("2026-12-31T04:59:59Z")), u64::from(Timetable::COUNTED));
        assert_eq!(table.count_in(first, at("2026-03-01T04:59:59Z")), 59 * 1440);
        assert_eq!(table.count_in(first, at("2026-01-01T04:00:00Z")), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]
        #[test]
        fn counting_and_both_directions_agree(
            minute in 0..60_u8, step in 1..31_u8, hour in 0..24_u8, start in 0..700_000_i64, length in 0..300_000_i64, at_most in 1..40_u32,
        ) {
            let table = cron(&[&format!("*/{step} * * * *"), &format!("{minute} {hour} * * 1-5")], "Australia/Lord_Howe");
            // Around the end of daylight saving on 2026-04-04 and further.
            let first = ms((1_775_000_000 + start) * 1000 + 7);
            let until = ms(first.as_i64() + length * 1000);
            let mut all: Vec<UnixMillis> = Vec::new();
            let mut from = ms(first.as_i64() - 1);
            while let Some(next) = table.next_after(from).filter(|next| *next <= until) {
                prop_assert!(next > from);
                all.push(next);
                from = next;
            }
            prop_assert_eq!(table.count_in(first, until), all.len() as u64);
            prop_assert_eq!(table.latest_in(first, until), all.last().copied());
            let oldest = all.len().saturating_sub(at_most as usize);
            prop_assert_eq!(table.newest_in(first, until, at_most), all.get(oldest).copied());
        }
    }

    #[test]
    fn a_shaped_mixture_agrees_with_a_walk_over_every_second() {
        let mut random = fastrand::Rng::with_seed(4);
        let begin = 1_790_000_000;
        let day = begin / 86_400;
        for round in 0..120 {
            let (step, part, period) = (random.i64(1..60), random.i64(1..30), random.i64(60..900));
            let (anchor, instant) = (begin + random.i64(-5_000..5_000), begin + random.i64(0..100_000));
            let (from, to) = (begin + random.i64(-1_000..40_000), begin + random.i64(40_000..200_000));
            let (gone, span) = (random.i64(0..7), begin + random.i64(0..100_000));
            let millis = |second: i64| ms(second * 1_000);
            let schedule = Schedule::Several(vec![
                Schedule::Cron(vec![format!("*/{step} * * * *").parse().unwrap()]),
                Schedule::Calendar(vec![format!("*:0/{part}:30").parse().unwrap()]),
                Schedule::Every(Duration::from_secs(period.unsigned_abs())),
                Schedule::Instants(vec![millis(instant)]),
            ]);
            let out = DayItem::Span(millis(span), millis(span + 7_000));
            let shape = Shape {
                anchor: Some(millis(anchor)),
                start: Some(millis(from)),
                end: Some(millis(to)),
                exclude: Days::of([DayItem::Weekdays(1 << gone), out, DayItem::Dates(day + 1, day + 1)]),
                ..Shape::default()
            };
            let table = Timetable::shaped(schedule, &shape, Zone::utc(), ms(0));
            let is_one = |at: i64| {
                let (minute, second, number) = (at / 60 % 60, at % 60, at / 86_400);
                let comes = second == 0 && minute % step == 0
                    || second == 30 && minute % part == 0
                    || at >= anchor && (at - anchor) % period == 0
                    || at == instant;
                let is_out = (number + 3) % 7 == gone || (span..span + 7_000).contains(&at) || number == day + 1;
                comes && (from..=to).contains(&at) && !is_out
            };
            let walked: Vec<UnixMillis> = (begin..begin + 250_000).filter(|at| is_one(*at)).map(millis).collect();
            let (first, until) = (millis(begin), millis(begin + 249_999));
            let found: Vec<UnixMillis> =
                std::iter::successors(table.next_after(ms(first.as_i64() - 1)), |at| table.next_after(*at)).collect();
            assert_eq!(found, walked, "{round}");
            assert_eq!(table.count_in(first, until), walked.len() as u64);
            for most in [1, 3, 50, 100_000] {
                let oldest = walked.len().saturating_sub(most as usize);
                assert_eq!(table.newest_in(first, until, most), walked.get(oldest).copied(), "{round} {most}");
            }
            let cut = table.ending_after(ms(first.as_i64() - 1), 3);
            assert_eq!(cut.count_in(first, until), 3.min(walked.len() as u64));
        }
    }
}
