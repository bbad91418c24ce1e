//! A table people can read, and two properties: the values told are those the job runs at, and no two expressions that come
//! at different times are told alike.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use super::fields::{Field, Fields};
use super::{fields_in_words, in_words, text_in_words};
use crate::domain::schedule::{CronExpr, Schedule, Timetable};
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

/// `EXPRESSION | words`, a line each.
const EXAMPLES: &str = include_str!("examples.txt");

fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = EXAMPLES.lines().filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.map(|line| line.split_once('|').unwrap_or((line, ""))).map(|(text, words)| (text.trim(), words.trim()))
}

#[test]
fn every_example_is_told_as_the_table_says() {
    let wrong: Vec<String> = examples()
        .map(|(text, wanted)| (text, wanted, text_in_words(text)))
        .filter(|(_, wanted, found)| wanted != found)
        .map(|(text, _, found)| format!("{text:<30} | {found}"))
        .collect();
    assert!(wrong.is_empty(), "told otherwise:\n{}", wrong.join("\n"));
    assert!(examples().count() >= 150, "{}", examples().count());
}

#[test]
fn the_table_has_only_expressions_that_are_read() {
    for (text, _) in examples() {
        assert!(text.parse::<CronExpr>().is_ok(), "{text}");
    }
}

#[test]
fn the_other_forms_are_told_too() {
    let berlin = Zone::load(&"Europe/Berlin".parse().unwrap()).unwrap();
    let told = |schedule: Schedule| in_words(&schedule, &berlin).join("; ");
    assert_eq!(told(Schedule::Manual), "only when asked for");
    assert_eq!(told(Schedule::Every(Duration::from_secs(5_400))), "every 1h30m, counted from the job's first apply");
    let at = UnixMillis::new(1_798_099_200_000).unwrap();
    assert_eq!(told(Schedule::At(at)), "once, on Thursday 2026-12-24 at 09:00:00 CET");
    let list = Schedule::Cron(vec!["0 9 * * *".parse().unwrap(), "*/5 18 * * *".parse().unwrap()]);
    assert_eq!(told(list), "at 09:00 every day; every 5 minutes from 18:00 to 18:59 every day");
}

/// What an expression's fields let through, told in the one way that makes equal what comes alike.
fn meaning(fields: &Fields) -> String {
    let Fields { second, minute, hour, day, month, weekday, year } = fields;
    let set = |field: &Field| format!("{:?}{:?}", field.values, field.others);
    let either = !day.is_starred && !weekday.is_starred;
    let days = match (day.is_whole(), weekday.is_whole()) {
        (true, true) => "all".to_owned(),
        (true, _) | (_, true) if either => "all".to_owned(),
        (true, false) => format!("week {}", set(weekday)),
        (false, true) => format!("month {}", set(day)),
        (false, false) => format!("{} {} {either}", set(day), set(weekday)),
    };
    [second, minute, hour, month, year].map(set).join(" ") + &days
}

/// One item of a field, drawn from few so that alike ones meet.
fn item(random: &mut fastrand::Rng, (min, max): (u16, u16), wraps: bool) -> String {
    let low = random.u16(min..=max);
    let high = random.u16(if wraps { min } else { low }..=max);
    let step = random.choice([1, 2, 3, 5, 7, 10, 12, 15, 20, 30]).unwrap_or(1);
    match random.u8(0..9) {
        0..=2 => low.to_string(),
        3 => format!("{low}-{high}"),
        4 => format!("{low}-{high}/{step}"),
        5 => format!("{low}/{step}"),
        6 => format!("*/{step}"),
        _ => "*".to_owned(),
    }
}

fn drawn(random: &mut fastrand::Rng) -> String {
    const FIELDS: [(u16, u16, bool); 5] = [(0, 59, false), (0, 23, true), (1, 31, false), (1, 12, true), (0, 7, true)];
    let mut field = |(min, max, wraps)| {
        let items: Vec<String> = (0..random.usize(1..=2)).map(|_| item(random, (min, max), wraps)).collect();
        items.join(",")
    };
    let mut texts: Vec<String> = FIELDS.into_iter().map(&mut field).collect();
    if field((0, 1, false)).starts_with('*') {
        texts.insert(0, field((0, 59, false)));
        if field((0, 1, false)).starts_with('*') {
            texts.push(field((2026, 2040, false)));
        }
    }
    texts.join(" ")
}

#[test]
fn no_two_expressions_that_come_at_different_times_are_told_alike() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut told: HashMap<String, (String, String)> = HashMap::new();
    for _ in 0..60_000 {
        let text = drawn(&mut random);
        let fields = Fields::of(&text).unwrap();
        let meaning = meaning(&fields);
        let (first, other) = told.entry(fields_in_words(&fields)).or_insert_with(|| (meaning.clone(), text.clone()));
        assert_eq!(*first, meaning, "{text} and {other}");
    }
}

/// Whether the values that are told let the second `at` of UTC through.
fn lets_through(fields: &Fields, at: i64) -> bool {
    let clock = jiff::tz::TimeZone::UTC.to_datetime(Timestamp::from_second(at).unwrap());
    let has = |values: &BTreeSet<u16>, value: i8| values.contains(&u16::try_from(value).unwrap());
    let day = has(&fields.day.values, clock.day());
    let weekday = has(&fields.weekday.values, clock.weekday().to_sunday_zero_offset());
    let is_day = if fields.day.is_starred || fields.weekday.is_starred { day && weekday } else { day || weekday };
    is_day
        && has(&fields.second.values, clock.second())
        && has(&fields.minute.values, clock.minute())
        && has(&fields.hour.values, clock.hour())
        && has(&fields.month.values, clock.month())
        && fields.year.values.contains(&u16::try_from(clock.year()).unwrap())
}

#[test]
fn the_values_told_are_those_the_job_runs_at() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut checked = 0;
    for _ in 0..2_000 {
        let text = drawn(&mut random);
        let Ok(expression) = text.parse::<CronExpr>() else { continue };
        let fields = Fields::of(&text).unwrap();
        let table = Timetable::new(Schedule::Cron(vec![expression]), Zone::utc(), UnixMillis::EPOCH);
        let start = UnixMillis::new(random.i64(1_767_225_600..1_893_456_000) * 1000).unwrap();
        let mut from = start;
        for _ in 0..5 {
            let Some(next) = table.next_after(from) else { break };
            assert!(lets_through(&fields, next.as_i64() / 1000), "{text} at {next}");
            // Between two of them the words let nothing through: looked at where a value might, not second by second.
            for step in [1, 60, 3_600, 86_400] {
                let at = from.as_i64() / 1000 + random.i64(1..=step);
                assert!(at >= next.as_i64() / 1000 || !lets_through(&fields, at), "{text} also at {at}");
            }
            from = next;
            checked += 1;
        }
    }
    assert!(checked > 5_000, "{checked}");
}
