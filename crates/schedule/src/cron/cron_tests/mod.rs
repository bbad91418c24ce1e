//! Examples of the meaning of cron expressions, and of refused texts with their messages.

mod clocks;
mod damaged;

use jiff::Timestamp;

use super::{CronExpr, period_of};
use crate::clock_changes::ClockChanges;
use crate::time::zone::{Zone, ZoneName};

fn refusal(text: &str) -> String {
    text.parse::<CronExpr>().unwrap_err().to_string()
}

/// Returns the first `count` occurrences after `from`, as local times with their offsets from UTC.
fn occurrences(text: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    occurrences_of(&text.parse().unwrap(), zone, from, count)
}

fn occurrences_of(expr: &CronExpr, zone: &str, from: &str, count: usize) -> Vec<String> {
    let zone = Zone::load(&zone.parse::<ZoneName>().unwrap()).unwrap();
    let mut last = from.parse::<Timestamp>().unwrap().as_second();
    let mut found = Vec::new();
    while found.len() < count
        && let Some(next) = expr.first_from(&zone, last + 1)
    {
        let shown = Timestamp::from_second(next).unwrap().to_zoned(zone.rules().clone());
        found.push(shown.strftime("%F %T%:z").to_string());
        last = next;
    }
    found
}

fn same(left: &str, right: &str) {
    for from in ["2026-01-01T00:00:00Z", "2026-06-30T23:59:59Z"] {
        assert_eq!(
            occurrences(left, "UTC", from, 20),
            occurrences(right, "UTC", from, 20),
            "{left} and {right}"
        );
    }
}

#[test]
fn each_form_of_the_language_means_what_crontab_says() {
    same("0 0 * * 7", "0 0 * * 0");
    same("0 0 * * 1-5", "0 0 * * mon-FRI");
    same("0 0 * * 5-7", "0 0 * * fri,sat,sun");
    same("0 0 * * FRI-MON", "0 0 * * 5,6,0,1");
    same("0 0 * JAN-3 MON-5", "0 0 * 1-3 1-5");
    same("0 0 * * SAT-SUN", "0 0 * * 6,0");
    same("0 0 * * 7-2", "0 0 * * SUN-TUE");
    same("0 22-2 * * *", "0 22,23,0,1,2 * * *");
    same("0 22-3/2 * * *", "0 22,0,2 * * *");
    same("0 0 1 NOV-feb *", "0 0 1 11,12,1,2 *");
    same("5/10 * * * *", "5,15,25,35,45,55 * * * *");
    same("*/60 0-23/100 * * *", "0 0 * * *");
    same("0 0 ? * MON", "0 0 * * 1");
    same("0 0 1 * ?", "0 0 1 * *");
    same("  0\t0 1 * *\n", "0 0 1 * *");
    same("0 30 2 * * *", "30 2 * * *");
    same("0 30 2 * * * *", "30 2 * * *");
    for (word, fields) in [
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@MONTHLY", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ] {
        same(word, fields);
    }
}

#[test]
fn two_restricted_day_fields_are_either_or_and_a_star_makes_them_both() {
    let from = "2026-02-01T00:00:00Z";
    assert_eq!(
        occurrences("0 0 13 * 5", "UTC", from, 3),
        ["2026-02-06 00:00:00+00:00", "2026-02-13 00:00:00+00:00", "2026-02-20 00:00:00+00:00"]
    );
    // Odd days that are Mondays: a day field that begins with `*` must match together with the
    // other.
    assert_eq!(
        occurrences("0 0 */2 * 1", "UTC", from, 2),
        ["2026-02-09 00:00:00+00:00", "2026-02-23 00:00:00+00:00"]
    );
}

#[test]
fn seconds_and_years_are_kept_to() {
    assert_eq!(
        occurrences("*/20 59 23 31 12 ? 2027", "UTC", "2026-01-01T00:00:00Z", 5),
        ["2027-12-31 23:59:00+00:00", "2027-12-31 23:59:20+00:00", "2027-12-31 23:59:40+00:00"]
    );
    assert!(occurrences("0 0 0 1 1 * 2020-2024/2", "UTC", "2026-01-01T00:00:00Z", 1).is_empty());
    assert_eq!(
        occurrences("0 0 29 2 */7", "UTC", "2026-01-01T00:00:00Z", 2),
        ["2032-02-29 00:00:00+00:00", "2060-02-29 00:00:00+00:00"]
    );
    assert_eq!(
        occurrences("0 0 0 1 1 * 2099", "Europe/Berlin", "2026-01-01T00:00:00Z", 2),
        ["2099-01-01 00:00:00+01:00"]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of refusals")]
fn a_refusal_names_field_position_and_what_is_wanted() {
    for (text, offset, wanted) in [
        ("60 * * * *", 0, "minute 60 at character 1 is out of range, wanted 0-59"),
        ("0 24 * * *", 2, "hour 24 at character 3 is out of range, wanted 0-23"),
        ("0 0 0 * *", 4, "day of month 0 at character 5 is out of range, wanted 1-31"),
        ("0 0 1 13 *", 6, "month 13 at character 7 is out of range, wanted 1-12 or JAN-DEC"),
        ("0 0 * * 8", 8, "weekday 8 at character 9 is out of range, wanted 0-7 or SUN-SAT"),
        ("0 0 0 1 1 * 2100", 12, "year 2100 at character 13 is out of range, wanted 1970-2099"),
        (
            "1,2,99999999999999999999 * * * *",
            4,
            "minute 99999999999999999999 at character 5 is out of range, wanted 0-59",
        ),
        ("*/0 * * * *", 2, "minute step 0 at character 3 never advances, wanted 1 or more"),
        ("*/x * * * *", 2, "minute step \"x\" at character 3 is not a number, wanted 1 or more"),
        (
            "5-1 * * * *",
            0,
            "minute range 5-1 at character 1 runs backwards, wanted the smaller value first",
        ),
        (
            "0 0 9-3 * *",
            4,
            "day of month range 9-3 at character 5 runs backwards, wanted the smaller value first",
        ),
        ("MON * * * *", 0, "minute \"MON\" at character 1 is the name of a weekday, wanted 0-59"),
        (
            "0 0 * MON *",
            6,
            "month \"MON\" at character 7 is the name of a weekday, wanted 1-12 or JAN-DEC",
        ),
        (
            "0 0 * * Sunny",
            8,
            "weekday \"Sunny\" at character 9 is not understood, wanted 0-7 or SUN-SAT",
        ),
        ("1,,3 * * * *", 2, "minute has an empty list item at character 3, wanted 0-59"),
        ("0 1, * * *", 4, "hour has an empty list item at character 5, wanted 0-23"),
        ("-5 * * * *", 0, "minute has no value at character 1, wanted 0-59"),
        ("? * * * *", 0, "minute \"?\" at character 1 is not understood, wanted 0-59"),
        ("0 0 * * *1", 8, "weekday \"*1\" at character 9 is not understood, wanted 0-7 or SUN-SAT"),
        (
            "0 0 30 2 *",
            4,
            "day of month 30 at character 5 matches no day before 2100, wanted a day that exists",
        ),
        (
            "0 0 31W 4,6,9,11 *",
            4,
            "day of month 31W at character 5 matches no day before 2100, wanted a day that exists",
        ),
        (
            "0 0 */31 * 5L",
            4,
            "day of month */31 at character 5 matches no day before 2100, wanted a day that exists",
        ),
        (
            "0 0 0 29 2 * 2027",
            6,
            "day of month 29 at character 7 matches no day before 2100, wanted a day that exists",
        ),
        (
            "0 0 * * L",
            8,
            "weekday \"L\" at character 9 has no weekday before the L (write 5L for the last Friday, or 6 for every Saturday), wanted 0-7 or SUN-SAT",
        ),
        ("0 0 * * MON#6", 12, "weekday ordinal \"6\" at character 13 is out of range, wanted 1-5"),
        ("0 0 * * 5#0", 10, "weekday ordinal \"0\" at character 11 is out of range, wanted 1-5"),
        ("0 0 * * 8#1", 8, "weekday 8 at character 9 is out of range, wanted 0-7 or SUN-SAT"),
        ("0 0 * * 1,5L/2", 10, "weekday \"5L/2\" at character 11 takes no step, wanted 5L"),
        ("0 0 32W * *", 4, "day of month 32 at character 5 is out of range, wanted 1-31"),
        (
            "0 0 L-31 * *",
            4,
            "day of month \"L-31\" at character 5 is not understood, wanted L-1 to L-30",
        ),
        ("0 0 W * *", 4, "day of month \"W\" at character 5 is not understood, wanted 1-31"),
        ("0 L * * *", 2, "hour \"L\" at character 3 is not understood, wanted 0-23"),
        (
            "0 0 15 * 3W",
            9,
            "weekday \"3W\" at character 10 is not understood, wanted 0-7 or SUN-SAT",
        ),
        (
            "H(5) * * * *",
            0,
            "minute \"H(5)\" at character 1 is not understood, wanted H or H(0-59)",
        ),
        ("H(0-70) * * * *", 4, "minute 70 at character 5 is out of range, wanted 0-59"),
        (
            "H(9-3) * * * *",
            2,
            "minute range 9-3 at character 3 runs backwards, wanted the smaller value first",
        ),
        (
            "0 0 H(20-31) * *",
            6,
            "day of month H(20-31) at character 7 has days that some months lack, wanted 1-28",
        ),
        ("0 0 0 1 1 * H", 12, "year H at character 13 is not supported, wanted 1970-2099"),
        (
            "@dayly",
            0,
            "\"@dayly\" at character 1 is not a known word, wanted @hourly, @daily, @midnight, @weekly, @monthly, @yearly, \
          @annually, @reboot or @every 90s",
        ),
        (
            "CRON_TZ=UTC 0 0 * * *",
            0,
            "second \"CRON_TZ=UTC\" at character 1 sets a variable (set the zone of a job with the key tz or with --tz), wanted 0-59",
        ),
        (
            "0~30 * * * *",
            0,
            "minute \"0~30\" at character 1 uses ~ for a random value (write H(0-30) for a fixed value of each job), wanted 0-59",
        ),
        (
            "0 0 * * \u{e9}",
            8,
            "'\u{e9}' at character 9 is not allowed, wanted letters of a-z, digits and the signs * , - / # ?",
        ),
        ("@hourly 5", 8, "\"5\" at character 9 follows @hourly, wanted the end of the text"),
    ] {
        let error = text.parse::<CronExpr>().unwrap_err();
        assert_eq!((error.to_string(), error.offset), (format!("cron {text:?}: {wanted}"), offset));
    }
}

#[test]
fn a_wrong_number_of_fields_is_counted() {
    let wanted = "wanted 5 (minute, hour, day of month, month, weekday), 6 with leading seconds or 7 with trailing years";
    assert_eq!(
        refusal("* * * *"),
        format!(
            "cron \"* * * *\": the expression has 4 fields (the expression ends before character 8), {wanted}"
        )
    );
    assert_eq!(
        refusal("******"),
        format!(
            "cron \"******\": the expression has 1 field (the expression ends before character 7), {wanted}"
        )
    );
    let eight = "* * * * * * * 5".parse::<CronExpr>().unwrap_err();
    assert_eq!(
        (eight.problem, eight.offset),
        (
            format!(
                "the expression has 8 fields (the first extra field is at character 15), {wanted}"
            ),
            14
        )
    );
    assert!(refusal(" ").contains("is empty, wanted 5 fields"));
    let long = format!("{} * * * *", "1,".repeat(499));
    assert!(refusal(&long).contains("the expression has 1006 bytes, wanted at most 1000"));
}

#[test]
fn an_expression_keeps_its_text_and_equals_by_it() {
    let expr: CronExpr = "30 2 * * MON".parse().unwrap();
    assert_eq!((expr.as_str(), expr.to_string().as_str()), ("30 2 * * MON", "30 2 * * MON"));
    assert_eq!(expr, expr.clone());
    assert_ne!(expr, "30 2 * * 1".parse().unwrap());
    assert_eq!(format!("{expr:?}"), "CronExpr(\"30 2 * * MON\")");
}

#[test]
fn letters_stand_for_days_by_their_place_in_the_month() {
    let days = |text: &str, count: usize| -> Vec<String> {
        let found = occurrences(text, "UTC", "2026-01-01T00:00:00Z", count);
        found.iter().map(|at| at[5..10].to_owned()).collect()
    };
    assert_eq!(days("0 9 L * *", 3), ["01-31", "02-28", "03-31"]);
    assert_eq!(days("0 9 L-2 * *", 3), ["01-29", "02-26", "03-29"]);
    // 31 January and 28 February 2026 are Saturdays.
    assert_eq!(days("0 9 LW * *", 3), ["01-30", "02-27", "03-31"]);
    assert_eq!(days("0 9 lw * *", 1), ["01-30"]);
    // A Saturday moves to Friday and a Sunday to Monday, but neither leaves its month.
    assert_eq!(days("0 9 1W * *", 3), ["01-01", "02-02", "03-02"]);
    assert_eq!(days("0 9 1W 8 *", 1), ["08-03"]);
    assert_eq!(days("0 9 31W 5 *", 1), ["05-29"]);
    assert_eq!(days("0 9 15W 2,3,8 *", 3), ["02-16", "03-16", "08-14"]);
    assert_eq!(days("0 9 31W * *", 4), ["01-30", "03-31", "05-29", "07-31"]);
    assert_eq!(days("0 9 29W 2 *", 1), ["02-29"]);
    assert_eq!(days("0 9 * * 5#2", 3), ["01-09", "02-13", "03-13"]);
    assert_eq!(days("0 9 * * mon#5", 3), ["03-30", "06-29", "08-31"]);
    assert_eq!(days("0 9 * * 7#1", 2), ["01-04", "02-01"]);
    assert_eq!(days("0 9 * * FRIL", 3), ["01-30", "02-27", "03-27"]);
    assert_eq!(days("0 9 * * 0l", 2), ["01-25", "02-22"]);
    // A list may contain items such as `L`, and the rule of the two day fields applies to them too.
    assert_eq!(days("0 9 15,L * *", 4), ["01-15", "01-31", "02-15", "02-28"]);
    assert_eq!(days("0 9 L * 5#2", 4), ["01-09", "01-31", "02-13", "02-28"]);
    assert_eq!(days("0 9 */2 * 5L", 2), ["02-27", "03-27"]);
}

#[test]
fn h_is_drawn_from_the_name_and_stays() {
    let rule = ClockChanges::default();
    let first = |text: &str, name: &str| {
        let expr = text.parse::<CronExpr>().unwrap().for_job(name, rule);
        occurrences_of(&expr, "UTC", "2026-01-01T00:00:00Z", 3)
            .into_iter()
            .map(|at| at[5..16].to_owned())
            .collect::<Vec<_>>()
    };
    // By sha1sum: the first 8 bytes of "backup:minute" are 25 modulo 60, those of "backup:hour" 8
    // modulo 24.
    assert_eq!(
        first("H H * * *", "backup"),
        ["01-01T08:25", "01-02T08:25", "01-03T08:25"].map(|at| at.replace('T', " "))
    );
    assert_eq!(
        first("H(0-29)/10 H(7-8) H * *", "backup"),
        ["01-09 07:05", "01-09 07:15", "01-09 07:25"]
    );
    assert_eq!(first("H/15 0 * * *", "backup"), ["01-01 00:10", "01-01 00:25", "01-01 00:40"]);
    assert_eq!(first("0 0 H * *", "backup"), ["01-09 00:00", "02-09 00:00", "03-09 00:00"]);
    assert_eq!(first("0 0 * * H(MON-FRI)", "backup").len(), 3);
    assert_ne!(first("H H * * *", "backup"), first("H H * * *", "report"));
    // An expression without an `H` does not depend on the name.
    assert_eq!(first("5 4 * * *", "backup"), first("5 4 * * *", "report"));
    assert!(
        "H * * * *".parse::<CronExpr>().unwrap().is_drawn()
            && !"@daily".parse::<CronExpr>().unwrap().is_drawn()
    );
}

#[test]
fn many_jobs_are_spread_evenly_within_the_range_they_name() {
    let hits = |text: &str, lowest: usize, highest: usize| {
        let mut hits = [0_u32; 60];
        for number in 0..3_000 {
            let expr = text
                .parse::<CronExpr>()
                .unwrap()
                .for_job(&format!("job-{number}"), ClockChanges::default());
            for at in occurrences_of(&expr, "UTC", "2026-01-01T00:59:59Z", 1) {
                hits[at[14..16].parse::<usize>().unwrap()] += 1;
            }
        }
        assert_eq!(hits.iter().sum::<u32>(), 3_000);
        assert!(
            hits.iter()
                .enumerate()
                .all(|(minute, hits)| (lowest..=highest).contains(&minute) == (*hits > 0)),
            "{hits:?}"
        );
        let drawn = &hits[lowest..=highest];
        let even = 3_000 / u32::try_from(drawn.len()).unwrap();
        assert!(drawn.iter().all(|hits| (even / 2..even * 2).contains(hits)), "{text}: {drawn:?}");
    };
    hits("H * * * *", 0, 59);
    hits("H(10-39) * * * *", 10, 39);
    hits("H/15 * * * *", 0, 14);
}

#[test]
fn every_is_a_period_and_no_expression() {
    let period = |text: &str| {
        period_of(text).map(|period| {
            period.map(|period| period.as_millis()).map_err(|error| error.to_string())
        })
    };
    assert_eq!(period("@every 90s"), Some(Ok(90_000)));
    assert_eq!(period(" @EVERY\t1h 30m "), Some(Ok(5_400_000)));
    assert_eq!(period("* * * * *"), None);
    assert_eq!(period("@everyone"), None);
    let refused = |text: &str| period(text).unwrap().unwrap_err();
    assert_eq!(
        refused("@every 500ms"),
        "cron \"@every 500ms\": @every 500ms is out of range, wanted 1s to 10 years"
    );
    assert!(refused("@every").contains("@every: duration \"\" is empty"));
    assert!(refused("@every 5").contains("has no unit, write \"5s\""));
    assert!(refusal("@every 90s").contains("@every at character 1 is mixed with other schedules"));
}

#[test]
fn a_boot_is_at_no_time_of_a_clock() {
    let expr: CronExpr = " @Reboot ".parse().unwrap();
    assert!(expr.is_at_boot() && !"@daily".parse::<CronExpr>().unwrap().is_at_boot());
    assert!(occurrences_of(&expr, "Europe/Berlin", "2026-01-01T00:00:00Z", 1).is_empty());
    assert!(refusal("@reboot 5").contains("follows @reboot, wanted the end of the text"));
}
