//! Tests of timetables against known occurrences and against a walk over every second.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::cron::steps_of;
use crate::day_sets::{DayItem, DaySet};
use crate::time::zone::ZoneName;

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
    assert_eq!(
        (once.latest_in(ms(5_000), ms(5_000)), once.count_in(ms(0), ms(5_000))),
        (Some(ms(5_000)), 1)
    );
    assert_eq!((once.latest_in(ms(0), ms(4_999)), once.count_in(ms(5_001), ms(9_000))), (None, 0));
}

#[test]
fn left_out_by_names_the_rule_and_nothing_for_times_never_scheduled() {
    let days = |text: &str| DaySet::of([text.parse().unwrap()]);
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
    assert_eq!(
        every(Duration::from_secs(1), 0).count_in(ms(0), end),
        u64::from(Timetable::COUNTED)
    );
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
        let (steps, found) = steps_of(|| table.latest_in(first, until));
        assert_eq!(found, Some(at(wanted)), "{expr}");
        // A walk through all minutes of thirty years would take fifteen million steps.
        assert!(steps < 10_000, "{expr} took {steps} steps");
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
        // These instants lie around the end of daylight saving on 2026-04-04, and later.
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
            exclude: DaySet::of([
                DayItem::Weekdays(1 << gone),
                out,
                DayItem::Dates(day + 1, day + 1),
            ]),
            ..Shape::default()
        };
        let table = Timetable::shaped(schedule, &shape, Zone::utc(), ms(0));
        let is_one = |at: i64| {
            let (minute, second, number) = (at / 60 % 60, at % 60, at / 86_400);
            let comes = second == 0 && minute % step == 0
                || second == 30 && minute % part == 0
                || at >= anchor && (at - anchor) % period == 0
                || at == instant;
            let is_out =
                (number + 3) % 7 == gone || (span..span + 7_000).contains(&at) || number == day + 1;
            comes && (from..=to).contains(&at) && !is_out
        };
        let walked: Vec<UnixMillis> =
            (begin..begin + 250_000).filter(|at| is_one(*at)).map(millis).collect();
        let (first, until) = (millis(begin), millis(begin + 249_999));
        let found: Vec<UnixMillis> =
            std::iter::successors(table.next_after(ms(first.as_i64() - 1)), |at| {
                table.next_after(*at)
            })
            .collect();
        assert_eq!(found, walked, "{round}");
        assert_eq!(table.count_in(first, until), walked.len() as u64);
        for most in [1, 3, 50, 100_000] {
            let oldest = walked.len().saturating_sub(most as usize);
            assert_eq!(
                table.newest_in(first, until, most),
                walked.get(oldest).copied(),
                "{round} {most}"
            );
        }
        let cut = table.ending_after(ms(first.as_i64() - 1), 3);
        assert_eq!(cut.count_in(first, until), 3.min(walked.len() as u64));
    }
}
