//! `check`.

use std::fs;
use std::path::PathBuf;

use crate::support::ctl::Schedctl;

fn with_file(text: &str) -> (Schedctl, PathBuf) {
    let ctl = Schedctl::alone();
    let file = ctl.home().join("jobs.toml");
    fs::write(&file, text).unwrap();
    (ctl, file)
}

#[test]
fn a_good_file_is_counted_without_any_redis() {
    let (ctl, file) = with_file("[jobs.a]\nshell = \"x\"\n[jobs.b]\nshell = \"y\"\nevery = \"1m\"\n");
    let named = ctl.run(&["check", file.to_str().unwrap()]).good();
    assert_eq!(named.stdout, format!("{}: 2 jobs, no problems\n", file.display()));
    assert_eq!(ctl.run(&["check"]).good().stdout, "jobs.toml: 2 jobs, no problems\n");
    let json = ctl.run(&["check", "--json"]).good().json();
    assert_eq!((&json["jobs"], &json["problems"]), (&2.into(), &serde_json::json!([])));
}

#[test]
fn every_problem_is_told_with_its_place_and_what_was_meant() {
    let (ctl, _) = with_file("[jobs.a]\ncomand = \"x\"\n[jobs.b]\nshell = \"y\"\ntimeout = \"30\"\n");
    let finished = ctl.run(&["check"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (78, ""));
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{finished:?}");
    assert!(lines[0].starts_with("jobs.toml:2:1: jobs.a.comand: ") && lines[0].contains("did you mean \"command\""), "{lines:?}");
    assert!(lines[1].starts_with("jobs.toml:5:11: jobs.b.timeout: ") && lines[1].contains("\"30s\""), "{lines:?}");
    let json = ctl.run(&["check", "--json"]).json();
    let problem = &json["problems"][1];
    assert_eq!(problem["path"], "jobs.b.timeout");
    assert!(lines[1].starts_with(&format!("jobs.toml:{}:{}: ", problem["line"], problem["column"])), "{problem} {lines:?}");
    let (ctl, _) = with_file("[jobs.a\n");
    assert_eq!(ctl.run(&["check"]).code, 78);
}

#[test]
fn a_schedule_whose_last_time_is_past_is_told_and_no_problem() {
    let jobs = [
        ("at", "at = '2020-05-06T07:08:09Z'"),
        ("ended", "cron = '0 9 * * *'\nend = '2021-01-01'"),
        ("daily", "cron = '0 9 * * *'"),
        ("pausing", "delay = '1h'"),
        ("by-hand", ""),
        ("boot", "cron = '@reboot'"),
    ];
    let tables = jobs.map(|(name, lines)| format!("[jobs.{name}]\ntz = 'UTC'\nshell = 'x'\n{lines}\n"));
    let (ctl, _) = with_file(&tables.concat());
    let checked = ctl.run(&["check"]).good();
    assert_eq!(checked.stdout, "jobs.toml: 6 jobs, no problems\n", "{checked:?}");
    let told: Vec<&str> = checked.stderr.lines().collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("jobs.toml: jobs.at: no time to come: the last was 2020-05-06T07:08:09.000"), "{told:?}");
    assert!(told[1].contains("jobs.ended: no time to come: the last was 2020-12-31T09:00:00.000"), "{told:?}");
    assert_eq!(ctl.run(&["check", "--json"]).good().json()["warnings"].as_array().unwrap().len(), 2);
}

#[test]
fn a_missing_file_is_a_bad_one() {
    let ctl = Schedctl::alone();
    let finished = ctl.run(&["check", "/no/such.toml"]);
    assert_eq!(finished.code, 78);
    assert!(finished.stderr.contains("/no/such.toml: no such file"), "{finished:?}");
    ctl.run(&["check"]).refused(78, &["./jobs.toml", "/etc/schedd/jobs.toml"]);
}

#[test]
fn the_example_has_no_problems() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/jobs.toml");
    Schedctl::alone().run(&["check", example]).good();
}
