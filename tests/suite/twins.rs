//! Calendar expressions and recurrence rules held against other implementations, where this machine has them: systemd's own
//! reader and python-dateutil. Each class of difference is named and counted; none else may be.
//!
//! `SCHEDD_TWIN_CASES` sets how many cases are drawn.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use schedd_schedule::schedule_form::{CalendarExpr, Recurrence, Schedule};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

/// Thu 2026-01-01 00:00:00 UTC.
const BEGIN: i64 = 1_767_225_600;
const TIMES: usize = 4;

fn cases(default: usize) -> usize {
    std::env::var("SCHEDD_TWIN_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

/// A component of an expression: a list of values, ranges and steps.
fn component(random: &mut fastrand::Rng, least: i64, most: i64) -> String {
    if random.u8(..10) < 4 {
        return "*".to_owned();
    }
    let item = |random: &mut fastrand::Rng| {
        let start = random.i64(least..=most);
        match random.u8(..6) {
            0 => format!("{start}..{}", random.i64(start..=most)),
            1 => format!("{start}/{}", random.i64(0..=most - least)),
            2 => format!("{start}..{}/{}", random.i64(start..=most), random.i64(1..=most)),
            _ => format!("{start:02}"),
        }
    };
    (0..random.usize(1..4)).map(|_| item(random)).collect::<Vec<_>>().join(",")
}

fn expression(random: &mut fastrand::Rng) -> String {
    const DAYS: [&str; 7] = ["Mon", "tue", "Wednesday", "Thu", "Fri", "sat", "Sunday"];
    const WORDS: [&str; 8] =
        ["minutely", "hourly", "daily", "weekly", "monthly", "quarterly", "semiannually", "yearly"];
    if random.u8(..50) == 0 {
        return WORDS[random.usize(..WORDS.len())].to_owned();
    }
    let mut text = String::new();
    if random.u8(..10) < 4 {
        let mut days = Vec::new();
        for _ in 0..random.usize(1..3) {
            let (first, last) = (random.usize(..7), random.usize(..7));
            days.push(if random.bool() {
                DAYS[first].to_owned()
            } else {
                format!("{}..{}", DAYS[first], DAYS[last])
            });
        }
        text = format!("{} ", days.join(","));
    }
    if random.u8(..10) < 7 {
        let year = if random.u8(..4) == 0 { component(random, 2026, 2030) } else { "*".to_owned() };
        let mark = if random.u8(..4) == 0 { '~' } else { '-' };
        let (month, day) = (component(random, 1, 12), component(random, 1, 31));
        text = [text, format!("{year}-{month}{mark}{day} ")].concat();
    }
    let (hour, minute) = (component(random, 0, 23), component(random, 0, 59));
    text = [text, format!("{hour}:{minute}")].concat();
    if random.bool() {
        text = [text, format!(":{}", component(random, 0, 59))].concat();
    }
    text
}

/// What systemd makes of it: its first times from [`BEGIN`] on, none if it refuses it.
fn by_systemd(text: &str) -> Option<Vec<i64>> {
    let base = format!("@{BEGIN}");
    let iterations = format!("--iterations={TIMES}");
    let mut command = Command::new("systemd-analyze");
    command
        .args(["calendar", "--base-time", &base, &iterations, text])
        .env("TZ", "UTC")
        .env("LC_ALL", "C")
        .stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    let output = String::from_utf8(output.stdout).ok()?;
    let times = output.lines().filter_map(|line| {
        let (what, time) = line.trim().split_once(": ")?;
        let date = time
            .strip_suffix(" UTC")
            .filter(|_| what.starts_with("Next elapse") || what.starts_with("Iter"))?;
        let (_, moment) = date.split_once(' ')?;
        Some(
            moment
                .replace(' ', "T")
                .parse::<jiff::civil::DateTime>()
                .ok()?
                .to_zoned(jiff::tz::TimeZone::UTC)
                .ok()?
                .timestamp()
                .as_second(),
        )
    });
    Some(times.collect())
}

fn by_us(text: &str) -> Option<Vec<i64>> {
    let expr: CalendarExpr = text.parse().ok()?;
    let table = Timetable::new(Schedule::Calendar(vec![expr]), Zone::utc(), UnixMillis::EPOCH);
    let begin = UnixMillis::new(BEGIN * 1_000).unwrap();
    let times = std::iter::successors(table.next_after(begin), |at| table.next_after(*at));
    Some(times.take(TIMES).map(|at| at.as_i64() / 1_000).collect())
}

/// Why the two may differ; none if they may not.
fn class(text: &str, ours: Option<&Vec<i64>>, theirs: Option<&Vec<i64>>) -> Option<&'static str> {
    match (ours, theirs) {
        (None, Some(times)) if times.is_empty() => {
            Some("never comes: refused here, \"never\" there")
        }
        (None, Some(_))
            if text
                .parse::<CalendarExpr>()
                .is_err_and(|error| error.problem.contains("has no time before")) =>
        {
            Some("never comes again: refused here")
        }
        (Some(_), None)
            if days_from_end(text).is_some_and(|days| numbers(days).any(|day| day > 28)) =>
        {
            Some("a day further than 28 from the end of a month: refused there")
        }
        (Some(_), None) if days_from_end(text).is_some_and(|days| days.contains(',')) => {
            Some("a list of days counted from the end: some are refused there")
        }
        (Some(_), None) if has_a_range_of_one_second(text) => {
            Some("a range of one second: refused there")
        }
        _ if days_from_end(text).is_some_and(|days| days.contains('/')) => {
            Some("steps of days counted from the end")
        }
        // Its own answer depends on the second it is asked from: after a day that does not match it goes on in the middle of
        // a component with steps.
        (Some(ours), Some(theirs))
            if text.contains('/')
                && theirs.iter().zip(ours).all(|(theirs, ours)| theirs >= ours) =>
        {
            Some("a time with steps that comes and is passed over there")
        }
        _ => None,
    }
}

/// The days of an expression that are counted from the end of a month.
fn days_from_end(text: &str) -> Option<&str> {
    text.split_once('~').and_then(|(_, rest)| rest.split(' ').next())
}

fn has_a_range_of_one_second(text: &str) -> bool {
    let seconds = text.rsplit(':').next().unwrap_or_default();
    seconds.split(',').any(|item| item.split_once("..").is_some_and(|(first, end)| first == end))
}

fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split(|found: char| !found.is_ascii_digit()).filter_map(|number| number.parse().ok())
}

#[test]
fn calendar_expressions_mean_what_systemd_says_they_do() {
    if by_systemd("daily").is_none() {
        println!("left out: no systemd-analyze here");
        return;
    }
    let mut random = fastrand::Rng::with_seed(1);
    let (mut same, mut both_refuse, mut classes, mut other) =
        (0, 0, BTreeMap::<&str, usize>::new(), Vec::new());
    for _ in 0..cases(400) {
        let text = expression(&mut random);
        let (ours, theirs) = (by_us(&text), by_systemd(&text));
        match (&ours, &theirs) {
            (None, None) => both_refuse += 1,
            (ours, theirs) if ours == theirs => same += 1,
            (ours, theirs) => match class(&text, ours.as_ref(), theirs.as_ref()) {
                Some(class) => *classes.entry(class).or_default() += 1,
                None => other.push(format!("{text}\n  here {ours:?}\n  there {theirs:?}")),
            },
        }
    }
    println!("{same} the same, {both_refuse} refused by both, {classes:?}");
    assert!(other.is_empty(), "{} differ:\n{}", other.len(), other.join("\n"));
}

const DATEUTIL: &str = "
import sys, itertools, datetime
from dateutil.rrule import rrulestr
end = datetime.datetime(2100, 1, 1)
for line in sys.stdin:
    start, rule = line.rstrip('\\n').split(' ', 1)
    try:
        times = rrulestr(rule, dtstart=datetime.datetime.fromisoformat(start))
        print(' '.join(at.isoformat() for at in itertools.islice(itertools.takewhile(lambda at: at < end, times), 4)))
    except Exception as error:
        print('! ' + str(error))
";

fn rule(random: &mut fastrand::Rng) -> String {
    const FREQS: [&str; 7] =
        ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"];
    const DAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
    let freq = random.usize(..7);
    let mut parts = vec![format!("FREQ={}", FREQS[freq])];
    let numbers = |random: &mut fastrand::Rng, least: i64, most: i64| {
        let list: Vec<String> = (0..random.usize(1..4))
            .map(|_| match random.i64(least..=most) {
                0 if least < 0 => 1,
                number => number,
            })
            .map(|number| number.to_string())
            .collect();
        list.join(",")
    };
    let mut maybe = |random: &mut fastrand::Rng, of: u8, name: &str, least, most| {
        if random.u8(..of) == 0 {
            let list = numbers(random, least, most);
            parts.push(format!("{name}={list}"));
        }
    };
    maybe(random, 4, "BYMONTH", 1, 12);
    if freq != 2 {
        maybe(random, 4, "BYMONTHDAY", -31, 31);
    }
    if freq == 0 {
        maybe(random, 6, "BYWEEKNO", 1, 52);
    }
    if freq == 0 || freq > 3 {
        maybe(random, 8, "BYYEARDAY", -366, 366);
    }
    maybe(random, 4, "BYHOUR", 0, 23);
    maybe(random, 4, "BYMINUTE", 0, 59);
    maybe(random, 6, "BYSECOND", 0, 59);
    if random.u8(..3) == 0 {
        let is_numbered =
            freq < 2 && random.bool() && !parts.iter().any(|part| part.starts_with("BYWEEKNO"));
        let list: Vec<String> = (0..random.usize(1..3))
            .map(|_| {
                let number = if is_numbered {
                    random.i64(1..5) * if random.bool() { 1 } else { -1 }
                } else {
                    0
                };
                format!(
                    "{}{}",
                    if number == 0 { String::new() } else { number.to_string() },
                    DAYS[random.usize(..7)]
                )
            })
            .collect();
        parts.push(format!("BYDAY={}", list.join(",")));
    }
    if parts.len() > 1 && random.u8(..4) == 0 {
        parts.push(format!(
            "BYSETPOS={}",
            if random.bool() { random.i64(1..4) } else { -random.i64(1..4) }
        ));
    }
    if random.bool() {
        parts.push(format!("INTERVAL={}", random.u8(1..5)));
    }
    if random.u8(..3) == 0 {
        parts.push(format!("COUNT={}", random.u8(1..9)));
    }
    if random.bool() {
        parts.push(format!("WKST={}", DAYS[random.usize(..7)]));
    }
    parts.join(";")
}

#[test]
fn recurrence_rules_mean_what_dateutil_says_they_do() {
    let has = Command::new("python3")
        .args(["-c", "import dateutil.rrule"])
        .stderr(Stdio::null())
        .status();
    if !has.is_ok_and(|status| status.success()) {
        println!("left out: no python-dateutil here");
        return;
    }
    let mut random = fastrand::Rng::with_seed(2);
    let rules: Vec<(String, String)> = (0..cases(400))
        .map(|_| {
            let (month, day, hour) = (random.u8(1..13), random.u8(1..29), random.u8(..24));
            (format!("2026-{month:02}-{day:02}T{hour:02}:15:30"), rule(&mut random))
        })
        .filter(|(start, rule)| Recurrence::new(rule, start.parse().unwrap()).is_ok())
        .collect();
    let mut python = Command::new("timeout")
        .args(["500", "python3", "-c", DATEUTIL])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = python.stdin.take().unwrap();
    let lines: Vec<String> =
        rules.iter().map(|(start, rule)| format!("{start} {rule}\n")).collect();
    let text = lines.concat();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let answer = String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap();
    writer.join().unwrap();
    assert_eq!(answer.lines().count(), rules.len(), "it did not answer to all");
    let (mut same, mut first_week, mut other) = (0, 0, Vec::new());
    for ((start, text), theirs) in rules.iter().zip(answer.lines()) {
        let rule = Recurrence::new(text, start.parse().unwrap()).unwrap();
        let times =
            std::iter::successors(rule.first_local_from(&Zone::utc(), i64::MIN / 2), |at| {
                rule.first_local_from(&Zone::utc(), at + 1)
            });
        let ours: Vec<String> = times
            .take_while(|at| *at < UnixMillis::END / 1_000)
            .take(4)
            .map(|at| {
                jiff::Timestamp::from_second(at)
                    .unwrap()
                    .to_string()
                    .trim_end_matches('Z')
                    .to_owned()
            })
            .collect();
        if ours.join(" ") == theirs {
            same += 1;
        } else if text.contains("FREQ=WEEKLY") && text.contains("BYSETPOS") {
            // It takes the part of the first week from the start on for the whole week; the standard counts in the week.
            first_week += 1;
        } else {
            other.push(format!("{start} {text}\n  here {}\n  there {theirs}", ours.join(" ")));
        }
    }
    println!("{same} the same, {first_week} count positions in the first week otherwise");
    assert!(other.is_empty(), "{} differ:\n{}", other.len(), other.join("\n"));
}
