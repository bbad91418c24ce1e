use super::*;
use crate::time::civil::{DAY, Date, days_in_month, weekday};

fn next(text: &str, from: &str, count: usize) -> Vec<String> {
    let expr: CalendarExpr = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let mut at = from.parse::<jiff::Timestamp>().unwrap().as_second();
    let mut found = Vec::new();
    while found.len() < count
        && let Some(next) = expr.first_from(&Zone::utc(), at)
    {
        found.push(jiff::Timestamp::from_second(next).unwrap().to_string());
        at = next + 1;
    }
    found
}

fn refusal(text: &str) -> CalendarError {
    text.parse::<CalendarExpr>().unwrap_err()
}

#[test]
fn the_forms_of_the_manual_mean_what_it_says() {
    // This day is a Thursday.
    let from = "2026-01-01T00:00:00Z";
    for (text, wanted) in [
        ("Sat,Thu,Mon..Wed,Sat..Sun", "2026-01-01T00:00:00Z 2026-01-03T00:00:00Z"),
        ("Wed *-1", "2026-04-01T00:00:00Z 2026-07-01T00:00:00Z"),
        ("Wed,Wed *-1", "2026-04-01T00:00:00Z"),
        ("Mon..Fri 09:00", "2026-01-01T09:00:00Z 2026-01-02T09:00:00Z 2026-01-05T09:00:00Z"),
        ("*-*-01 00:00:00", "2026-01-01T00:00:00Z 2026-02-01T00:00:00Z"),
        ("*-*~1", "2026-01-31T00:00:00Z 2026-02-28T00:00:00Z"),
        ("*-02~03,05", "2026-02-24T00:00:00Z 2026-02-26T00:00:00Z 2027-02-24T00:00:00Z"),
        ("Mon *-05~07/1", "2026-05-25T00:00:00Z 2027-05-31T00:00:00Z"),
        (
            "*-05~1..3",
            "2026-05-29T00:00:00Z 2026-05-30T00:00:00Z 2026-05-31T00:00:00Z 2027-05-29T00:00:00Z",
        ),
        ("*:0/15", "2026-01-01T00:00:00Z 2026-01-01T00:15:00Z"),
        ("*:*:30/20", "2026-01-01T00:00:30Z 2026-01-01T00:00:50Z 2026-01-01T00:01:30Z"),
        ("8..18/5:00", "2026-01-01T08:00:00Z 2026-01-01T13:00:00Z 2026-01-01T18:00:00Z"),
        ("26-12-24", "2026-12-24T00:00:00Z"),
        ("*-12-24", "2026-12-24T00:00:00Z 2027-12-24T00:00:00Z"),
        ("monday 2:3", "2026-01-05T02:03:00Z"),
        ("weekly", "2026-01-05T00:00:00Z"),
        ("QUARTERLY", "2026-01-01T00:00:00Z 2026-04-01T00:00:00Z"),
        ("semi-annually", "2026-01-01T00:00:00Z 2026-07-01T00:00:00Z"),
        ("hourly", "2026-01-01T00:00:00Z 2026-01-01T01:00:00Z"),
        ("00:00 Europe/Berlin", "2026-01-01T23:00:00Z"),
        ("daily Asia/Tokyo", "2026-01-01T15:00:00Z"),
        ("Fri 2026-02-13 UTC", "2026-02-13T00:00:00Z"),
    ] {
        let wanted: Vec<&str> = wanted.split(' ').collect();
        assert_eq!(next(text, from, wanted.len()), wanted, "{text}");
    }
    assert_eq!(next("2026-12-24", from, 9), ["2026-12-24T00:00:00Z"]);
}

#[test]
fn what_is_refused_is_reported_with_its_character() {
    for (text, wanted) in [
        ("", "is empty"),
        (
            "Fri..Mon",
            "the end of the weekday range at character 6 is before the start of the range (the week begins with Mon)",
        ),
        ("Mon..", "the end of the text after character 5 follows a range without an end"),
        ("Mon.Tue", "'.' at character 4"),
        ("Mon 25:00", "hour 25 at character 5 is out of range, wanted 0 to 23"),
        ("*-13-01", "month 13 at character 3 is out of range, wanted 1 to 12"),
        ("*-00-01", "month 0 at character 3 is out of range"),
        ("*:0/0", "the step 0 at character 5 never advances"),
        ("*:0/60", "minute 0/60 at character 3 has a step that goes past 59"),
        ("09:00:00.5", "'.' at character 9 begins a fraction of a second"),
        ("09", "the end of the text after character 2"),
        ("Mon 09", "follows an hour"),
        ("*-*-* 09:00 Europe/Berlim", "time zone \"Europe/Berlim\" is unknown"),
        ("*-02-30", "has no time before 2100"),
        ("2105-01-01", "has no time before 2100"),
        ("@1790000000", "begins a single instant"),
        ("5..1:00", "hour range 5..1 at character 1 runs backwards"),
        ("Mon09:00", "'0' at character 4 follows the weekday mon"),
        ("09:00:00:00", "':' at character 9 is not understood here"),
        ("*-*-1~2", "'~' at character 6"),
    ] {
        let message = refusal(text).to_string();
        assert!(message.contains(wanted), "{text}: {message}");
    }
    assert!(refusal(&"Mon,".repeat(400)).to_string().contains("at most 1000"));
}

#[test]
fn a_fixed_time_in_a_gap_runs_right_after_it_and_one_in_a_fold_once() {
    let from = "2026-03-28T12:00:00Z";
    assert_eq!(
        next("02:30 Europe/Berlin", from, 2),
        ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    );
    let from = "2026-10-24T12:00:00Z";
    assert_eq!(
        next("02:30 Europe/Berlin", from, 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    assert_eq!(
        next("*:30 Europe/Berlin", "2026-10-25T00:00:00Z", 2),
        ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
    );
    assert_eq!(
        next("0/1:30 Europe/Berlin", "2026-10-25T00:00:00Z", 2),
        ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
    );
}

/// Returns the text of a random component, and a function that returns true for each number that
/// the component selects.
fn component(
    random: &mut fastrand::Rng,
    least: i64,
    most: i64,
    width: usize,
) -> (String, Box<dyn Fn(i64) -> bool>) {
    if random.u8(..3) == 0 {
        return ("*".to_owned(), Box::new(|_| true));
    }
    let mut texts = Vec::new();
    let mut wanted: Vec<(i64, i64, i64)> = Vec::new();
    for _ in 0..random.usize(1..4) {
        let start = random.i64(least..=most);
        let rest = most - start;
        match random.u8(..4) {
            1 if rest > 1 => {
                let until = random.i64(start + 1..=most);
                texts.push(format!("{start:0width$}..{until}"));
                wanted.push((start, until, 1));
            }
            2 if rest > 1 => {
                let step = random.i64(1..=rest);
                texts.push(format!("{start}/{step:0width$}"));
                wanted.push((start, most, step));
            }
            3 if rest > 2 => {
                let until = random.i64(start + 2..=most);
                let step = random.i64(1..=until - start);
                texts.push(format!("{start}..{until}/{step}"));
                wanted.push((start, until, step));
            }
            _ => {
                texts.push(start.to_string());
                wanted.push((start, start, 1));
            }
        }
    }
    let test = move |value: i64| {
        wanted.iter().any(|(start, until, step)| {
            (*start..=*until).contains(&value) && (value - start) % step == 0
        })
    };
    (texts.join(","), Box::new(test))
}

#[test]
fn random_expressions_agree_with_a_walk_over_every_day_and_minute() {
    let mut random = fastrand::Rng::with_seed(26);
    for round in 0..1_500 {
        let (year, is_year) = if random.bool() {
            ("*".to_owned(), Box::new(|_| true) as Box<dyn Fn(i64) -> bool>)
        } else {
            component(&mut random, 2026, 2030, 4)
        };
        let (month, is_month) = component(&mut random, 1, 12, 2);
        let (day, is_day) = component(&mut random, 1, 31, 2);
        let from_end = random.bool();
        let (hour, is_hour) = component(&mut random, 0, 23, 2);
        let (minute, is_minute) = component(&mut random, 0, 59, 2);
        let weekdays = if random.bool() { "Mon,Wed..Fri " } else { "" };
        let mark = if from_end { '~' } else { '-' };
        let text = format!("{weekdays}{year}-{month}{mark}{day} {hour}:{minute}");
        let Ok(expr) = text.parse::<CalendarExpr>() else { continue };
        if from_end && day.contains('/') {
            continue; // The steps of such days go the other way; the manual's examples above cover them.
        }
        let begin = Date::new(2026, 1, 1).number() + random.i64(0..800);
        let matches = |number: i64| {
            let date = Date::of(number);
            let counted = if from_end {
                days_in_month(date.year, date.month) - date.day + 1
            } else {
                date.day
            };
            is_year(date.year)
                && is_month(date.month)
                && is_day(counted)
                && (weekdays.is_empty() || [0, 2, 3, 4].contains(&weekday(number)))
        };
        let wanted = (begin..begin + 1_500).find(|number| matches(*number)).and_then(|number| {
            (0..1_440)
                .find(|at| is_hour(at / 60) && is_minute(at % 60))
                .map(|at| number * DAY + at * 60)
        });
        let found =
            expr.first_from(&Zone::utc(), begin * DAY).filter(|at| *at < (begin + 1_500) * DAY);
        assert_eq!(found, wanted, "{round}: {text}");
        if let Some(found) = found {
            let after = expr.first_from(&Zone::utc(), found + 1);
            assert!(after.is_none_or(|after| after > found), "{text}");
        }
    }
}

#[test]
fn whatever_is_read_ends_and_never_panics() {
    let tokens = [
        "Mon",
        "..",
        "fri",
        ",",
        "-",
        "~",
        "*",
        "/",
        ":",
        " ",
        "0",
        "1",
        "59",
        "60",
        "2026",
        "99999999999999999999",
        ".",
        "UTC",
        "Europe/Berlin",
        "daily",
        "é",
        "\u{0}",
        "\u{2028}",
        "@",
        "-1",
        "31",
        "12",
        "T",
        "0/7",
        "1..5",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let text: String =
            (0..random.usize(0..14)).map(|_| tokens[random.usize(..tokens.len())]).collect();
        let read = text.parse::<CalendarExpr>();
        if let Err(error) = &read {
            assert!(
                error.offset <= text.len() && error.to_string().lines().count() == 1,
                "{text:?}: {error}"
            );
        } else if let Ok(expr) = read {
            expr.first_from(&Zone::utc(), 1_790_000_000);
        }
    }
}
