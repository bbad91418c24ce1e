//! Tests of the search for the next day by months. They compare it with a check of each occurrence,
//! and bound the number of its steps.

use std::time::Duration;

use super::*;
use crate::day_sets::DaySet;
use crate::schedule_form::{Recurrence, Schedule};
use crate::schedule_modifiers::Shape;
use crate::timetable::Timetable;

fn rule(text: &str) -> Schedule {
    Schedule::Rules(vec![Recurrence::new(text, "2018-01-01T23:45".parse().unwrap()).unwrap()])
}

fn cron(text: &str) -> Schedule {
    Schedule::Cron(vec![text.parse().unwrap()])
}

fn calendar(text: &str) -> Schedule {
    Schedule::Calendar(vec![text.parse().unwrap()])
}

fn days(texts: &[&str]) -> DaySet {
    DaySet::of(texts.iter().map(|text| text.parse().unwrap()))
}

fn zone(name: &str) -> Zone {
    Zone::load(&name.parse().unwrap()).unwrap()
}

#[test]
fn a_schedule_and_days_that_never_meet_are_reported_apart_in_few_tries() {
    let week = Schedule::Every(Duration::from_hours(7 * 24));
    for (schedule, only_on) in [
        (cron("0 0 * * 1"), "tue"),
        (cron("0 12 * * 1#1"), "tue"),
        (cron("59 23 * 2-12 *"), "2030-01-01..2030-01-31"),
        (calendar("Mon 00:00"), "tue..sun"),
        (calendar("*-*~1 23:59"), "2026-02-01..2026-02-27"),
        // This time is on Sunday by the clock of Berlin.
        (calendar("Mon 00:00 Asia/Tokyo"), "mon..sat"),
        (calendar("Fri 23:00 Pacific/Honolulu"), "fri"),
        (rule("FREQ=DAILY;INTERVAL=7"), "tue"),
        (rule("FREQ=HOURLY;INTERVAL=168"), "tue"),
        (rule("FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1"), "wed"),
        (rule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU"), "sat"),
        (Schedule::Several(vec![cron("0 0 * * 1"), week.clone(), rule("FREQ=WEEKLY")]), "wed"),
        (week, "tue"),
    ] {
        let shape = Shape { only_on: Some(days(&[only_on])), ..Shape::default() };
        // This instant is a Monday at noon in Berlin.
        let anchor = UnixMillis::new(1_514_804_400_000).unwrap();
        let table = Timetable::shaped(schedule.clone(), &shape, zone("Europe/Berlin"), anchor);
        let mut walk = table.from(0);
        assert_eq!(walk.next(), None, "{schedule:?}");
        assert!(walk.jumps < 30, "{} tries for {schedule:?}", walk.jumps);
    }
}

#[test]
fn what_is_found_over_months_is_what_a_try_at_each_time_finds() {
    let zones = [
        "Europe/Berlin",
        "America/Havana",
        "Pacific/Apia",
        "Africa/Cairo",
        "Asia/Gaza",
        "Asia/Tokyo",
    ];
    let schedules = [
        cron("45 23 * * 1"),
        cron("30 0 L * *"),
        cron("0 0 15W 3-10 *"),
        cron("15 0,23 29 2 *"),
        calendar("Fri *-*-1..7 23:45"),
        calendar("Sun 00:15 Asia/Tokyo"),
        calendar("Thu 23:30 America/New_York"),
        calendar("*-*-1,31 12:00 Pacific/Kiritimati"),
        rule("FREQ=WEEKLY;INTERVAL=3;BYDAY=TH,FR"),
        rule("FREQ=HOURLY;INTERVAL=100"),
        rule("FREQ=YEARLY;BYWEEKNO=17;BYDAY=FR"),
        Schedule::Every(Duration::from_hours(60)),
        Schedule::Instants(
            [1_524_700_000_000, 1_535_000_000_000].map(|at| UnixMillis::new(at).unwrap()).to_vec(),
        ),
    ];
    let choices = [
        "fri",
        "sat",
        "sun",
        "thu",
        "2010-01-01..2012-06-30",
        "2020-02-29",
        "2024-04-26",
        "2028-12-31..2029-01-01",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let (begin, end) = (1_280_000_000_000, 1_900_000_000_000);
    for round in 0..300 {
        let zone = zone(zones[random.usize(..zones.len())]);
        let mut list: Vec<Schedule> = schedules.to_vec();
        random.shuffle(&mut list);
        list.truncate(random.usize(1..3));
        let schedule = if list.len() == 1 { list.remove(0) } else { Schedule::Several(list) };
        let mut some = || days(&random.choose_multiple(choices, 2));
        let (only_on, exclude) = (some(), some());
        let anchor = UnixMillis::new(begin).unwrap();
        let all = Timetable::new(schedule.clone(), zone.clone(), anchor);
        let filter = Filter::new(Some(only_on.clone()), exclude.clone()).unwrap();
        let tried: Vec<UnixMillis> = all
            .from(begin)
            .take_while(|at| at.as_i64() < end)
            .filter(|at| filter.left_out_by(&zone, at.as_i64()).is_none())
            .collect();
        let shape = Shape { only_on: Some(only_on), exclude, ..Shape::default() };
        let table = Timetable::shaped(schedule.clone(), &shape, zone.clone(), anchor);
        let meeting = Meeting::new(&table.zone, &table.parts, &filter);
        let mut from = begin;
        for at in &tried {
            // The search skips no occurrence that counts, from whatever instant it begins.
            assert!(
                meeting.from(from).is_some_and(|found| found <= at.as_i64()),
                "{round}: {schedule:?} {at}"
            );
            let before = at.as_i64() - random.i64(1..200_000_000);
            assert!(
                meeting.from(before.max(begin)).is_some_and(|found| found <= at.as_i64()),
                "{round}: {schedule:?} {at}"
            );
            from = at.as_i64() + 1;
        }
        let found: Vec<UnixMillis> = table.from(begin).take_while(|at| at.as_i64() < end).collect();
        assert_eq!(found, tried, "{round}: {schedule:?} {shape:?} in {}", zone.name());
    }
}
