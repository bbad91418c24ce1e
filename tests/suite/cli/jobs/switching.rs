//! `pause` and `resume`.

use crate::cli::Bench;

#[test]
fn a_paused_job_has_no_next_time_until_it_is_resumed() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1h", "--", "x"]);
    let before = bench.ctl.run(&["show", "a", "--json"]).json();
    assert_eq!(bench.ctl.run(&["pause", "a"]).good().stdout, "job a paused\n");
    let paused = bench.ctl.run(&["show", "a", "--json"]).json();
    assert_eq!((&paused["state"], &paused["paused"]), (&"paused".into(), &true.into()));
    assert!(paused["next_due"].is_null());
    let again = bench.ctl.run(&["pause", "a"]).good();
    assert!(again.stdout.contains("already paused"), "{again:?}");

    let resumed = bench.ctl.run(&["resume", "a", "--json"]).good().json();
    assert_eq!(
        (&resumed[0]["result"], &resumed[0]["next_due"]),
        (&"resumed".into(), &before["next_due"])
    );
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).json()["next_due"], before["next_due"]);
    assert!(bench.ctl.run(&["resume", "a"]).good().stdout.contains("not paused"));
}

#[test]
fn resume_reports_the_time_that_was_set_for_the_next_run() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1h", "--", "x"]);
    let set = bench.ctl.run(&["next", "a", "--set", "20h"]).good().stdout;
    let (_, at) = set.split_once(" starts at ").unwrap();
    bench.ctl.run(&["pause", "a"]).good();
    assert_eq!(bench.ctl.run(&["resume", "a"]).good().stdout, format!("job a resumed, next {at}"));
}

#[test]
fn every_job_named_is_tried_and_the_worst_code_given() {
    let bench = Bench::start();
    bench.add(&["--name", "first", "--every", "1h", "--", "x"]);
    bench.add(&["--name", "last", "--every", "1h", "--", "x"]);
    let finished = bench.ctl.run(&["pause", "first", "nosuch", "last", "--json"]);
    finished.refused(3, &["nosuch"]);
    assert_eq!(finished.json().as_array().unwrap().len(), 2);
    assert_eq!(
        bench.ctl.run(&["list", "--state", "paused", "--json"]).json().as_array().unwrap().len(),
        2
    );
    let quiet = bench.ctl.run(&["resume", "first", "last", "--quiet"]).good();
    assert_eq!(quiet.stdout, "");
    bench.ctl.run(&["pause"]).refused(2, &["JOB"]);
}

#[test]
fn a_name_that_is_no_name_keeps_the_others_as_they_are() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1h", "--", "x"]);
    bench.ctl.run(&["pause", "a", "NO"]).refused(2, &["NO"]);
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).json()["paused"], false);
}
