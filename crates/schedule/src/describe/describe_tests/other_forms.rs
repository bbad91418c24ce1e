//! Tests of the descriptions of calendar expressions and iCalendar rules: tables of examples, and a
//! check that equal descriptions mean equal times.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::describe::{calendar_words, rule_words};
use crate::schedule_form::{CalendarExpr, Recurrence, Schedule};
use crate::time::unix_millis::UnixMillis;
use crate::time::zone::Zone;
use crate::timetable::Timetable;

/// The examples, in lines of the form `EXPRESSION | words` or `RULE | words`.
const CALENDARS: &str = include_str!("calendars.txt");
const RULES: &str = include_str!("rules.txt");

/// The start of every rule in the table, a Monday.
const START: &str = "2026-01-05T09:00";

fn rule(text: &str) -> Recurrence {
    Recurrence::new(text, START.parse().unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks each line of `table` with the words that `describe` returns. A failure prints the whole
/// corrected table.
#[track_caller]
fn assert_reported(table: &str, describe: impl Fn(&str) -> String) {
    let (mut right, mut is_wrong, mut count) = (String::new(), false, 0);
    for line in table.lines() {
        let Some((text, words)) = line.split_once('|').filter(|_| !line.starts_with("--")) else {
            writeln!(right, "{line}").unwrap();
            continue;
        };
        let phrase = describe(text.trim());
        (is_wrong, count) = (is_wrong || phrase != words.trim(), count + 1);
        writeln!(right, "{:<40} | {phrase}", text.trim()).unwrap();
    }
    assert!(!is_wrong, "told otherwise:\n{right}");
    assert!(count >= 40, "{count}");
}

#[test]
fn every_calendar_expression_is_reported_as_the_table_says() {
    assert_reported(CALENDARS, |text| {
        calendar_words::words(
            &text.parse::<CalendarExpr>().unwrap_or_else(|error| panic!("{error}")),
        )
    });
}

#[test]
fn every_rule_is_reported_as_the_table_says() {
    assert_reported(RULES, |text| rule_words::words(&rule(text)));
}

/// Returns the first times of a schedule.
fn times(schedule: Schedule) -> Vec<UnixMillis> {
    let table = Timetable::new(schedule, Zone::utc(), UnixMillis::EPOCH);
    let next = |at: UnixMillis| table.next_after(at);
    std::iter::successors(next(UnixMillis::new(1_767_225_600_000).unwrap()), |at| next(*at))
        .take(12)
        .collect()
}

/// Checks that schedules with the same description have the same times. `draw` makes each of
/// `count` random schedules.
fn assert_apart(count: usize, mut draw: impl FnMut() -> Option<(String, String, Schedule)>) {
    let mut phrase: HashMap<String, (Vec<UnixMillis>, String)> = HashMap::new();
    let mut read = 0;
    for _ in 0..count {
        let Some((text, words, schedule)) = draw() else { continue };
        read += 1;
        let found = times(schedule);
        let (first, other) = phrase.entry(words).or_insert_with(|| (found.clone(), text.clone()));
        assert_eq!(*first, found, "{text} and {other}");
    }
    assert!(read > count / 8, "{read}");
}

#[test]
fn no_two_calendar_expressions_that_come_at_different_times_are_reported_alike() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut one_of =
        move |list: &[&str]| random.choice(list.iter().copied()).unwrap_or_default().to_owned();
    assert_apart(1_500, || {
        let weekdays =
            one_of(&["", "", "Mon ", "Mon..Fri ", "Sat,Sun ", "Mon,Wed,Sat ", "Mon..Sun "]);
        let year = one_of(&["*", "*", "*", "2027", "2026..2028", "2026/2"]);
        let month = one_of(&["*", "*", "1", "1,7", "3..5", "1/3", "2"]);
        let day = one_of(&[
            "-*", "-*", "-1", "-31", "-1..7", "-1,15", "~1", "~1..3", "~2", "~3,5", "~7/1", "-2/2",
            "~1..31",
        ]);
        let hour = one_of(&["*", "9", "9,17", "9..17", "0/6", "0..23", "22"]);
        let minute = one_of(&["00", "30", "*", "0/15", "5..10", "0,30", "7"]);
        let second = one_of(&["", "", ":00", ":30", ":0/20", ":*"]);
        let text = format!("{weekdays}{year}-{month}{day} {hour}:{minute}{second}");
        let expression = text.parse::<CalendarExpr>().ok()?;
        Some((text, calendar_words::words(&expression), Schedule::Calendar(vec![expression])))
    });
}

#[test]
fn no_two_rules_that_come_at_different_times_are_reported_alike() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut one_of =
        move |list: &[&str]| random.choice(list.iter().copied()).unwrap_or_default().to_owned();
    assert_apart(4_000, || {
        let mut text =
            one_of(&["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]);
        text.insert_str(0, "FREQ=");
        for parts in [
            &["", "", "INTERVAL=2", "INTERVAL=3"][..],
            &["", "", "", "BYMONTH=1", "BYMONTH=2,8"],
            &["", "", "", "BYWEEKNO=1,-1", "BYWEEKNO=20"],
            &["", "", "", "BYYEARDAY=1,-1", "BYYEARDAY=100"],
            &[
                "",
                "",
                "BYMONTHDAY=1",
                "BYMONTHDAY=-1,-2",
                "BYMONTHDAY=13,-7",
                "BYMONTHDAY=1,2,3,4,5,6,7",
            ],
            &[
                "",
                "",
                "BYDAY=MO",
                "BYDAY=MO,TU,WE,TH,FR",
                "BYDAY=1MO",
                "BYDAY=-1FR,2TU",
                "BYDAY=SU,1MO",
                "BYDAY=-2SA",
            ],
            &["", "", "", "BYHOUR=9,17", "BYHOUR=0"],
            &["", "", "", "BYMINUTE=30", "BYMINUTE=0,15,30,45"],
            &["", "", "", "BYSECOND=10", "BYSECOND=0,30"],
            &["", "", "", "BYSETPOS=1", "BYSETPOS=-1", "BYSETPOS=2,-2"],
            &["", "WKST=SU"],
            &[
                "",
                "",
                "COUNT=3",
                "COUNT=1",
                "UNTIL=20260301",
                "UNTIL=20260301T080000Z",
                "UNTIL=20260301T080000",
            ],
        ] {
            let part = one_of(parts);
            if !part.is_empty() {
                write!(text, ";{part}").unwrap();
            }
        }
        let rule = Recurrence::new(&text, START.parse().unwrap()).ok()?;
        Some((text, rule_words::words(&rule), Schedule::Rules(vec![rule])))
    });
}
