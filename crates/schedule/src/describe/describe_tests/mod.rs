//! Tests of descriptions by a table of examples, and by two properties. A job runs at exactly the
//! described times. No two expressions with different times have the same description.

mod other_forms;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use super::cron_words::fields_in_words;
use super::field_words::{DescribedField, DescribedFields};
use super::{PhraseOf, cron_words, in_words};
use crate::day_sets::DaySet;
use crate::names::JobName;
use crate::schedule_form::{CronExpr, Schedule};
use crate::schedule_modifiers::Shape;
use crate::time::unix_millis::UnixMillis;
use crate::time::zone::Zone;
use crate::timetable::Timetable;

/// The examples, in lines of the form `EXPRESSION | words`.
const EXAMPLES: &str = include_str!("examples.txt");

fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = EXAMPLES.lines().filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines
        .map(|line| line.split_once('|').unwrap_or((line, "")))
        .map(|(text, words)| (text.trim(), words.trim()))
}

#[test]
fn every_example_is_reported_as_the_table_says() {
    let wrong: Vec<String> = examples()
        .map(|(text, wanted)| (text, wanted, cron_words::words(&text.parse().unwrap(), None)))
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
fn the_other_forms_are_reported_too() {
    let berlin = Zone::load(&"Europe/Berlin".parse().unwrap()).unwrap();
    let moment = |text: &str| UnixMillis::from_timestamp(text.parse().unwrap()).unwrap();
    let phrases_of = |schedule: Schedule, job: Option<&JobName>, anchor| {
        let message = in_words(&schedule, PhraseOf { zone: &berlin, job, anchor });
        message.into_iter().map(|message| message.words).collect::<Vec<_>>().join("; ")
    };
    let message = |schedule: Schedule| phrases_of(schedule, None, None);
    assert_eq!(message(Schedule::Manual), "only by request");
    assert_eq!(
        message(Schedule::Every(Duration::from_secs(5_400))),
        "every 1h30m, counted from the job's first apply"
    );
    let at = UnixMillis::new(1_798_099_200_000).unwrap();
    assert_eq!(message(Schedule::At(at)), "once, on Thursday 2026-12-24 at 09:00:00 CET");
    let first = moment("2026-12-24T08:00:00Z");
    let anchored = "every 1h30m, the first on Thursday 2026-12-24 at 09:00:00 CET";
    assert_eq!(
        phrases_of(Schedule::Every(Duration::from_secs(5_400)), None, Some(first)),
        anchored
    );
    assert_eq!(
        message(Schedule::Delay(Duration::from_secs(90))),
        "1m30s after the end of each run"
    );
    let instants = |count: i64| {
        (0..count)
            .map(|day| first.saturating_add(Duration::from_secs(86_400 * day.unsigned_abs())))
            .collect()
    };
    let two =
        "2 times, on Thursday 2026-12-24 at 09:00:00 CET and Friday 2026-12-25 at 09:00:00 CET";
    assert_eq!(message(Schedule::Instants(instants(2))), two);
    let many = "9 times: the first on Thursday 2026-12-24 at 09:00:00 CET, the last on Friday 2027-01-01 at 09:00:00 CET";
    assert_eq!(message(Schedule::Instants(instants(9))), many);
    assert_eq!(
        message(Schedule::of_cron("@every 90s").unwrap()),
        "every 1m30s, counted from the job's first apply"
    );
    assert_eq!(
        message(Schedule::of_cron("@reboot").unwrap()),
        "once on each host after each of its boots"
    );
    // Computed with sha1sum, see `cron::hash_draw`.
    let backup: JobName = "backup".parse().unwrap();
    for (text, wanted) in [
        ("H H * * *", "at 08:25 every day (each H is drawn from the name backup)"),
        (
            "H/20 9-17 * * mon-fri",
            "at minutes 5, 25 and 45 of hours 9 to 17, Monday to Friday (each H is drawn from the name backup)",
        ),
        ("30 2 * * *", "at 02:30 every day"),
    ] {
        assert_eq!(
            phrases_of(Schedule::of_cron(text).unwrap(), Some(&backup), None),
            wanted,
            "{text}"
        );
    }
    let list = Schedule::Cron(vec!["0 9 * * *".parse().unwrap(), "*/5 18 * * *".parse().unwrap()]);
    assert_eq!(message(list), "at 09:00 every day; every 5 minutes from 18:00 to 18:59 every day");
}

#[test]
fn what_shapes_a_schedule_is_reported_a_line_each() {
    let moment = |text: &str| UnixMillis::from_timestamp(text.parse().unwrap()).unwrap();
    let shape = Shape {
        start: Some(moment("2026-12-01T00:00:00Z")),
        end: Some(moment("2027-02-01T00:00:00Z")),
        max_runs: Some(3),
        jitter: Duration::from_secs(30),
        splay: Duration::from_secs(600),
        exclude: DaySet::of(["2026-12-24..2027-01-01", "sun"].map(|text| text.parse().unwrap())),
        only_on: Some(DaySet::of(["mon..fri".parse().unwrap()])),
        skip_if_late: Some(Duration::from_secs(3_600)),
        ..Shape::default()
    };
    let wanted = "\
not before Tuesday 2026-12-01 at 00:00:00 UTC
not after Monday 2027-02-01 at 00:00:00 UTC
at most 3 runs
only on mon, tue, wed, thu and fri
never on sun and 2026-12-24 to 2027-01-01
delayed by up to 10m, by the same time for all runs of the job
delayed by up to 30s, by a random time for each run
skipped if the run would start more than 1h late";
    assert_eq!(super::shape_in_words(&shape, &Zone::utc()).join("\n"), wanted);
    assert!(super::shape_in_words(&Shape::default(), &Zone::utc()).is_empty());
}

/// Returns a canonical text of the times that the fields select. Expressions with the same times
/// have the same text.
fn meaning(fields: &DescribedFields) -> String {
    let DescribedFields { second, minute, hour, day, month, weekday, year } = fields;
    let set = |field: &DescribedField| format!("{:?}{:?}", field.values, field.others);
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

/// Returns a random item of a field. Only few items are possible, so the same item is drawn several
/// times.
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
    const FIELDS: [(u16, u16, bool); 5] =
        [(0, 59, false), (0, 23, true), (1, 31, false), (1, 12, true), (0, 7, true)];
    let mut field = |(min, max, wraps)| {
        let items: Vec<String> =
            (0..random.usize(1..=2)).map(|_| item(random, (min, max), wraps)).collect();
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
fn no_two_expressions_that_come_at_different_times_are_reported_alike() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut message: HashMap<String, (String, String)> = HashMap::new();
    for _ in 0..60_000 {
        let text = drawn(&mut random);
        let fields = DescribedFields::of(&text).unwrap();
        let meaning = meaning(&fields);
        let (first, other) = message
            .entry(fields_in_words(&fields))
            .or_insert_with(|| (meaning.clone(), text.clone()));
        assert_eq!(*first, meaning, "{text} and {other}");
    }
}

/// Returns true if the described values include the time `at`, a Unix time in seconds.
fn lets_through(fields: &DescribedFields, at: i64) -> bool {
    let clock = jiff::tz::TimeZone::UTC.to_datetime(Timestamp::from_second(at).unwrap());
    let has = |values: &BTreeSet<u16>, value: i8| values.contains(&u16::try_from(value).unwrap());
    let day = has(&fields.day.values, clock.day());
    let weekday = has(&fields.weekday.values, clock.weekday().to_sunday_zero_offset());
    let is_day = if fields.day.is_starred || fields.weekday.is_starred {
        day && weekday
    } else {
        day || weekday
    };
    is_day
        && has(&fields.second.values, clock.second())
        && has(&fields.minute.values, clock.minute())
        && has(&fields.hour.values, clock.hour())
        && has(&fields.month.values, clock.month())
        && fields.year.values.contains(&u16::try_from(clock.year()).unwrap())
}

#[test]
fn the_values_reported_are_those_the_job_runs_at() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut checked = 0;
    for _ in 0..2_000 {
        let text = drawn(&mut random);
        let Ok(expression) = text.parse::<CronExpr>() else { continue };
        let fields = DescribedFields::of(&text).unwrap();
        let table =
            Timetable::new(Schedule::Cron(vec![expression]), Zone::utc(), UnixMillis::EPOCH);
        let start = UnixMillis::new(random.i64(1_767_225_600..1_893_456_000) * 1000).unwrap();
        let mut from = start;
        for _ in 0..5 {
            let Some(next) = table.next_after(from) else { break };
            assert!(lets_through(&fields, next.as_i64() / 1000), "{text} at {next}");
            // Between two occurrences the description matches no time. Samples near the values
            // replace a check of every second.
            for step in [1, 60, 3_600, 86_400] {
                let at = from.as_i64() / 1000 + random.i64(1..=step);
                assert!(
                    at >= next.as_i64() / 1000 || !lets_through(&fields, at),
                    "{text} also at {at}"
                );
            }
            from = next;
            checked += 1;
        }
    }
    assert!(checked > 5_000, "{checked}");
}
