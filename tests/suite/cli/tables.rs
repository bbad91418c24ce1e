//! Tables: their columns, their order and their alignment, and the warning that no schedd runs.

use std::time::Duration;

use schedd_core::domain::run::run_state::RunState;

use crate::cli::Bench;

/// Asserts that each cell of a table begins below its header.
#[track_caller]
fn assert_aligned(text: &str) {
    let headers = text.lines().next().unwrap();
    let starts = headers
        .char_indices()
        .filter(|(at, letter)| *letter != ' ' && (*at == 0 || headers[..*at].ends_with("  ")));
    for (at, _) in starts {
        for line in text.lines().skip(1).take_while(|line| !line.is_empty()) {
            let is_cell = line.as_bytes().get(at).is_some_and(|letter| *letter != b' ')
                && (at == 0 || line[..at].ends_with("  "));
            assert!(is_cell, "column {at} of {line:?} in\n{text}");
        }
    }
}

/// Returns the names in the column JOB, which is the last column.
fn jobs(text: &str) -> Vec<&str> {
    text.lines().skip(1).map(|line| line.split_whitespace().next_back().unwrap()).collect()
}

#[test]
fn list_shows_a_job_that_fails_with_its_result_and_its_schedule() {
    let bench = Bench::start();
    bench.add(&["--name", "good", "--every", "1s", "--", "x"]);
    bench.add(&["--name", "bad", "--every", "1s", "--", "x"]);
    bench.add(&["--name", "new", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--", "x"]);
    bench.node.finish(&bench.node.claim("good"), RunState::Succeeded, &[]);
    bench.node.finish(&bench.node.claim("bad"), RunState::Failed, &[("exit_code", "7")]);
    let text = bench.ctl.run(&["list"]).good().stdout;
    assert_aligned(&text);
    let line = |name: &str| text.lines().find(|line| line.ends_with(name)).unwrap().to_owned();
    assert!(line("bad").contains(" failed  ") && line("bad").contains(" 1s  "), "{text}");
    assert!(line("good").contains(" succeeded "), "{text}");
    assert!(line("new").contains("30 2 * * *"), "{text}");

    let failed = bench.ctl.run(&["list", "--failed", "--json"]).good().json();
    assert_eq!((failed.as_array().unwrap().len(), &failed[0]["name"]), (1, &"bad".into()));
    assert_eq!(failed[0]["last_run"]["state"], "failed");
    let wide = bench.ctl.run(&["list", "--wide", "--failed"]).good().stdout;
    assert_aligned(&wide);
    assert!(wide.contains("exit code 7") && wide.contains(" api "), "{wide}");
}

#[test]
fn list_takes_a_pattern_of_names() {
    let bench = Bench::start();
    for (name, after) in [("backup", "1h"), ("backup-db", "2h"), ("report", "3h")] {
        bench.add(&["--name", name, "--in", after, "--", "x"]);
    }
    for (pattern, wanted) in [
        ("backup", &["backup"][..]),
        ("backup*", &["backup", "backup-db"]),
        ("*p?rt", &["report"]),
        ("*", &["backup", "backup-db", "report"]),
    ] {
        assert_eq!(jobs(&bench.ctl.run(&["list", pattern]).good().stdout), wanted, "{pattern}");
    }
    let none = bench.ctl.run(&["list", "x*"]).good();
    assert!(
        none.stdout.is_empty() && none.stderr.contains("no jobs match the filters"),
        "{none:?}"
    );
    assert_eq!(bench.ctl.run(&["list", "x*", "--json"]).good().json(), serde_json::json!([]));
}

#[test]
fn list_sorts_a_retrying_job_by_its_retry_and_names_its_pause() {
    let bench = Bench::start();
    bench.add(&["--name", "m", "--", "x"]);
    bench.add(&["--name", "soon", "--in", "30m", "--", "x"]);
    bench.add(&["--name", "far", "--in", "2h", "--", "x"]);
    bench.add(&["--name", "again", "--every", "1s", "--", "x"]);
    bench.node.retry(&bench.node.claim("again"), Duration::from_secs(3_600), 7);
    bench.ctl.run(&["pause", "again"]).good();
    let text = bench.ctl.run(&["list"]).good().stdout;
    assert_eq!(jobs(&text), ["soon", "again", "far", "m"], "{text}");
    assert!(text.contains("  retrying, paused  "), "{text}");
    for state in ["paused", "retrying"] {
        let list = bench.ctl.run(&["list", "--state", state, "--json"]).good().json();
        assert_eq!((&list[0]["name"], &list[0]["paused"]), (&"again".into(), &true.into()));
    }
}

#[test]
fn history_is_aligned_when_an_open_run_comes_first() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1s", "--overlap", "allow", "--", "x"]);
    for _ in 0..2 {
        bench.node.finish(&bench.node.claim("a"), RunState::Succeeded, &[("exit_code", "0")]);
    }
    bench.node.claim("a");
    let text = bench.ctl.run(&["history", "a"]).good().stdout;
    assert!(text.lines().nth(1).unwrap().contains(" running "), "{text}");
    assert_aligned(&text);
}

#[test]
fn show_aligns_the_texts_behind_all_labels() {
    let bench = Bench::start();
    bench.add(&[
        "--name",
        "a",
        "--cron",
        "30 2 * * *",
        "--tz",
        "Europe/Berlin",
        "--dst-gap",
        "skip",
        "--must-start-within",
        "2s",
        "--on-late",
        "true",
        "--on-recovered",
        "true",
        "--done-check",
        "true",
        "--on",
        "n1",
        "--",
        "x",
    ]);
    let text = bench.ctl.run(&["show", "a"]).good().stdout;
    assert_eq!(text.matches("n1").count(), 1, "{text}");
    for label in ["clock changes", "on recovered", "must start", "done check", "job"] {
        let line = text.lines().find(|line| line.starts_with(label)).expect(label);
        let (label, rest) = line.split_at(14);
        assert!(label.ends_with(' ') && !rest.starts_with(' '), "{line:?} in\n{text}");
    }
}

#[test]
fn nodes_are_sorted_by_name_and_a_node_that_is_gone_has_no_count() {
    let bench = Bench::start();
    bench.node.beat("");
    let mut connection = bench.redis.connection();
    for name in ["zeta", "alpha"] {
        let key = format!("{{schedd}}:node:{name}");
        let () = redis::pipe()
            .cmd("HSET")
            .arg(&key)
            .arg(&["state", "running", "running", "5"])
            .cmd("ZADD")
            .arg("{schedd}:nodes")
            .arg(1_000_000_000_000_i64)
            .arg(name)
            .query(&mut connection)
            .unwrap();
    }
    let json = bench.ctl.run(&["nodes", "--json"]).good().json();
    let nodes: Vec<(&str, &serde_json::Value)> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["name"].as_str().unwrap(), &node["running"]))
        .collect();
    let null = serde_json::Value::Null;
    assert_eq!(nodes, [("alpha", &null), ("web-1", &2.into()), ("zeta", &null)]);
    let text = bench.ctl.run(&["nodes"]).good().stdout;
    assert!(!text.contains(" 5 "), "{text}");
    assert_aligned(&text);
}

#[test]
fn verbs_warn_on_standard_error_while_no_schedd_runs() {
    let bench = Bench::start();
    let warning = "schedctl: warning: no schedd is running in namespace schedd";
    let verbs: [&[&str]; 6] = [
        &["add", "--name", "a", "--in", "1h", "--", "x"],
        &["list"],
        &["list", "--json"],
        &["nodes"],
        &["run", "a"],
        &["groups", "--json"],
    ];
    for verb in verbs {
        let warned = bench.ctl.run(verb).good();
        assert_eq!(warned.stderr.matches(warning).count(), 1, "{verb:?} {warned:?}");
    }
    let line = b"{\"name\": \"b\", \"in\": \"1h\", \"shell\": \"x\"}\n";
    let added = bench.ctl.run_with_input(&["add", "--stdin"], line).good();
    assert!(added.stderr.contains(warning), "{added:?}");
    assert_eq!(bench.ctl.run(&["nodes"]).good().stdout, "");
    assert_eq!(bench.ctl.run(&["nodes", "--json"]).good().json(), serde_json::json!([]));

    bench.node.beat("");
    for verb in &verbs[1..] {
        let quiet = bench.ctl.run(verb).good();
        assert!(!quiet.stderr.contains("no schedd"), "{verb:?} {quiet:?}");
    }
    let stray = ["add", "--name", "c", "--in", "1h", "--on", "nowhere", "--", "x"];
    let words = "warning: node nowhere does not run, or does not serve this queue";
    let stray = bench.ctl.run(&stray).good();
    assert!(stray.stderr.contains(words), "{stray:?}");
    let () = redis::cmd("ZADD")
        .arg("{schedd}:nodes")
        .arg(1_000_000_000_000_i64)
        .arg("web-1")
        .query(&mut bench.redis.connection())
        .unwrap();
    let gone = bench.ctl.run(&["list"]).good().stderr;
    assert!(gone.contains(warning) && gone.contains("(node web-1 was last seen "), "{gone}");
}
