//! Tests of clock changes: the effect of a gap and a fold on each kind of job, and on each rule
//! `dst`.

use super::{occurrences, occurrences_of};
use crate::clock_changes::{ClockChanges, Fold, Gap};
use crate::cron::CronExpr;

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
    // Gaps at midnight and of half an hour.
    assert_eq!(
        occurrences("5 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", 1),
        ["2026-09-06 01:00:00-03:00"]
    );
    assert_eq!(
        occurrences("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", 1),
        ["2026-10-04 02:30:00+11:00"]
    );
}

#[test]
fn a_wild_job_follows_real_time_through_a_gap() {
    let before = "2026-03-29T00:44:00Z";
    assert_eq!(
        occurrences("*/15 * * * *", "Europe/Berlin", before, 3),
        ["2026-03-29 01:45:00+01:00", "2026-03-29 03:00:00+02:00", "2026-03-29 03:15:00+02:00"]
    );
    assert_eq!(
        occurrences("*/15 2 * * *", "Europe/Berlin", before, 1),
        ["2026-03-30 02:00:00+02:00"]
    );
    assert_eq!(occurrences("@hourly", "Europe/Berlin", before, 1), ["2026-03-29 03:00:00+02:00"]);
}

#[test]
fn a_fixed_job_runs_once_in_a_fold() {
    let eve = "2026-10-24T23:30:00Z";
    assert_eq!(
        occurrences("30 2 * * *", "Europe/Berlin", eve, 2),
        ["2026-10-25 02:30:00+02:00", "2026-10-26 02:30:00+01:00"]
    );
    assert_eq!(
        occurrences("0,30 2 * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 3),
        ["2026-10-25 02:00:00+02:00", "2026-10-25 02:30:00+02:00", "2026-10-26 02:00:00+01:00"]
    );
    assert_eq!(
        occurrences("0 1-3 * * *", "Europe/Berlin", "2026-10-24T22:30:00Z", 3),
        ["2026-10-25 01:00:00+02:00", "2026-10-25 02:00:00+02:00", "2026-10-25 03:00:00+01:00"]
    );
    // A search that starts in the second pass finds no more occurrence on this day.
    assert_eq!(
        occurrences("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1),
        ["2026-10-26 02:30:00+01:00"]
    );
}

#[test]
fn a_wild_job_runs_in_both_passes_of_a_fold_in_order() {
    let expected: Vec<String> = ["+02:00", "+01:00"]
        .iter()
        .flat_map(|offset| {
            ["00", "15", "30", "45"].map(|minute| format!("2026-10-25 02:{minute}:00{offset}"))
        })
        .collect();
    assert_eq!(occurrences("*/15 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 8), expected);
    assert_eq!(
        occurrences("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 3),
        ["2026-10-25 02:30:00+02:00", "2026-10-25 02:30:00+01:00", "2026-10-25 03:30:00+01:00"]
    );
    assert_eq!(
        occurrences("@hourly", "America/New_York", "2026-11-01T05:00:00Z", 1),
        ["2026-11-01 01:00:00-05:00"]
    );
}

#[test]
fn a_change_of_three_hours_or_more_is_a_correction_whose_new_time_counts_at_once() {
    // Samoa had no 30 December 2011.
    assert_eq!(
        occurrences("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00:00Z", 1),
        ["2011-12-31 12:00:00+14:00"]
    );
}

#[test]
fn a_job_may_choose_what_a_gap_and_a_fold_do() {
    let gap = |text: &str, gap: Gap| {
        let expr = text
            .parse::<CronExpr>()
            .unwrap()
            .for_job("a", ClockChanges { gap: Some(gap), fold: None });
        occurrences_of(&expr, "Europe/Berlin", "2026-03-28T12:00:00Z", 1).remove(0)
    };
    assert_eq!(gap("30 2 * * *", Gap::RunAfter), "2026-03-29 03:00:00+02:00");
    assert_eq!(gap("30 2 * * *", Gap::Skip), "2026-03-30 02:30:00+02:00");
    assert_eq!(gap("*/15 2 * * *", Gap::RunAfter), "2026-03-29 03:00:00+02:00");
    assert_eq!(gap("*/15 2 * * *", Gap::Skip), "2026-03-30 02:00:00+02:00");
    let fold = |text: &str, fold: Fold| -> Vec<String> {
        let expr = text
            .parse::<CronExpr>()
            .unwrap()
            .for_job("a", ClockChanges { gap: None, fold: Some(fold) });
        let found = occurrences_of(&expr, "Europe/Berlin", "2026-10-24T23:00:00Z", 4);
        found
            .iter()
            .filter(|at| at.starts_with("2026-10-25 02"))
            .map(|at| at[11..].replace(":00+", "+"))
            .collect()
    };
    for (text, shown) in [("30 2 * * *", "02:30"), ("30 * * * *", "02:30")] {
        assert_eq!(fold(text, Fold::First), [format!("{shown}+02:00")], "{text}");
        assert_eq!(fold(text, Fold::Last), [format!("{shown}+01:00")], "{text}");
        assert_eq!(
            fold(text, Fold::Both),
            [format!("{shown}+02:00"), format!("{shown}+01:00")],
            "{text}"
        );
    }
    // A search that starts between both passes still finds the second pass.
    let last = ClockChanges { gap: None, fold: Some(Fold::Last) };
    let expr = "30 2 * * *".parse::<CronExpr>().unwrap().for_job("a", last);
    assert_eq!(
        occurrences_of(&expr, "Europe/Berlin", "2026-10-25T00:45:00Z", 1),
        ["2026-10-25 02:30:00+01:00"]
    );
}
