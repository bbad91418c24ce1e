//! Examples: what the language means, what is refused and how, and the table of clock changes.

use jiff::Timestamp;

use super::CronExpr;
use crate::domain::zone::{Zone, ZoneName};

fn refusal(text: &str) -> String {
    text.parse::<CronExpr>().unwrap_err().to_string()
}

/// The first `count` occurrences after `from`, as the wall clock of the zone shows them with its offset.
fn occurrences(text: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let zone = Zone::load(&zone.parse::<ZoneName>().unwrap()).unwrap();
    let expr: CronExpr = text.parse().unwrap();
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
        assert_eq!(occurrences(left, "UTC", from, 20), occurrences(right, "UTC", from, 20), "{left} and {right}");
    }
}

#[test]
fn each_form_of_the_language_means_what_crontab_says() {
    same("0 0 * * 7", "0 0 * * 0");
    same("0 0 * * 1-5", "0 0 * * mon-FRI");
    same("0 0 * * 5-7", "0 0 * * fri,sat,sun");
    same("0 0 * * FRI-MON", "0 0 * * 5,6,0,1");
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
    // Odd days that are Mondays: a field that begins with a star restricts the other one.
    assert_eq!(occurrences("0 0 */2 * 1", "UTC", from, 2), ["2026-02-09 00:00:00+00:00", "2026-02-23 00:00:00+00:00"]);
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
    assert_eq!(occurrences("0 0 0 1 1 * 2099", "Europe/Berlin", "2026-01-01T00:00:00Z", 2), ["2099-01-01 00:00:00+01:00"]);
}

#[test]
fn a_refusal_names_field_position_and_what_is_wanted() {
    for (text, offset, wanted) in [
        ("60 * * * *", 0, "minute 60 at character 1 is out of range, wanted 0-59"),
        ("0 24 * * *", 2, "hour 24 at character 3 is out of range, wanted 0-23"),
        ("0 0 0 * *", 4, "day of month 0 at character 5 is out of range, wanted 1-31"),
        ("0 0 1 13 *", 6, "month 13 at character 7 is out of range, wanted 1-12 or JAN-DEC"),
        ("0 0 * * 8", 8, "weekday 8 at character 9 is out of range, wanted 0-7 or SUN-SAT"),
        ("0 0 0 1 1 * 2100", 12, "year 2100 at character 13 is out of range, wanted 1970-2099"),
        ("1,2,99999999999999999999 * * * *", 4, "minute 99999999999999999999 at character 5 is out of range, wanted 0-59"),
        ("*/0 * * * *", 2, "minute step 0 at character 3 never moves on, wanted 1 or more"),
        ("*/x * * * *", 2, "minute step \"x\" at character 3 is not a number, wanted 1 or more"),
        ("5-1 * * * *", 0, "minute range 5-1 at character 1 runs backwards, wanted the smaller value first"),
        ("0 0 9-3 * *", 4, "day of month range 9-3 at character 5 runs backwards, wanted the smaller value first"),
        ("MON * * * *", 0, "minute \"MON\" at character 1 is the name of a weekday, wanted 0-59"),
        ("0 0 * MON *", 6, "month \"MON\" at character 7 is the name of a weekday, wanted 1-12 or JAN-DEC"),
        ("0 0 * * Sunny", 8, "weekday \"Sunny\" at character 9 is not understood, wanted 0-7 or SUN-SAT"),
        ("0 0 * * MON-5", 8, "weekday range MON-5 at character 9 mixes a name and a number, wanted one kind"),
        ("1,,3 * * * *", 2, "minute has an empty list item at character 3, wanted 0-59"),
        ("0 1, * * *", 4, "hour has an empty list item at character 5, wanted 0-23"),
        ("-5 * * * *", 0, "minute has no value at character 1, wanted 0-59"),
        ("? * * * *", 0, "minute \"?\" at character 1 is not understood, wanted 0-59"),
        ("0 0 * * *1", 8, "weekday \"*1\" at character 9 is not understood, wanted 0-7 or SUN-SAT"),
        ("0 0 30 2 *", 0, "never comes before 2100, wanted a day that exists"),
        ("0 0 * * \u{e9}", 8, "'\u{e9}' at character 9 is not understood, wanted digits, names and * , - /"),
        ("@hourly 5", 8, "\"5\" at character 9 follows @hourly, wanted nothing after it"),
    ] {
        let error = text.parse::<CronExpr>().unwrap_err();
        assert_eq!((error.to_string(), error.offset), (format!("cron {text:?}: {wanted}"), offset));
    }
}

#[test]
fn a_wrong_number_of_fields_is_counted() {
    let wanted = "wanted 5 (minute, hour, day of month, month, weekday), 6 with leading seconds or 7 with trailing years";
    assert_eq!(refusal("* * * *"), format!("cron \"* * * *\": 4 fields found, {wanted}"));
    assert_eq!(refusal("******"), format!("cron \"******\": 1 field found, {wanted}"));
    let eight = "* * * * * * * 5".parse::<CronExpr>().unwrap_err();
    assert_eq!((eight.problem, eight.offset), (format!("8 fields found, {wanted}"), 14));
    assert!(refusal(" ").contains("is empty, wanted 5 fields"));
    let long = format!("{} * * * *", "1,".repeat(499));
    assert!(refusal(&long).contains("1006 bytes found, wanted at most 1000"));
}

#[test]
fn what_other_dialects_know_is_refused_by_its_name() {
    for (text, sign) in [
        ("0 0 L * *", "L (the last)"),
        ("0 0 L-3 * *", "L (counted"),
        ("0 0 * * 5L", "L (the last)"),
        ("0 0 * * FRIL", "L (the last)"),
        ("0 0 15W * *", "W (the nearest"),
        ("0 0 LW * *", "W (the nearest"),
        ("0 0 * * MON#2", "# (the n-th"),
        ("0 0 * * MON#6", "# (the n-th"),
        ("0 0 * * 5#2", "# (the n-th"),
        ("H * * * *", "H (a value"),
        ("H/15 * * * *", "H (a value"),
        ("H(0-29)/10 * * * *", "H (a value"),
    ] {
        let error = refusal(text);
        assert!(error.contains("not supported yet") && error.contains(sign), "{error}");
    }
    assert!(refusal("@reboot").contains("@reboot at character 1 is not supported yet"));
    assert!(refusal("@every 5m").contains("write every = \"5m\""));
    assert!(refusal("@dayly").contains("\"@dayly\" at character 1 is not a known word, wanted @hourly, @daily"));
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
fn a_fixed_job_in_a_gap_runs_once_right_after_it() {
    let eve = "2026-03-28T12:00:00Z";
    for (text, first, second) in [
        ("30 2 * * *", "2026-03-29 03:00:00+02:00", "2026-03-30 02:30:00+02:00"),
        ("0,30 2 * * *", "2026-03-29 03:00:00+02:00", "2026-03-30 02:00:00+02:00"),
        ("30 2,3 * * *", "2026-03-29 03:00:00+02:00", "2026-03-29 03:30:00+02:00"),
        ("0,30 2-3 * * *", "2026-03-29 03:00:00+02:00", "2026-03-29 03:30:00+02:00"),
        ("*/10 30 2 * * *", "2026-03-29 03:00:00+02:00", "2026-03-30 02:30:00+02:00"),
    ] {
        assert_eq!(occurrences(text, "Europe/Berlin", eve, 2), [first, second], "{text}");
    }
    // At midnight, and by half an hour.
    assert_eq!(occurrences("5 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", 1), ["2026-09-06 01:00:00-03:00"]);
    assert_eq!(occurrences("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", 1), ["2026-10-04 02:30:00+11:00"]);
}

#[test]
fn a_wild_job_follows_real_time_through_a_gap() {
    let before = "2026-03-29T00:44:00Z";
    assert_eq!(
        occurrences("*/15 * * * *", "Europe/Berlin", before, 3),
        ["2026-03-29 01:45:00+01:00", "2026-03-29 03:00:00+02:00", "2026-03-29 03:15:00+02:00"]
    );
    assert_eq!(occurrences("*/15 2 * * *", "Europe/Berlin", before, 1), ["2026-03-30 02:00:00+02:00"]);
    assert_eq!(occurrences("@hourly", "Europe/Berlin", before, 1), ["2026-03-29 03:00:00+02:00"]);
}

#[test]
fn a_fixed_job_runs_once_in_a_fold() {
    let eve = "2026-10-24T23:30:00Z";
    assert_eq!(occurrences("30 2 * * *", "Europe/Berlin", eve, 2), ["2026-10-25 02:30:00+02:00", "2026-10-26 02:30:00+01:00"]);
    assert_eq!(
        occurrences("0,30 2 * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 3),
        ["2026-10-25 02:00:00+02:00", "2026-10-25 02:30:00+02:00", "2026-10-26 02:00:00+01:00"]
    );
    assert_eq!(
        occurrences("0 1-3 * * *", "Europe/Berlin", "2026-10-24T22:30:00Z", 3),
        ["2026-10-25 01:00:00+02:00", "2026-10-25 02:00:00+02:00", "2026-10-25 03:00:00+01:00"]
    );
    // Asked from within the second pass it is over for today.
    assert_eq!(occurrences("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1), ["2026-10-26 02:30:00+01:00"]);
}

#[test]
fn a_wild_job_runs_in_both_passes_of_a_fold_in_order() {
    let expected: Vec<String> = ["+02:00", "+01:00"]
        .iter()
        .flat_map(|offset| ["00", "15", "30", "45"].map(|minute| format!("2026-10-25 02:{minute}:00{offset}")))
        .collect();
    assert_eq!(occurrences("*/15 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 8), expected);
    assert_eq!(
        occurrences("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 3),
        ["2026-10-25 02:30:00+02:00", "2026-10-25 02:30:00+01:00", "2026-10-25 03:30:00+01:00"]
    );
    assert_eq!(occurrences("@hourly", "America/New_York", "2026-11-01T05:00:00Z", 1), ["2026-11-01 01:00:00-05:00"]);
}

#[test]
fn a_change_of_three_hours_or_more_is_a_correction_whose_new_time_counts_at_once() {
    // Samoa had no 30 December 2011.
    assert_eq!(occurrences("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00:00Z", 1), ["2011-12-31 12:00:00+14:00"]);
}
