//! `add` by flags.

use std::fs;

use crate::cli::Bench;

#[test]
fn a_job_is_added_under_its_name_and_under_a_drawn_one() {
    let bench = Bench::start();
    assert_eq!(
        bench.add(&[
            "--name",
            "backup",
            "--cron",
            "30 2 * * *",
            "--tz",
            "Europe/Berlin",
            "--",
            "true"
        ]),
        "backup"
    );
    let drawn = bench.add(&["--in", "10m", "--shell", "true"]);
    assert!(drawn.len() == 14 && drawn.starts_with("job-"), "{drawn}");

    let shown = bench.ctl.run(&["show", "backup", "--json"]).good().json();
    assert_eq!(shown["schedule"], "30 2 * * *");
    assert_eq!(
        (shown["tz"].as_str(), shown["source"].as_str()),
        (Some("Europe/Berlin"), Some("api"))
    );
    assert_eq!(shown["definition"]["command"], serde_json::json!(["true"]));
    assert!(shown["next_due"].as_str().unwrap().contains("T02:30:00.000+0"), "{shown}");
}

#[test]
fn an_add_without_a_time_says_that_the_job_runs_only_by_hand() {
    let bench = Bench::start();
    bench.node.beat("");
    let added = bench.ctl.run(&["add", "--name", "hand", "--", "true"]).good();
    let note = "no time given: job hand runs only by schedctl run hand; now: --in 0s\n";
    assert_eq!((added.stdout.as_str(), added.stderr.as_str()), ("hand\n", note));
    let quiet = bench.ctl.run(&["add", "--name", "quiet", "--quiet", "--", "true"]).good();
    assert_eq!(quiet.stderr, "");
    assert_eq!(
        bench.ctl.run(&["add", "--name", "boot", "--cron", "@reboot", "--", "x"]).stderr,
        ""
    );
}

#[test]
fn the_json_of_an_added_job_names_its_planned_run() {
    let bench = Bench::start();
    let add = |args: &[&str]| bench.ctl.run(&[&["add", "--json"], args].concat()).good().json();
    let later = add(&["--name", "later", "--at", "2099-01-01T00:00:00Z", "--", "true"]);
    assert_eq!(later["run_id"], "later@4070908800000");
    bench.ctl.run(&["show", "later@4070908800000"]).good();
    assert_eq!(add(&["--name", "hand", "--", "true"])["run_id"], serde_json::Value::Null);
    let line = br#"{"name": "line", "at": "2099-01-01T00:00:00Z", "shell": "true"}"#;
    let lines = bench.ctl.run_with_input(&["add", "--stdin", "--json"], line).good().json();
    assert_eq!(lines[0]["run_id"], "line@4070908800000");
}

#[test]
fn add_warns_of_an_unusable_ping_url_or_user_and_refuses_a_mistyped_url() {
    let bench = Bench::start();
    let added = bench.ctl.run(&[
        "add",
        "--name",
        "a",
        "--ping-url",
        "https://h.example/{jobb}",
        "--user",
        "no-such-user",
        "--",
        "true",
    ]);
    assert!(
        added.code == 0 && added.stderr.contains("--ping-url: ") && added.stderr.contains("{jobb}"),
        "{added:?}"
    );
    assert!(added.stderr.contains("--user: this host has no user \"no-such-user\""), "{added:?}");
    let refused =
        bench.ctl.run(&["add", "--name", "b", "--on-failure", "htps://typo/x", "--", "true"]);
    assert!(refused.code == 2 && refused.stderr.contains("which looks like a URL"), "{refused:?}");
    bench.ctl.run(&["show", "b"]).refused(3, &["b"]);
}

#[test]
fn json_gives_the_name_and_when_it_is_due() {
    let bench = Bench::start();
    let added = bench
        .ctl
        .run(&["add", "--name", "a", "--at", "2099-01-02T03:04:05.678Z", "--json", "--", "x"])
        .good()
        .json();
    assert_eq!(
        (added["name"].as_str(), added["next_due"].as_str()),
        (Some("a"), Some("2099-01-02T03:04:05.678Z"))
    );
    let manual = bench.ctl.run(&["add", "--name", "m", "--json", "--", "x"]).good().json();
    assert!(manual["next_due"].is_null() && manual.get("next_due").is_some());
    assert_eq!(bench.ctl.run(&["show", "m", "--json"]).json()["state"], "manual");
}

#[test]
fn every_rule_that_can_be_given_is_kept() {
    let bench = Bench::start();
    bench.node.declare_queue("mail");
    let body = bench.ctl.home().join("body");
    fs::write(&body, "{\"a\": 1}").unwrap();
    bench.add(&[
        "--name",
        "h",
        "--every",
        "90s",
        "--http",
        "https://example.com/x",
        "--method",
        "PUT",
        "--header",
        "X-A: b: c",
        "--body",
        &format!("@{}", body.display()),
        "--expect",
        "200,204",
        "--queue",
        "mail",
        "--timeout",
        "2m",
        "--kill-grace",
        "1s",
        "--retry",
        "3",
        "--retry-delay",
        "5s",
        "--retry-backoff",
        "linear",
        "--retry-on",
        "503,429,503",
        "--done-check",
        "test -e x",
        "--done-check-on",
        "always",
        "--overlap",
        "queue",
        "--catch-up",
        "all",
        "--max-age",
        "12h",
        "--spread",
        "10m",
        "--env",
        "A=b=c",
        "--cwd",
        "/tmp",
        "--umask",
        "027",
        "--user",
        "backup:adm",
        "--limit-memory",
        "512M",
        "--limit-cpu",
        "0.5",
        "--limit-pids",
        "100",
        "--limit-files",
        "1024",
        "--nice",
        "10",
        "--shell-program",
        "/bin/bash",
    ]);
    bench.add(&["--name", "p", "--stdin-text", &format!("@{}", body.display()), "--", "cat"]);
    assert_eq!(
        bench.ctl.run(&["show", "p", "--json"]).good().json()["definition"]["stdin"],
        "{\"a\": 1}"
    );
    let shown = bench.ctl.run(&["show", "h", "--json"]).good().json();
    let definition = &shown["definition"];
    let wanted = serde_json::json!({
        "every": "1m30s",
        "http": {"url": "https://example.com/x", "method": "PUT", "headers": {"X-A": "b: c"}, "body": "{\"a\": 1}", "expect": [200, 204]},
        "queue": "mail", "timeout": "2m", "kill_grace": "1s", "overlap": "queue", "cwd": "/tmp", "env": {"A": "b=c"},
        "user": "backup:adm", "limits": {"memory": "512MiB", "cpu": 0.5, "pids": 100, "files": 1024, "nice": 10},
        "umask": "0027", "shell_program": "/bin/bash",
        "catch_up": {"mode": "all", "max_age": "12h", "max_count": 1000, "spread": "10m"},
    });
    for (key, value) in wanted.as_object().unwrap() {
        assert_eq!(&definition[key], value, "{key}");
    }
    let retry = serde_json::json!({
        "limit": 3, "delay": "5s", "backoff": "linear", "max_delay": "1h", "jitter": true, "on": [429, 503], "never_on": null,
    });
    assert_eq!(definition["retry"], retry);
    assert_eq!(
        definition["done_check"],
        serde_json::json!({"shell": "test -e x", "on": "always", "timeout": "1m"})
    );
    let text = bench.ctl.run(&["show", "h"]).good().stdout;
    assert!(
        text.contains("only on 429 503")
            && text.contains("/bin/bash -c 'test -e x', before each attempt"),
        "{text}"
    );
    assert_eq!(definition["delivery"], "at-least-once");
}

#[test]
fn a_missing_directory_is_a_warning_only() {
    let bench = Bench::start();
    let finished = bench.ctl.run(&["add", "--cwd", "/no/such", "--", "x"]).good();
    assert!(
        finished.stderr.starts_with("schedctl: warning: ") && finished.stderr.contains("/no/such"),
        "{finished:?}"
    );
}
