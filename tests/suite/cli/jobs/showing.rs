//! `show`, `history` and `logs`.

use std::time::Duration;

use schedd_core::domain::run::run_state::RunState;
use serde_json::Value;

use crate::cli::Bench;
use crate::cli::runs::played::Facts;

#[test]
fn a_job_is_shown_with_every_rule_and_its_next_times() {
    let bench = Bench::start();
    bench.add(&[
        "--name",
        "backup",
        "--cron",
        "30 2 * * *",
        "--tz",
        "Europe/Berlin",
        "--retry",
        "2",
        "--shell",
        "dump | gzip",
    ]);
    let job = bench.ctl.run(&["show", "backup", "--json"]).good().json();
    assert_eq!(job["upcoming"].as_array().unwrap().len(), 3);
    assert_eq!(job["upcoming"][0], job["next_due"]);
    assert_eq!(job["definition"]["timeout"], "1h");
    assert!(job["rev"].is_string());
    let text = bench.ctl.run(&["show", "backup"]).good().stdout;
    for word in [
        "30 2 * * * (Europe/Berlin)",
        "/bin/sh -c 'dump | gzip'",
        "2 times",
        "at-least-once",
        "skip",
        "latest",
        "1h",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn what_is_not_there_is_answered_with_the_nearest_names() {
    let bench = Bench::start();
    bench.ctl.run(&["show", "backup"]).refused(3, &["no job backup", "no jobs"]);
    bench.add(&["--name", "backup", "--", "x"]);
    bench.add(&["--name", "report", "--", "x"]);
    for verb in ["show", "logs", "pause", "resume", "run", "cancel", "next"] {
        bench.ctl.run(&[verb, "bakcup"]).refused(3, &["no job bakcup", "backup"]);
        bench.ctl.run(&[verb, "zzzzzz"]).refused(3, &["no job zzzzzz", "schedctl list"]);
        // Of these an expression is no bad name.
        if verb != "next" {
            bench.ctl.run(&[verb, "BAD NAME"]).refused(2, &["a-z 0-9"]);
        }
    }
    for verb in ["show", "logs", "cancel"] {
        bench.ctl.run(&[verb, "backup@5"]).refused(3, &["no run backup@5", "history backup"]);
        bench.ctl.run(&[verb, "bakcup@5"]).refused(3, &["no job bakcup", "backup"]);
        bench.ctl.run(&[verb, "backup@"]).refused(2, &["JOB@DUE_MS"]);
    }
}

#[test]
fn a_planted_run_is_shown_though_nothing_is_kept_of_it_yet() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--at", "2099-01-01T00:00:00Z", "--", "x"]);
    let run = bench.ctl.run(&["show", "a@4070908800000", "--json"]).good().json();
    assert_eq!(
        (&run["state"], &run["due"]),
        (&"scheduled".into(), &"2099-01-01T00:00:00.000Z".into())
    );
    assert_eq!(run["attempts"], serde_json::json!([]));
    let logs = bench.ctl.run(&["logs", "a@4070908800000"]).good();
    assert!(logs.stdout.is_empty() && logs.stderr.contains("has not started yet"), "{logs:?}");
}

#[test]
fn a_run_is_shown_with_each_of_its_attempts() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "0s", "--retry", "2", "--", "x"]);
    let first = bench.node.claim("a");
    bench.node.retry(&first, Duration::ZERO, 7);
    let waiting = bench.ctl.run(&["history", "a", "--json"]).good().json();
    assert_eq!((&waiting[0]["state"], &waiting[0]["attempt"]), (&"scheduled".into(), &1.into()));
    assert_eq!(waiting[0]["reason"], "exit code 7");
    let second = bench.node.claim("a");
    let id = second.run.to_string();
    let running = bench.ctl.run(&["show", &id, "--json"]).good().json();
    assert_eq!(
        (&running["state"], &running["attempt"], &running["exit_code"]),
        (&"running".into(), &2.into(), &Value::Null)
    );

    bench.node.finish(&second, RunState::Failed, &[("exit_code", ""), ("signal", "9")]);
    let run = bench.ctl.run(&["show", &id, "--json"]).good().json();
    let attempts = run["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!((&attempts[0]["state"], &attempts[0]["exit_code"]), (&"failed".into(), &7.into()));
    assert_eq!((&attempts[1]["state"], &attempts[1]["signal"]), (&"failed".into(), &9.into()));
    assert_eq!(run["reason"], "signal 9 (KILL)");
    let text = bench.ctl.run(&["show", &id]).good().stdout;
    assert!(text.contains("exit code 7") && text.contains("signal 9 (KILL)"), "{text}");
}

#[test]
fn a_run_asked_for_or_tried_again_by_hand_is_found_while_it_waits() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--retry", "2", "--", "x"]);
    let asked = bench.ctl.run(&["run", "a"]).good().stdout.trim_end().to_owned();
    let found = || -> Vec<(String, String, i64)> {
        let reported = bench.ctl.run(&["history", "a", "--json"]).good().json();
        let shown = bench.ctl.run(&["show", "a", "--json"]).good().json();
        assert_eq!(reported, shown["runs"], "show and history find the same");
        let row = |run: &Value| {
            let text = |field: &str| run[field].as_str().unwrap().to_owned();
            (text("run_id"), text("state"), run["attempt"].as_i64().unwrap())
        };
        reported.as_array().unwrap().iter().map(row).collect()
    };
    let waits = |attempt| vec![(asked.clone(), "scheduled".to_owned(), attempt)];
    assert_eq!(found(), waits(0), "it has not begun");
    let first = bench.node.claim("a");
    bench.node.write(&first, b"first\n", b"", 0);
    bench.node.retry(&first, Duration::from_secs(3_600), 7);
    assert_eq!(found(), waits(1), "it waits for its retry");
    assert_eq!(bench.ctl.run(&["logs", "a"]).good().stdout, "first\n");
    let cancelled = bench.ctl.run(&["cancel", &asked]).good();
    assert!(cancelled.stdout.contains("cancelled"), "{cancelled:?}");
    assert_eq!(found(), [(asked.clone(), "cancelled".to_owned(), 1)], "it is told once");

    let again = bench.ctl.run(&["run", "a"]).good().stdout.trim_end().to_owned();
    bench.node.finish(&bench.node.claim("a"), RunState::Failed, &[("exit_code", "1")]);
    bench.ctl.run(&["retry", &again]).good();
    assert!(found().contains(&(again, "scheduled".to_owned(), 1)), "{:?}", found());
}

#[test]
fn a_run_waiting_for_its_next_done_check_shows_the_reason_and_last_output() {
    let bench = Bench::start();
    for (job, failures) in [("new", 0), ("failed", 1)] {
        bench.add(&["--name", job, "--in", "0s", "--retry", "2", "--done-check", "x", "--", "x"]);
        if failures > 0 {
            bench.node.retry(&bench.node.claim(job), Duration::ZERO, 7);
        }
        let claim = bench.node.claim(job);
        bench.node.write(&claim, b"cannot tell\n", b"", 0);
        bench.node.ask_later(&claim, "done_check gave no clear answer: exit code 2");
        let id = claim.run.to_string();
        let run = bench.ctl.run(&["show", &id, "--json"]).good().json();
        assert_eq!(
            (&run["state"], &run["attempt"]),
            (&"scheduled".into(), &failures.into()),
            "{job}"
        );
        assert_eq!(
            (&run["reason"], &run["unclear"]),
            (&"done_check gave no clear answer: exit code 2".into(), &1.into()),
            "{job}"
        );
        assert_eq!(run["exit_code"], Value::Null, "{job}");
        let text = bench.ctl.run(&["show", &id]).good().stdout;
        assert!(text.contains("done_check gave no clear answer once"), "{text}");
        for target in [job, &id] {
            assert_eq!(bench.ctl.run(&["logs", target]).good().stdout, "cannot tell\n", "{target}");
        }
    }
}

#[test]
fn work_that_was_done_already_and_a_failure_not_retried_say_so() {
    let bench = Bench::start();
    for (job, state, reason) in [
        ("done", RunState::Succeeded, "done_check: already done"),
        ("excluded", RunState::Failed, "not retried, because retry.never_on lists exit code 3"),
    ] {
        bench.add(&["--name", job, "--in", "0s", "--", "x"]);
        let claim = bench.node.claim(job);
        bench.node.finish_because(&claim, state, reason);
        let run =
            bench.ctl.run(&["history", job, "--json"]).good().json().as_array().unwrap()[0].clone();
        assert_eq!((&run["state"], &run["reason"]), (&state.as_str().into(), &reason.into()));
        let text = bench.ctl.run(&["show", &claim.run.to_string()]).good().stdout;
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn history_has_every_field_and_says_why_in_words() {
    let bench = Bench::start();
    let ends: [(&str, RunState, Facts<'_>, Option<&str>); 6] = [
        ("ok", RunState::Succeeded, &[("exit_code", "0")], None),
        ("code", RunState::Failed, &[("exit_code", "3")], Some("exit code 3")),
        ("killed", RunState::Failed, &[("signal", "9")], Some("signal 9 (KILL)")),
        ("http", RunState::Failed, &[("http_status", "500")], Some("status 500")),
        (
            "spawn",
            RunState::Failed,
            &[("error", "cannot start: No such file or directory")],
            Some("cannot start: No such file or directory"),
        ),
        ("slow", RunState::TimedOut, &[("signal", "15")], None),
    ];
    for (name, state, facts, _) in &ends {
        bench.add(&["--name", name, "--in", "0s", "--", "x"]);
        let claim = bench.node.claim(name);
        bench.node.finish(&claim, *state, facts);
    }
    for (name, state, _, reason) in &ends {
        let history = bench.ctl.run(&["history", name, "--json"]).good().json();
        let run = &history[0];
        let fields = [
            "run_id",
            "job",
            "due",
            "state",
            "attempt",
            "fence",
            "node",
            "started_at",
            "finished_at",
            "late_ms",
            "duration_ms",
            "recorded_after_ms",
            "exit_code",
            "http_status",
            "reason",
        ];
        assert!(fields.iter().all(|field| run.get(field).is_some()), "{run}");
        assert_eq!(
            (run["job"].as_str(), run["state"].as_str()),
            (Some(*name), Some(state.as_str()))
        );
        assert_eq!(run["reason"].as_str(), *reason, "{name}");
        assert!(
            run["late_ms"].is_u64()
                && run["duration_ms"].is_u64()
                && run["fence"].is_u64()
                && run["node"] == "web-1"
        );
        assert!(run["started_at"].as_str().unwrap().ends_with('Z'));
    }
    let all = bench.ctl.run(&["history", "--json"]).good().json();
    let jobs: Vec<&str> =
        all.as_array().unwrap().iter().map(|run| run["job"].as_str().unwrap()).collect();
    assert_eq!(jobs, ["slow", "spawn", "http", "killed", "code", "ok"]);
    let some = bench.ctl.run(&["history", "--json", "--limit", "2", "--offset", "1"]).good().json();
    assert_eq!((some.as_array().unwrap().len(), &some[0]["job"]), (2, &"spawn".into()));
    assert!(bench.ctl.run(&["history"]).good().stdout.lines().next().unwrap().starts_with("DUE"));
}

#[test]
fn history_of_a_name_nobody_knows_is_refused_and_of_a_job_that_never_ran_empty() {
    let bench = Bench::start();
    bench.ctl.run(&["history", "nosuch"]).refused(3, &["no job nosuch"]);
    assert_eq!(bench.ctl.run(&["history", "nosuch", "--json"]).code, 3);
    bench.add(&["--name", "a", "--at", "2099-01-01T00:00:00Z", "--", "x"]);
    assert_eq!(bench.ctl.run(&["history", "a", "--json"]).good().json(), serde_json::json!([]));
    for (words, wanted) in [
        (&["a"][..], "no runs of job a\n"),
        (&["a", "--state", "failed"], "no runs of job a match the filters\n"),
        (&["--dead"], "no dead letters\n"),
        (&["a/on_failure"], "no runs of job a/on_failure\n"),
        (&["a", "--quiet"], ""),
    ] {
        let reported = bench.ctl.run(&[&["history"], words].concat()).good();
        assert_eq!((reported.stdout.as_str(), reported.stderr.as_str()), ("", wanted), "{words:?}");
    }
}

#[test]
fn history_refuses_unended_states_except_for_one_job_without_a_time_range() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--at", "2099-01-01T00:00:00Z", "--", "x"]);
    for (words, state) in [
        (&["--state", "running"][..], "running"),
        (&["--state", "failed,scheduled"], "scheduled"),
        (&["a", "--state", "running", "--since", "1h ago"], "running"),
    ] {
        let reported = [
            &format!("--state {state}: "),
            &format!("schedctl history JOB --state {state}"),
            "schedctl list",
        ];
        bench.ctl.run(&[&["history"], words].concat()).refused(2, &reported);
    }
    assert_eq!(bench.ctl.run(&["history", "a", "--state", "running"]).good().stdout, "");
}

#[test]
fn the_beginning_of_an_id_is_enough_if_no_other_run_has_it() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--at", "2099-01-01T00:00:00Z", "--", "x"]);
    assert_eq!(
        bench.ctl.run(&["show", "a@40709", "--json"]).good().json()["run_id"],
        "a@4070908800000"
    );
    bench.ctl.run(&["show", "a@"]).refused(2, &["a@", "JOB@last"]);
    bench.ctl.run(&["show", "a@9"]).refused(3, &["no run a@9"]);
    bench.ctl.run(&["cancel", "a@9"]).refused(3, &["no run a@9"]);
    assert_eq!(
        bench.ctl.run(&["cancel", "a@40709"]).good().stdout,
        "run a@4070908800000 cancelled\n"
    );

    bench.add(&["--name", "b", "--", "x"]);
    let ids = [(); 2].map(|()| {
        let id = bench.ctl.run(&["run", "b"]).good().stdout.trim_end().to_owned();
        bench.node.finish(&bench.node.claim("b"), RunState::Succeeded, &[]);
        id
    });
    for verb in ["show", "logs"] {
        bench.ctl.run(&[verb, "b@1"]).refused(2, &[&ids[0], &ids[1], "wanted a complete id"]);
    }
}

#[test]
fn two_restricted_day_fields_are_explained_where_times_are_shown() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--cron", "0 0 1 * 1", "--", "x"]);
    for args in [&["show", "a"][..], &["next", "a"], &["next", "0 0 1 * 1"]] {
        let said = bench.ctl.run(args).good();
        assert!(format!("{}{}", said.stdout, said.stderr).contains("either is enough"), "{said:?}");
    }
    let json = bench.ctl.run(&["next", "a", "-n", "1", "--quiet", "--no-headers"]).good();
    assert_eq!((json.stdout.lines().count(), json.stderr.as_str()), (1, ""));
}

#[test]
fn history_outlives_the_job_and_begins_with_what_is_open() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1s", "--overlap", "allow", "--", "x"]);
    let ended = bench.node.claim("a");
    bench.node.finish(&ended, RunState::Succeeded, &[("exit_code", "0")]);
    let open = bench.node.claim("a");
    let both = bench.ctl.run(&["history", "a", "--json"]).good().json();
    let ids: Vec<&str> =
        both.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    assert_eq!(ids, [open.run.to_string(), ended.run.to_string()]);
    assert_eq!(
        bench.ctl.run(&["history", "a", "--json", "--offset", "1"]).json()[0]["run_id"],
        ended.run.to_string()
    );
    assert_eq!(
        bench.ctl.run(&["history", "a", "--json", "--limit", "1"]).json().as_array().unwrap().len(),
        1
    );

    bench.ctl.run(&["run", "a"]).good();
    let manual = bench.node.claim("a");
    bench.node.finish(&open, RunState::Succeeded, &[]);
    bench.ctl.run(&["cancel", "a"]).good();
    assert!(
        bench.ctl.run(&["history", "a", "--json"]).good().json().as_array().unwrap().len() >= 3
    );
    drop(manual);
}

#[test]
fn logs_give_each_stream_its_own_way_and_say_what_was_dropped() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("a");
    bench.node.write(&claim, b"out \x1b[31mred\r\n\x07", b"err\n", 123);
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    for target in [claim.run.to_string().as_str(), "a"] {
        let logs = bench.ctl.run(&["logs", target]).good();
        assert_eq!(logs.stdout, "out \u{1b}[31mred\r\n\u{7}");
        assert!(logs.stderr.contains("err\n") && logs.stderr.contains("123 bytes"), "{logs:?}");
        let json = bench.ctl.run(&["logs", target, "--json"]).good().json();
        assert_eq!(
            (&json["stderr"], &json["dropped_bytes"], &json["attempt"]),
            (&"err\n".into(), &123.into(), &1.into())
        );
        assert_eq!(json["run_id"], claim.run.to_string());
    }
    bench.ctl.run(&["logs", "a@5"]).refused(3, &["no run a@5"]);
    bench
        .ctl
        .run(&["logs", &claim.run.to_string(), "--attempt", "2"])
        .refused(3, &["no attempt 2"]);
    bench
        .ctl
        .run(&["logs", claim.run.job().as_str(), "--attempt", "2"])
        .refused(3, &["attempt 2", "their highest attempt is 1"]);
    bench.ctl.run(&["logs", &claim.run.to_string(), "--attempt", "0"]).refused(2, &["--attempt"]);
}

#[test]
fn logs_take_the_newest_run_that_wrote_and_any_attempt_by_number() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1s", "--retry", "1", "--overlap", "allow", "--", "x"]);
    let first = bench.node.claim("a");
    bench.node.write(&first, b"one", b"", 0);
    bench.node.retry(&first, Duration::ZERO, 1);
    let again = bench.node.claim("a");
    assert_eq!((again.run.clone(), again.attempt), (first.run.clone(), 2));
    bench.node.write(&again, b"two", b"", 0);
    bench.node.finish(&again, RunState::Succeeded, &[]);
    let silent = bench.node.claim("a");
    bench.node.finish(&silent, RunState::Succeeded, &[]);
    assert_eq!(bench.ctl.run(&["logs", "a"]).good().stdout, "two");
    assert_eq!(
        bench.ctl.run(&["logs", &first.run.to_string(), "--attempt", "1"]).good().stdout,
        "one"
    );
    let none = bench.ctl.run(&["logs", &silent.run.to_string()]).good();
    let bounds = "max_age, keep_bytes_per_job or keep_bytes of [output]";
    assert!(
        none.stdout.is_empty()
            && none.stderr.contains("has no stored output")
            && none.stderr.contains(bounds),
        "{none:?}"
    );
    assert_eq!(
        bench.ctl.run(&["logs", &silent.run.to_string(), "--json"]).good().json()["stdout"],
        ""
    );
}

#[test]
fn a_word_for_a_schedule_that_is_no_job_is_taken_as_one_and_a_rule_wants_its_start() {
    let bench = Bench::start();
    bench.ctl.run(&["describe", "weekl"]).refused(3, &["no job weekl"]);
    for verb in ["describe", "next"] {
        bench.ctl.run(&[verb, "quarterly"]).good();
        bench
            .ctl
            .run(&[verb, "FREQ=MONTHLY;BYDAY=-1FR"])
            .refused(2, &["iCalendar rule", "wanted --dtstart"]);
        bench.ctl.run(&[verb, "FREQ=MONTHLY;BYDAY=-1FR", "--dtstart", "2026-01-05T09:00"]).good();
    }
    bench.add(&["--name", "quarterly", "--every", "1h", "--", "x"]);
    let reported = bench.ctl.run(&["describe", "quarterly"]).good().stdout;
    assert!(reported.starts_with("every 1h"), "a job of that name comes first: {reported}");
}
