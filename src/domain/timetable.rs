//! The stream of a job's occurrences: what is next, what was last, how many there were in a stretch.
//!
//! Invariant: the occurrences are one fixed, strictly increasing set of instants (an instant two expressions share is one
//! occurrence), and every answer is about that set. `every` is arithmetic; a cron list is merged from both ends; nothing
//! costs more for a longer stretch, except counting, which stops at [`Timetable::COUNTED`].

use super::cron::CronExpr;
use super::schedule::Schedule;
use super::time::UnixMillis;
use super::zone::Zone;

/// How far back an expression's last occurrence is looked for first, in seconds.
const FIRST_GUESS: i64 = 3_600;

/// A schedule in its zone, counted from its anchor: the stream of a job's occurrences.
#[derive(Debug, Clone)]
pub struct Timetable {
    schedule: Schedule,
    zone: Zone,
    anchor: UnixMillis,
}

impl Timetable {
    /// Up to how many occurrences are counted.
    pub const COUNTED: u32 = 100_000;

    /// The occurrences of `schedule` in `zone`; `every` counts from `anchor`.
    pub fn new(schedule: Schedule, zone: Zone, anchor: UnixMillis) -> Self {
        Self { schedule, zone, anchor }
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
        match &self.schedule {
            Schedule::Cron(_) => Some(Self { zone: Zone::utc(), ..self.clone() }),
            Schedule::Manual | Schedule::At(_) | Schedule::Every(_) => None,
        }
    }

    /// The first occurrence strictly after `from`; none if there is none before 2100.
    pub fn next_after(&self, from: UnixMillis) -> Option<UnixMillis> {
        match &self.schedule {
            Schedule::Manual => None,
            Schedule::At(at) => Some(*at).filter(|at| *at > from),
            Schedule::Every(_) => self.beats()?.from(from.as_i64() + 1),
            Schedule::Cron(list) => {
                let second = from.as_i64() / 1000 + 1;
                list.iter().filter_map(|expr| expr.first_from(&self.zone, second)).min().and_then(of_second)
            }
        }
    }

    /// The newest occurrence within `[first, until]`.
    pub fn latest_in(&self, first: UnixMillis, until: UnixMillis) -> Option<UnixMillis> {
        self.newest_in(first, until, 1)
    }

    /// How many occurrences lie within `[first, until]`; exact up to [`Self::COUNTED`] and held there.
    pub fn count_in(&self, first: UnixMillis, until: UnixMillis) -> u64 {
        let count = match &self.schedule {
            Schedule::Manual => 0,
            Schedule::At(at) => u64::from((first..=until).contains(at)),
            Schedule::Every(_) => self
                .beats()
                .and_then(|beats| beats.numbers_in(first, until))
                .map_or(0, |(low, high)| u64::try_from(high - low + 1).unwrap_or(0)),
            Schedule::Cron(list) => {
                let (first, until) = whole_seconds(first, until);
                let within = Forwards::new(list, &self.zone, first).take_while(|at| *at <= until);
                return within.take(Self::COUNTED as usize).fold(0, |count, _| count + 1);
            }
        };
        count.min(u64::from(Self::COUNTED))
    }

    /// The occurrence from which on at most `at_most` occurrences lie within `[first, until]`, the oldest such; none if
    /// there are none, or `at_most` is 0.
    pub fn newest_in(&self, first: UnixMillis, until: UnixMillis, at_most: u32) -> Option<UnixMillis> {
        let at_most_before = i64::from(at_most.checked_sub(1)?);
        match &self.schedule {
            Schedule::Manual => None,
            Schedule::At(at) => Some(*at).filter(|at| (first..=until).contains(at)),
            Schedule::Every(_) => {
                let beats = self.beats()?;
                let (low, high) = beats.numbers_in(first, until)?;
                beats.number(low.max(high.saturating_sub(at_most_before)))
            }
            Schedule::Cron(list) => {
                let (first, until) = whole_seconds(first, until);
                Backwards::new(list, &self.zone, first, until).take(at_most as usize).last().and_then(of_second)
            }
        }
    }

    fn beats(&self) -> Option<Beats> {
        let Schedule::Every(period) = &self.schedule else { return None };
        // A period past the end of time never comes; one below a millisecond is held at one.
        let period = i64::try_from(period.as_millis()).ok().filter(|period| *period < UnixMillis::END)?.max(1);
        Some(Beats { anchor: self.anchor.as_i64(), period })
    }
}

/// The instants anchor + k * period, k >= 1, in milliseconds.
struct Beats {
    anchor: i64,
    period: i64,
}

impl Beats {
    fn number(&self, k: i64) -> Option<UnixMillis> {
        k.checked_mul(self.period)?.checked_add(self.anchor).and_then(UnixMillis::new)
    }

    /// The first k whose instant is not before `millis`.
    fn first_number(&self, millis: i64) -> i64 {
        let distance = millis - self.anchor;
        (distance.div_euclid(self.period) + i64::from(distance.rem_euclid(self.period) > 0)).max(1)
    }

    fn from(&self, millis: i64) -> Option<UnixMillis> {
        self.number(self.first_number(millis))
    }

    /// The first and last k whose instants lie within; none if none does.
    fn numbers_in(&self, first: UnixMillis, until: UnixMillis) -> Option<(i64, i64)> {
        let low = self.first_number(first.as_i64());
        let high = (until.as_i64() - self.anchor).div_euclid(self.period);
        (low <= high).then_some((low, high))
    }
}

/// The whole seconds within `[first, until]`.
fn whole_seconds(first: UnixMillis, until: UnixMillis) -> (i64, i64) {
    ((first.as_i64() + 999) / 1000, until.as_i64() / 1000)
}

fn of_second(second: i64) -> Option<UnixMillis> {
    second.checked_mul(1000).and_then(UnixMillis::new)
}

/// The seconds at which any of a list of expressions occurs, oldest first.
struct Forwards<'a> {
    zone: &'a Zone,
    heads: Vec<(&'a CronExpr, Option<i64>)>,
}

impl<'a> Forwards<'a> {
    fn new(list: &'a [CronExpr], zone: &'a Zone, from: i64) -> Self {
        let heads = list.iter().map(|expr| (expr, expr.first_from(zone, from))).collect();
        Self { zone, heads }
    }
}

impl Iterator for Forwards<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let at = self.heads.iter().filter_map(|(_, head)| *head).min()?;
        for (expr, head) in self.heads.iter_mut().filter(|(_, head)| *head == Some(at)) {
            *head = expr.first_from(self.zone, at + 1);
        }
        Some(at)
    }
}

/// The seconds at which any of a list of expressions occurs, newest first, down to a floor.
struct Backwards<'a> {
    zone: &'a Zone,
    floor: i64,
    /// An expression, its newest occurrence not yet given out, and how far that was from the one before.
    heads: Vec<(&'a CronExpr, Option<i64>, i64)>,
}

impl<'a> Backwards<'a> {
    fn new(list: &'a [CronExpr], zone: &'a Zone, floor: i64, until: i64) -> Self {
        let newest = |expr: &CronExpr| if floor <= until { expr.last_until(zone, floor, until, FIRST_GUESS) } else { None };
        let heads = list.iter().map(|expr| (expr, newest(expr), FIRST_GUESS)).collect();
        Self { zone, floor, heads }
    }
}

impl Iterator for Backwards<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let (zone, floor) = (self.zone, self.floor);
        let at = self.heads.iter().filter_map(|(_, head, _)| *head).max()?;
        for (expr, head, gap) in self.heads.iter_mut().filter(|(_, head, _)| *head == Some(at)) {
            *head = if at > floor { expr.last_until(zone, floor, at - 1, *gap) } else { None };
            *gap = head.map_or(*gap, |earlier| at - earlier);
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
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
}
