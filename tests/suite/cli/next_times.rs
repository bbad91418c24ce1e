//! `next`.

use super::Bench;
use crate::support::ctl::Schedctl;

fn alone() -> Schedctl {
    Schedctl::alone().env("TZ", "UTC")
}

#[test]
fn an_expression_needs_no_redis() {
    let times =
        alone().run(&["next", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-03-26", "-n", "3", "--json"]).good().json();
    // At 02:30 on the 28th the clock is set forward: the run follows the crontab's rule for a time that is skipped.
    assert_eq!(times[0], "2027-03-26T02:30:00.000+01:00");
    assert_eq!(times[1], "2027-03-27T02:30:00.000+01:00");
    assert!(times[2].as_str().unwrap().starts_with("2027-03-28T03:"), "{times}");
    let macros = alone().run(&["next", "@daily", "--from", "2027-01-01T00:00:00Z", "--json"]).good().json();
    assert_eq!(macros.as_array().unwrap().len(), 5);
    assert_eq!(macros[0], "2027-01-02T00:00:00.000Z");
}

#[test]
fn day_of_month_and_weekday_together_are_either() {
    let times = alone().run(&["next", "0 0 1 * 1", "--tz", "UTC", "--from", "2027-01-31", "-n", "2", "--json"]).good().json();
    assert_eq!(times, serde_json::json!(["2027-02-01T00:00:00.000Z", "2027-02-08T00:00:00.000Z"]));
}

#[test]
fn text_tells_local_time_utc_and_how_far_it_is() {
    let text = alone().run(&["next", "0 9 * * *", "--tz", "Europe/Berlin", "-n", "1"]).good().stdout;
    assert!(text.contains("09:00:00 CE") && text.contains(":00:00.000Z") && text.contains("in "), "{text}");
}

#[test]
fn what_never_comes_or_cannot_be_read_is_refused() {
    let alone = alone();
    alone.run(&["next", "0 0 30 2 *"]).refused(2, &["never comes"]);
    alone.run(&["next", "* * * *"]).refused(2, &["4 fields"]);
    alone.run(&["next", "A"]).refused(2, &["cron \"A\""]);
    alone.run(&["next", "@daily", "--tz", "Europe/Munich"]).refused(2, &["Munich"]);
    alone.run(&["next", "@daily", "--from", "yesterdy"]).refused(2, &["--from", "yesterdy"]);
    alone.run(&["next", "0 0 0 1 1 * 2027", "--from", "2028-01-01"]).refused(2, &["no time after", "2100"]);
    alone.run(&["next", "@daily", "-n", "0"]).refused(2, &["--count", "1..=100000"]);
    alone.run(&["next", "backup"]).refused(69, &["schedd is not running"]);
}

#[test]
fn a_schedule_that_ends_gives_fewer_times() {
    let times = alone().run(&["next", "0 0 0 1 1 * 2027,2028", "--tz", "UTC", "--from", "2026-12-01", "--json"]).good().json();
    assert_eq!(times, serde_json::json!(["2027-01-01T00:00:00.000Z", "2028-01-01T00:00:00.000Z"]));
}

#[test]
fn a_job_has_its_own_zone_and_one_by_hand_no_times() {
    let bench = Bench::start();
    bench.add(&["--name", "b", "--cron", "0 9 * * *", "--tz", "Asia/Tokyo", "--", "x"]);
    bench.add(&["--name", "m", "--", "x"]);
    bench.add(&["--name", "e", "--every", "90s", "--", "x"]);
    let times = bench.ctl.run(&["next", "b", "-n", "2", "--json"]).good().json();
    assert!(times[0].as_str().unwrap().ends_with("T09:00:00.000+09:00"), "{times}");
    let elsewhere = bench.ctl.run(&["next", "b", "-n", "1", "--tz", "UTC", "--json"]).good().json();
    assert!(elsewhere[0].as_str().unwrap().ends_with("T00:00:00.000Z"), "{elsewhere}");
    let next_due = bench.ctl.run(&["show", "e", "--json"]).json()["next_due"].clone();
    assert_eq!(bench.ctl.run(&["next", "e", "-n", "1", "--json"]).good().json()[0], next_due);
    bench.ctl.run(&["next", "m"]).refused(2, &["no schedule", "schedctl run m"]);
}
