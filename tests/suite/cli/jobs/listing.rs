//! `list`, `stats` and `nodes`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use schedd_core::domain::run::run_state::RunState;
use serde_json::Value;

use crate::cli::{Bench, lines};

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect()
}

#[test]
fn jobs_are_listed_by_their_next_time_with_every_field() {
    let bench = Bench::start();
    bench.add(&["--name", "m", "--", "x"]);
    bench.add(&[
        "--name",
        "far",
        "--at",
        "2099-01-01T09:00:00",
        "--tz",
        "Europe/Berlin",
        "--",
        "x",
    ]);
    bench.add(&["--name", "near", "--in", "1h", "--", "x"]);
    let list = bench.ctl.run(&["list", "--json"]).good().json();
    assert_eq!(names(&list), ["near", "far", "m"]);
    let far = &list[1];
    assert_eq!(far["next_due"], "2099-01-01T09:00:00.000+01:00");
    for field in ["name", "state", "source", "queue", "schedule", "next_due", "paused", "last_run"]
    {
        assert!(list.as_array().unwrap().iter().all(|job| job.get(field).is_some()), "{field}");
    }
    assert_eq!((&far["paused"], &far["last_run"]), (&Value::Bool(false), &Value::Null));

    let text = bench.ctl.run(&["list"]).good().stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["NEXT", "IN", "LAST", "RESULT", "STATE", "SCHEDULE", "JOB"]
    );
    assert!(lines[1].ends_with("near") && lines[3].ends_with('m'), "{text}");
    assert_eq!(bench.ctl.run(&["list", "--no-headers"]).stdout.lines().count(), 3);
}

#[test]
fn a_job_whose_keys_hold_something_else_hides_no_other() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "1h", "--", "x"]);
    bench.add(&["--name", "b", "--in", "2h", "--", "x"]);
    for key in ["{schedd}:history:a", "{schedd}:open:a"] {
        let () = redis::cmd("SET").arg(&[key, "x"]).query(&mut bench.redis.connection()).unwrap();
    }
    assert_eq!(names(&bench.ctl.run(&["list", "--json"]).good().json()), ["a", "b"]);
}

#[test]
fn filters_take_what_they_say() {
    let bench = Bench::start();
    bench.node.declare_queue("mail");
    bench.node.apply_file_job("filed", r#"{"shell": "x", "every": "1h"}"#);
    bench.add(&["--name", "mailed", "--queue", "mail", "--in", "1h", "--", "x"]);
    bench.add(&["--name", "held", "--in", "1h", "--", "x"]);
    bench.add(&["--name", "busy", "--in", "0s", "--", "x"]);
    bench.add(&["--name", "m", "--", "x"]);
    bench.ctl.run(&["pause", "held"]).good();
    bench.node.claim("busy");
    bench.add(&["--name", "again", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("again");
    bench.node.retry(&claim, std::time::Duration::from_secs(3_600), 7);
    for (args, wanted) in [
        (&["--queue", "mail"][..], &["mailed"][..]),
        (&["--source", "file"], &["filed"]),
        (&["--state", "paused"], &["held"]),
        (&["--state", "running"], &["busy"]),
        (&["--state", "retrying"], &["again"]),
        (&["--state", "manual"], &["m"]),
        (&["--state", "scheduled", "--source", "api"], &["mailed"]),
        (&["--state", "finished"], &[]),
    ] {
        let list = bench.ctl.run(&[&["list", "--json"], args].concat()).good().json();
        assert_eq!(names(&list), wanted, "{args:?}");
    }
    bench
        .ctl
        .run(&["list", "--state", "foo"])
        .refused(2, &["foo", "scheduled, running, retrying, paused, manual, finished"]);
    bench.ctl.run(&["list", "--queue", "A B"]).refused(2, &["A B"]);

    // Its next start is that of the retry, where its schedule has none.
    let shown = bench.ctl.run(&["show", "again", "--json"]).good().json();
    let retry_at =
        bench.ctl.run(&["show", &claim.run.to_string(), "--json"]).good().json()["ready_at"]
            .clone();
    assert_eq!((&shown["state"], &shown["next_due"]), (&"retrying".into(), &Value::Null));
    assert!(
        shown["retry_at"].is_string() && (retry_at.is_null() || retry_at == shown["retry_at"]),
        "{shown} {retry_at}"
    );
    let text = bench.ctl.run(&["show", "again"]).good().stdout;
    assert!(
        text.lines().any(|line| line.starts_with("next ") && line.ends_with(", retry of a run")),
        "{text}"
    );
    let text = bench.ctl.run(&["list", "--state", "retrying"]).good().stdout;
    assert!(!text.lines().nth(1).unwrap().trim_start().starts_with('-'), "{text}");
}

#[test]
fn a_finished_one_shot_is_listed_only_when_asked_for() {
    let bench = Bench::start();
    bench.add(&["--name", "once", "--in", "0s", "--", "x"]);
    bench.add(&["--name", "gone", "--every", "1h", "--", "x"]);
    bench.ctl.run(&["cancel", "gone"]).good();
    let claim = bench.node.claim("once");
    bench.node.finish(&claim, RunState::Succeeded, &[("exit_code", "0")]);
    assert_eq!(bench.ctl.run(&["list", "--json"]).json(), serde_json::json!([]));
    for args in [&["list", "--json", "--all"][..], &["list", "--json", "--state", "finished"]] {
        let list = bench.ctl.run(args).good().json();
        assert_eq!(names(&list), ["once"]);
        assert_eq!(list[0]["state"], "finished");
        assert_eq!(list[0]["last_run"]["state"], "succeeded");
        assert_eq!(list[0]["last_run"]["run_id"], claim.run.to_string());
    }
    bench.add(&["--name", "once", "--in", "1h", "--", "x"]);
    assert_eq!(names(&bench.ctl.run(&["list", "--json", "--all"]).json()), ["once"]);
}

#[test]
fn fifteen_hundred_jobs_are_listed_in_pages_without_a_gap() {
    let bench = Bench::start();
    let at = |n: u32| format!("2099-01-01T{:02}:{:02}:00Z", n / 60, n % 60);
    let timed = lines(0..1_430, |n| {
        format!("{{\"name\": \"j{n:04}\", \"at\": \"{}\", \"shell\": \"x\"}}", at(n))
    });
    let input = timed + &lines(0..70, |n| format!("{{\"name\": \"z{n:02}\", \"shell\": \"x\"}}"));
    bench.ctl.run_with_input(&["add", "--stdin", "--quiet"], input.as_bytes()).good();
    let all: Vec<String> =
        (0..1_430).map(|n| format!("j{n:04}")).chain((0..70).map(|n| format!("z{n:02}"))).collect();

    assert_eq!(names(&bench.ctl.run(&["list", "--json"]).good().json()), all);
    let page =
        bench.ctl.run(&["list", "--json", "--limit", "700", "--offset", "450"]).good().json();
    assert_eq!(names(&page), all[450..1150]);
    let manual = bench
        .ctl
        .run(&["list", "--json", "--state", "manual", "--offset", "60", "--limit", "20"])
        .good()
        .json();
    assert_eq!(names(&manual), all[1490..1500]);
    assert_eq!(
        names(&bench.ctl.run(&["list", "--json", "--offset", "1500"]).good().json()),
        Vec::<&str>::new()
    );
    assert_eq!(bench.ctl.run(&["list"]).stdout.lines().count(), 1_501);
}

#[test]
fn a_reader_that_goes_after_one_line_harms_nothing() {
    let bench = Bench::start();
    bench.node.beat("");
    let input =
        lines(0..3_000, |n| format!("{{\"name\": \"j{n}\", \"in\": \"1h\", \"shell\": \"x\"}}"));
    bench.ctl.run_with_input(&["add", "--stdin", "--quiet"], input.as_bytes()).good();
    for args in [&["list"][..], &["list", "--json"]] {
        let mut child =
            bench.ctl.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{args:?}");
    }
    // Closed from the beginning.
    let mut child = bench
        .ctl
        .command(&["stats"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn a_full_disk_is_no_success() {
    let bench = Bench::start();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output =
        bench.ctl.command(&["stats"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .starts_with("schedctl: the standard output cannot be written")
    );
}

#[test]
fn a_job_nobody_can_read_does_not_hide_the_others() {
    let bench = Bench::start();
    bench.add(&["--name", "good", "--in", "1h", "--", "x"]);
    bench.add(&["--name", "newer", "--in", "1h", "--", "x"]);
    bench.add(&["--name", "damaged", "--in", "1h", "--", "x"]);
    let mut connection = bench.redis.connection();
    let () = redis::cmd("HSET")
        .arg("{schedd}:job:newer")
        .arg("def")
        .arg("{\"wings\": 2}")
        .query(&mut connection)
        .unwrap();
    let () =
        redis::cmd("HDEL").arg("{schedd}:job:damaged").arg("def").query(&mut connection).unwrap();
    let finished = bench.ctl.run(&["list", "--json"]);
    assert_eq!(finished.code, 1);
    assert_eq!(names(&finished.json()), ["good", "newer"]);
    assert!(finished.json()[1]["schedule"].is_null());
    assert!(finished.stderr.contains("damaged"), "{finished:?}");
    let shown = bench.ctl.run(&["show", "newer", "--json"]);
    shown.refused(1, &["newer", "wings"]);
    assert!(shown.json()["definition"].is_null());
}

#[test]
fn every_number_is_always_there() {
    let bench = Bench::start();
    let words = [
        "scheduled",
        "running",
        "succeeded",
        "failed",
        "timed_out",
        "cancelled",
        "skipped",
        "lost",
        "recovered",
        "waiting",
        "jobs",
        "history",
        "output_bytes",
        "quarantined",
        "nodes",
    ];
    let empty = bench.ctl.run(&["stats", "--json"]).good().json();
    assert!(words.iter().all(|word| empty[word] == 0), "{empty}");
    bench.add(&["--name", "a", "--in", "0s", "--", "x"]);
    bench.add(&["--name", "b", "--in", "1h", "--", "x"]);
    let claim = bench.node.claim("a");
    let now = bench.ctl.run(&["stats", "--json"]).json();
    assert_eq!(
        (&now["running"], &now["scheduled"], &now["jobs"]),
        (&1.into(), &1.into(), &2.into())
    );
    bench.node.finish(&claim, RunState::Failed, &[("exit_code", "3")]);
    let now = bench.ctl.run(&["stats", "--json"]).json();
    assert_eq!(
        (&now["running"], &now["failed"], &now["history"]),
        (&0.into(), &1.into(), &1.into())
    );
    let text = bench.ctl.run(&["stats"]).stdout;
    assert!(
        words
            .iter()
            .all(|word| text.lines().any(|line| line.split_whitespace().next() == Some(word))),
        "{text}"
    );
}

#[test]
fn nodes_are_listed_with_what_is_wrong_with_their_file_and_as_gone_when_unseen() {
    let bench = Bench::start();
    assert_eq!(bench.ctl.run(&["nodes", "--json"]).good().json(), serde_json::json!([]));
    bench.node.beat("jobs.toml:3:1: bad");
    let node = bench.ctl.run(&["nodes", "--json"]).good().json()[0].clone();
    assert_eq!((&node["name"], &node["state"]), (&"web-1".into(), &"running".into()));
    assert_eq!(node["config_error"], "jobs.toml:3:1: bad");
    assert!(node["started_at"].is_string() && node["last_seen"].is_string());
    assert!(bench.ctl.run(&["nodes"]).good().stdout.contains("jobs.toml:3:1: bad"));

    bench.node.beat("");
    let mut connection = bench.redis.connection();
    let () = redis::cmd("ZADD")
        .arg("{schedd}:nodes")
        .arg(1_000_000_000_000_i64)
        .arg("web-1")
        .query(&mut connection)
        .unwrap();
    let node = bench.ctl.run(&["nodes", "--json"]).good().json()[0].clone();
    assert_eq!((&node["state"], &node["config_error"]), (&"gone".into(), &Value::Null));
}
