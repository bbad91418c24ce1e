//! Durations: every flag of every verb, and a file, read them by the same rules.

use std::fs;

use crate::cli::Bench;
use crate::support::ctl::Schedctl;

/// Calls that end with a duration, each without Redis until the duration is judged.
const FLAGS: [&[&str]; 10] = [
    &["add", "--shell", "x", "--in"],
    &["add", "--shell", "x", "--every"],
    &["add", "--shell", "x", "--timeout"],
    &["add", "--shell", "x", "--kill-grace"],
    &["add", "--shell", "x", "--retry", "1", "--retry-delay"],
    &["add", "--shell", "x", "--max-age"],
    &["add", "--shell", "x", "--spread"],
    &["add", "--shell", "x", "--at", "in 1h", "--timeout"],
    &["run", "a", "--wait", "--wait-timeout"],
    &["purge", "--dead", "--older-than"],
];

#[test]
fn every_flag_takes_every_form_and_refuses_with_the_same_words() {
    let alone = Schedctl::alone().env("TZ", "UTC");
    for call in FLAGS {
        let with = |text: &str| alone.run(&[call, &[text]].concat());
        for good in ["90s", "2m30s", "1h", "PT1M30S", "1.5m", "10 minutes"] {
            with(good).refused(69, &["found no schedd"]);
        }
        let flag = call.last().unwrap();
        with("30").refused(2, &[flag, "\"30s\""]);
        with("soon").refused(
            2,
            &[flag, "\"soon\"", "in the place of a number, wanted numbers with the units"],
        );
        with("1h30").refused(2, &[flag, "no unit after the number 30"]);
        with("5 fortnights").refused(2, &[flag, "unknown unit \"fortnights\""]);
        with("P1M").refused(2, &[flag, "no fixed length"]);
        with("").refused(2, &[flag]);
    }
}

#[test]
fn a_file_and_a_line_read_them_alike() {
    let alone = Schedctl::alone();
    let file = alone.home().join("jobs.toml");
    for good in ["90s", "2m30s", "1h", "PT1M30S", "1.5m", "10 minutes", "P1D", "1w"] {
        fs::write(&file, format!("[jobs.a]\nshell = \"x\"\nevery = \"{good}\"\n")).unwrap();
        alone.run(&["check"]).good();
    }
    fs::write(&file, "[jobs.a]\nshell = \"x\"\nevery = \"1h30\"\n").unwrap();
    assert!(alone.run(&["check"]).stderr.contains("no unit after the number 30"));
    let bench = Bench::start();
    let lines = "{\"name\": \"a\", \"shell\": \"x\", \"every\": \"PT1M30S\"}\n{\"shell\": \"x\", \"in\": \"1h30\"}\n";
    let finished = bench.ctl.run_with_input(&["add", "--stdin"], lines.as_bytes());
    assert!(
        finished.code == 1 && finished.stderr.contains("no unit after the number 30"),
        "{finished:?}"
    );
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).good().json()["schedule"], "every 1m30s");
    bench
        .ctl
        .run(&["history", "--since", "30"])
        .refused(2, &["--since", "has no unit, write \"30s\""]);
    for since in ["2h30m", "yesterday", "fri", "@1790000000", "3 days ago", "dec 24"] {
        bench.ctl.run(&["history", "--since", since]).good();
    }
}
