//! `add` by flags.

use std::fs;
use std::process::Stdio;

use redis::Commands;
use schedd::config::job_from_json;
use schedd::domain::run::run_state::RunState;
use schedd::domain::time::zone::Zone;
use schedd::engine::planning::planting::{Applied, Request, apply_one};
use schedd::store::{Existing, SourceKind};

use crate::cli::Bench;
use crate::support::ctl::{Finished, Schedctl};
use crate::support::eye::Eye;
use crate::support::wait::{LONG, until};

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
fn an_add_that_waits_ends_as_the_planned_run_did() {
    let bench = Bench::start();
    bench.node.beat("");
    for (json, code) in [(&[][..], 3), (&["--json"], 4)] {
        let name = format!("work{code}");
        let args = ["add", "--name", &name, "--in", "0s", "--wait", "--", "true"];
        let mut command = bench.ctl.command(&[&args[..6], json, &args[6..]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let claim = bench.node.claim(&name);
        bench.node.finish(&claim, RunState::Failed, &[("exit_code", &code.to_string())]);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        if json.is_empty() {
            assert_eq!(stdout, format!("{name}\n"));
        } else {
            let run: serde_json::Value = serde_json::from_str(&stdout).unwrap();
            assert_eq!((&run["job"], &run["exit_code"]), (&name.into(), &code.into()));
        }
    }
    let add = |args: &[&str]| bench.ctl.run(&[&["add", "--wait"], args, &["--", "true"]].concat());
    add(&[]).refused(2, &["--wait: found no time", "--in 0s"]);
    add(&["--in", "0s", "--wait-timeout", "soon"]).refused(2, &["--wait-timeout", "soon"]);
    let late = add(&["--name", "far", "--in", "1h", "--wait-timeout", "300ms"]);
    assert_eq!(late.code, 124, "{late:?}");
    bench.ctl.run(&["show", "far"]).good();

    // Another add moves the job: the awaited run is no failure, but it is not planned any more.
    let moved = ["add", "--name", "moved", "--replace", "--in", "1h", "--shell", "x"];
    let mut command = bench.ctl.command(&[&moved[..], &["--wait"]].concat());
    let waiter = command.stderr(Stdio::piped()).spawn().unwrap();
    until("the job is there", LONG, || {
        Some(()).filter(|()| bench.ctl.run(&["show", "moved"]).code == 0)
    });
    bench.ctl.run(&moved).good();
    let ended = waiter.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("job moved was changed, and its run is now moved@"), "{said}");
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
fn the_instant_a_job_is_due_in_is_reported_beside_its_name() {
    let bench = Bench::start();
    let added = bench
        .ctl
        .run(&["add", "--name", "soon", "--in", "10m", "--tz", "Asia/Tokyo", "--", "x"])
        .good();
    let due = bench.ctl.run(&["show", "soon", "--json"]).good().json()["next_due"].clone();
    assert_eq!(added.stdout, "soon\n");
    assert!(
        added.stderr.starts_with(&format!("at {} (Asia/Tokyo), in ", due.as_str().unwrap())),
        "{added:?} {due}"
    );
    let quiet =
        bench.ctl.run(&["add", "--name", "later", "--in", "10m", "--quiet", "--", "x"]).good();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("later\n", ""));
}

#[test]
fn in_no_time_is_due_at_once() {
    let bench = Bench::start();
    bench.add(&["--name", "now", "--in", "0s", "--", "x"]);
    assert_eq!(bench.node.claim("now").run.job().as_str(), "now");
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
fn anchor_start_and_end_take_the_times_people_say_and_report_what_was_understood() {
    let bench = Bench::start();
    bench.node.beat("");
    let every = [
        "--every",
        "1h",
        "--tz",
        "Europe/Berlin",
        "--anchor",
        "2026-01-01 00:30",
        "--start",
        "tomorrow noon",
    ];
    let added = bench
        .ctl
        .run(
            &[&["add", "--name", "a"][..], &every, &["--end", "2099-05-01 9am", "--", "x"]]
                .concat(),
        )
        .good();
    assert_eq!(
        added.stderr.lines().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(),
        ["anchor", "start", "end"]
    );
    assert!(
        added.stderr.contains("end 2099-05-01T09:00:00.000+02:00 (Europe/Berlin)"),
        "{added:?}"
    );
    let definition = bench.ctl.run(&["show", "a", "--json"]).good().json()["definition"].clone();
    assert_eq!(
        (&definition["anchor"], &definition["end"]),
        (&"2025-12-31T23:30:00.000Z".into(), &"2099-05-01T07:00:00.000Z".into())
    );
    let next = bench.ctl.run(&["next", "a", "-n", "1", "--json"]).good().json();
    assert!(next[0].as_str().unwrap().contains("T12:30:00.000+"), "{next}");
    let gap =
        ["add", "--every", "1h", "--tz", "Europe/Berlin", "--start", "2027-03-28 02:30", "--", "x"];
    bench.ctl.run(&gap).refused(2, &["--start", "does not exist in Europe/Berlin"]);
}

#[test]
fn a_job_that_will_never_run_by_itself_is_added_with_a_warning() {
    let bench = Bench::start();
    for past in [&["--cron", "0 0 0 1 1 * 2020"][..], &["--every", "1h", "--end", "yesterday"]] {
        let added = bench.ctl.run(&[&["add"], past, &["--", "x"]].concat()).good();
        assert!(
            added.stderr.contains("has no future time, so it runs only by schedctl run"),
            "{added:?}"
        );
    }
    for silent in [&[][..], &["--cron", "@reboot"], &["--in", "1h"], &["--delay", "1h"]] {
        let added = bench.ctl.run(&[&["add"], silent, &["--", "x"]].concat()).good();
        assert!(!added.stderr.contains("no future time"), "{added:?}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of refusals")]
fn what_cannot_be_meant_is_refused_in_one_line_before_redis_is_asked() {
    let alone = Schedctl::alone().env("TZ", "UTC");
    let endless = format!("https://example.com/{}", "x".repeat(10_000));
    let cases: &[(&[&str], &[&str])] = &[
        (&["--at", "tomorow 9", "--", "x"], &["tomorow", "tomorrow", "2026-12-24"]),
        (
            &["--at", "2027-03-28T02:30", "--tz", "Europe/Berlin", "--", "x"],
            &["does not exist", "01:59:59+01:00", "03:00:00+02:00"],
        ),
        (&["--at", "02/03/2027", "--", "x"], &["\"2027-03-02\" or \"2027-02-03\""]),
        (&["--at", "2h30m", "--", "x"], &["wanted a time such as \"in 2h30m\""]),
        (&["--at", "9999-01-01", "--", "x"], &["1970 to 2099"]),
        (&["--at", "@1000000000000000000", "--", "x"], &["1970 to 2099"]),
        (
            &["--http", "http://h/", "--limit-cpu", "1", "--nice", "3"],
            &[
                "--limit-cpu, --nice: limits has no effect, because an HTTP request starts no process",
            ],
        ),
        (
            &["--http", "http://h/", "--stdin-text", "x"],
            &[
                "--stdin-text: stdin has no effect, because an HTTP request starts no process: remove stdin",
            ],
        ),
        (&["--tz", "Europe/Munich", "--", "x"], &["--tz", "Munich", "nearest"]),
        (&["--tz", "EST5EDT6", "--", "x"], &["--tz", "EST5EDT6"]),
        (&["--tz", "", "--", "x"], &["--tz"]),
        (&["--cron", "* * * *", "--", "x"], &["--cron", "4 fields", "wanted 5"]),
        (&["--cron", "60 * * * *", "--", "x"], &["minute 60", "0-59"]),
        (&["--cron", "*/0 * * * *", "--", "x"], &["step 0"]),
        (&["--cron", "5-1 * * * *", "--", "x"], &["5-1"]),
        (&["--cron", "0 0 30 2 *", "--", "x"], &["matches no day before 2100"]),
        (
            &["--cron", "@rebot", "--", "x"],
            &["\"@rebot\" at character 1 is not a known word", "@reboot"],
        ),
        (&["--queue", "@web", "--", "x"], &["--queue", "a name without @"]),
        (&["--cron", "0 0 * * MON#6", "--", "x"], &["MON#6"]),
        (
            &["--retry", "1", "--delivery", "at-most-once", "--", "x"],
            &["--delivery", "contradicts retry.limit 1"],
        ),
        (
            &["--retry", "1", "--retry-on", "3", "--retry-never-on", "3", "--", "x"],
            &["--retry-never-on", "found code 3 in both on and never_on"],
        ),
        (
            &["--retry", "1", "--retry-on", "503", "--", "x"],
            &["--retry-on", "1 to 255", "runs a process"],
        ),
        (
            &["--retry", "1", "--retry-never-on", "3", "--http", "http://h/"],
            &["--retry-never-on", "100 to 599"],
        ),
        (
            &["--done-check", "x", "--done-check-on", "never", "--", "x"],
            &["--done-check-on", "\"retry\" or \"always\""],
        ),
        (&["--every", "0s", "--", "x"], &["--every", "1s to 10 years"]),
        (&["--every", "-5m", "--", "x"], &["negative"]),
        (&["--every", "1ms", "--", "x"], &["1s to 10 years"]),
        (&["--every", "999999h", "--", "x"], &["--every"]),
        (&["--in", "-5m", "--", "x"], &["negative"]),
        (&["--in", "5", "--", "x"], &["\"5s\""]),
        (&["--name", "", "--", "x"], &["a-z 0-9"]),
        (&["--name", "../../etc/x", "--", "x"], &["a-z 0-9"]),
        (&["--name", "a b", "--", "x"], &["a-z 0-9"]),
        (&["--name", "a\u{202e}b", "--", "x"], &["a-z 0-9"]),
        (&["--name", "a\nb\u{1b}", "--", "x"], &["a-z 0-9"]),
        (&["--", ""], &["the command", "program"]),
        (&["--shell", "   "], &["--shell"]),
        (&["--env", "1X=1", "--", "x"], &["--env 1X"]),
        (&["--env", "A", "--", "x"], &["NAME=VALUE"]),
        (&["--env", "A=1", "--env", "A=2", "--", "x"], &["twice"]),
        (&["--http", "file:///etc/passwd"], &["--http", "wanted http or https"]),
        (&["--http", "gopher://x"], &["--http"]),
        (&["--http", "http://u:pw@h/"], &["password"]),
        (&["--http", "http:///"], &["--http"]),
        (&["--http", &endless], &["--http"]),
        (&["--http", "http://h", "--header", "A: b\r\nC: d"], &["--header"]),
        (&["--http", "http://h", "--header", "Host: x"], &["--header"]),
        (&["--http", "http://h", "--header", "nonsense"], &["NAME:VALUE"]),
        (&["--http", "http://h", "--header", "A: 1", "--header", "a: 2"], &["twice"]),
        (&["--http", "http://h", "--body", "@/no/such"], &["--body", "No such file"]),
        (&["--http", "http://h", "--expect", "99"], &["--expect"]),
        (&["--body", "x", "--", "x"], &["--body", "--http"]),
        (&["--timeout", "0s", "--", "x"], &["--timeout", "30 days"]),
        (&["--timeout", "31d", "--", "x"], &["--timeout", "30 days"]),
        (&["--timeout", "30", "--", "x"], &["\"30s\""]),
        (&["--retry", "-1", "--", "x"], &["--retry", "0 to 1000"]),
        (&["--retry", "1000000000", "--", "x"], &["--retry", "0 to 1000"]),
        (&["--retry", "2", "--delivery", "at-most-once", "--", "x"], &["contradicts"]),
        (&["--overlap", "skp", "--", "x"], &["--overlap", "did you mean \"skip\""]),
        (&["--catch-up", "x", "--", "x"], &["--catch-up", "latest"]),
        (&["--cwd", "rel", "--", "x"], &["--cwd", "absolute"]),
        (&["--limit-memory", "5", "--", "x"], &["--limit-memory", "256MiB"]),
        (&["--limit-cpu", "-1", "--", "x"], &["--limit-cpu", "more than 0"]),
        (
            &["--limit-cpu", "x", "--", "x"],
            &["--limit-cpu: found \"x\", wanted a number such as 0.5"],
        ),
        (&["--nice", "20", "--", "x"], &["--nice", "0 to 19"]),
        (&["--umask", "28", "--", "x"], &["--umask", "3 or 4 octal digits"]),
        (&["--shell-program", "bash", "--shell", "x"], &["--shell-program", "the absolute path"]),
        (&["--stdin-text", "@/no/such", "--", "x"], &["--stdin-text", "No such file"]),
        (&["--in", "1m", "--every", "1m", "--", "x"], &["cannot be used with"]),
        (&["--shell", "x", "--", "x"], &["cannot be used with"]),
        (&["--stdin", "--name", "x"], &["cannot be used with"]),
        (&["--stdin", "--method", "POST"], &["cannot be used with"]),
        (&["--stdin", "--header", "A: b"], &["cannot be used with"]),
        (&["--stdin", "--body", "x"], &["cannot be used with"]),
        (&["--stdin", "--expect", "200"], &["cannot be used with"]),
        (&["--replace", "--if-absent", "--", "x"], &["cannot be used with"]),
        (&["--in", "5m"], &["--shell", "--http"]),
        (&["--in", "5m", "echo", "hi"], &["echo", "goes after --"]),
    ];
    for (args, words) in cases {
        let finished = alone.run(&[&["add"], *args].concat());
        finished.refused(2, words);
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn an_instant_is_reported_as_it_was_understood_and_a_past_one_refused() {
    let bench = Bench::start();
    let added = bench
        .ctl
        .run(&["add", "--at", "2099-10-25 02:30", "--tz", "Europe/Berlin", "--", "x"])
        .good();
    assert!(added.stderr.contains("2099-10-25T02:30:00.000+02:00 (Europe/Berlin)"), "{added:?}");
    assert!(
        added.stderr.contains("occurs twice") && added.stderr.contains("the first time, 2099"),
        "{added:?}"
    );
    let twice = ["add", "--at", "2099-10-25 02:30", "--tz", "Europe/Berlin", "--json", "--fold"];
    for (fold, due) in [
        ("first", "2099-10-25T02:30:00.000+02:00"),
        ("second", "2099-10-25T02:30:00.000+01:00"),
        ("0", "2099-10-25T02:30:00.000+02:00"),
        ("1", "2099-10-25T02:30:00.000+01:00"),
    ] {
        assert_eq!(
            bench.ctl.run(&[&twice[..], &[fold, "--", "x"]].concat()).good().json()["next_due"],
            due
        );
    }
    bench
        .ctl
        .run(&[&twice[..], &["2", "--", "x"]].concat())
        .refused(2, &["--fold", "schedctl add --help"]);
    bench.ctl.run(&["add", "--fold", "second", "--in", "1h", "--", "x"]).refused(2, &["--at"]);
    let quiet = bench.ctl.run(&["add", "--quiet", "--at", "2099-01-01", "--", "x"]).good();
    assert_eq!(quiet.stderr, "");

    let past =
        ["add", "--name", "p", "--at", "2020-01-01 09:00", "--tz", "Europe/Berlin", "--", "x"];
    bench
        .ctl
        .run(&past)
        .refused(2, &["ago", "2020-01-01 09:00:00 CET", "Europe/Berlin", "--allow-past"]);
    bench.add(&[
        "--name",
        "p",
        "--at",
        "2020-01-01 09:00",
        "--tz",
        "Europe/Berlin",
        "--allow-past",
        "--",
        "x",
    ]);
    assert_eq!(bench.node.claim("p").run.to_string(), "p@1577865600000");
}

#[test]
fn a_past_time_of_several_runs_at_once_and_one_that_ran_is_not_accepted() {
    let bench = Bench::start();
    let (past, reported) = ("2020-01-01T09:00Z", "at 2020-01-01T09:00:00.000Z");
    let add = |more: &[&str]| {
        bench.ctl.run(
            &[&["add", "--name", "p", "--allow-past", "--at", past], more, &["--", "x"]].concat(),
        )
    };
    let added = add(&["--at", "2099-01-01"]).good();
    assert!(added.stderr.contains(reported) && added.stderr.contains("at 2099-01-01"), "{added:?}");
    let looked = bench.ctl.run(&["doctor"]);
    assert!(looked.stdout.contains("no findings"), "{looked:?}");
    let claim = bench.node.claim("p");
    assert_eq!(claim.run.to_string(), "p@1577869200000");
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    let next = |job: &str| {
        bench.ctl.run(&["show", job, "--json"]).good().json()["next_due"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(next("p").starts_with("2099-01-01"));

    // By an edit, which has the past time still, and by a new job of the name.
    for verb in ["--replace", "--if-absent"] {
        let again = add(&["--at", "2099-01-02", verb]).good();
        assert!(
            !again.stderr.contains(reported)
                && again.stderr.contains(
                    "job p does not run for 2020-01-01T09:00:00.000Z: the job already ran for that time"
                ),
            "{again:?}"
        );
        assert!(next("p").starts_with("2099-01-02"), "{again:?}");
        bench.ctl.run(&["cancel", "p"]).good();
    }
    // A single one is refused, as before.
    add(&[]).refused(4, &["already ran at 2020-01-01T09:00:00.000Z"]);
}

#[test]
fn a_time_that_would_not_run_is_refused_if_it_is_past_and_warned_of_if_not() {
    let bench = Bench::start();
    let add = |args: &str| {
        let words: Vec<&str> = args.split(' ').collect();
        bench.ctl.run(&[&["add", "--json"], &words[..], &["--", "x"]].concat())
    };
    for (args, words) in [
        (
            "--at 2020-01-01 --at 2021-01-01 --allow-past",
            "only the newest past time runs, 2021-01-01T00:00:00.000Z",
        ),
        ("--at 2020-01-01 --allow-past --skip-if-late 1h", "--skip-if-late skips a run this late"),
        ("--at 2020-01-01 --allow-past --max-age 1h", "--skip-if-late skips a run this late"),
        ("--at 2020-01-01 --at 2099-01-01 --allow-past --catch-up skip", "--catch-up skip"),
    ] {
        add(args)
            .refused(2, &["--at \"2020-01-01\" is past, and the job would not run at once", words]);
    }
    for (args, gone, why) in [
        (
            "--at 2099-12-24 --at 2099-12-27 --exclude 2099-12-24",
            "2099-12-24",
            "--exclude, --only-on, --start or --end",
        ),
        (
            "--at 2099-12-27 --at 2099-12-28 --end 2099-12-27",
            "2099-12-28",
            "--exclude, --only-on, --start or --end",
        ),
        ("--at 2099-12-27 --at 2099-12-28 --max-runs 1", "2099-12-28", "--max-runs 1 is reached"),
    ] {
        let added = add(args).good();
        assert!(
            added
                .stderr
                .contains(&format!("warning: the job does not run at --at {gone:?}: {why}")),
            "{added:?}"
        );
        assert!(!added.stderr.contains(&format!("at {gone}T")), "{added:?}");
        assert!(added.json()["next_due"].as_str().unwrap().starts_with("2099-12-27"), "{added:?}");
    }
    let line = "{\"name\": \"l\", \"shell\": \"x\", \"at\": [\"2020-01-01T00:00:00Z\", \"2021-01-01T00:00:00Z\", \"2099-01-01T00:00:00Z\"]}\n";
    bench.ctl.run_with_input(&["add", "--stdin"], line.as_bytes()).good();
    assert_eq!(bench.node.claim("l").run.to_string(), "l@1609459200000");
}

#[test]
fn a_number_that_is_not_finite_is_refused_in_flags_and_in_lines() {
    let bench = Bench::start();
    for number in ["NaN", "nan", "inf", "infinity", "1e400", "1e9"] {
        let finished = bench.ctl.run(&["add", "--name", "n", "--limit-cpu", number, "--", "x"]);
        finished
            .refused(2, &["--limit-cpu", "wanted a number such as 0.5, more than 0, at most 1000"]);
    }
    bench
        .ctl
        .run(&["add", "--name", "n", "--limit-cpu=-inf", "--", "x"])
        .refused(2, &["--limit-cpu", "wanted a number"]);
    let keys = [
        r#""limits": {"cpu": 1e400}"#,
        r#""limits": {"cpu": NaN}"#,
        r#""limits": {"cpu": "inf"}"#,
        r#""limits": {"pids": 1e300}"#,
        r#""retry": 99999999999999999999"#,
        r#""priority": 1e1"#,
        r#""max_runs": -1"#,
    ];
    for key in keys {
        let line = format!("{{\"name\": \"n\", \"shell\": \"x\", {key}}}\n");
        let finished = bench.ctl.run_with_input(&["add", "--stdin"], line.as_bytes());
        assert!(
            finished.code == 1 && finished.stderr.starts_with("schedctl: line 1: "),
            "{key}: {finished:?}"
        );
    }
    assert_eq!(bench.ctl.run(&["list", "--json"]).good().json(), serde_json::json!([]));
}

#[test]
fn a_taken_name_is_a_conflict_that_says_the_difference() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--cron", "0 2 * * *", "--shell", "one"]);
    let again = ["add", "--name", "a", "--cron", "0 3 * * *", "--shell", "one"];
    bench
        .ctl
        .run(&again)
        .refused(4, &["cron", "0 2 * * *", "0 3 * * *", "--replace", "--if-absent"]);
    bench
        .ctl
        .run(&["add", "--name", "a", "--cron", "0 2 * * *", "--shell", "one"])
        .refused(4, &["with the same definition"]);

    let absent = bench.ctl.run(&[&again[..], &["--if-absent", "--json"]].concat()).good().json();
    assert!(absent["next_due"].as_str().unwrap().contains("T02:00"), "{absent}");
    let replaced = bench.ctl.run(&[&again[..], &["--replace", "--json"]].concat()).good().json();
    assert!(replaced["next_due"].as_str().unwrap().contains("T03:00"), "{replaced}");
    let replaced_again =
        bench.ctl.run(&[&again[..], &["--replace", "--json"]].concat()).good().json();
    assert_eq!(replaced_again["next_due"], replaced["next_due"]);
}

#[test]
fn a_name_of_a_file_is_not_taken_from_it() {
    let bench = Bench::start();
    bench.node.apply_file_job("backup", r#"{"shell": "x", "every": "1h"}"#);
    for flags in [&[][..], &["--replace"], &["--if-absent"]] {
        let finished = bench.ctl.run(&[&["add", "--name", "backup"], flags, &["--", "x"]].concat());
        finished.refused(4, &["backup", "web-1", "edit [jobs.backup]"]);
    }
}

#[test]
fn an_unknown_queue_is_refused_with_those_there_are() {
    let bench = Bench::start();
    bench.node.declare_queue("mail");
    bench.ctl.run(&["add", "--queue", "mial", "--", "x"]).refused(2, &["mial", "default, mail"]);
    bench.add(&["--queue", "mail", "--", "x"]);
    bench.add(&["--queue", "default", "--", "x"]);
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

#[test]
fn a_redis_without_memory_is_reported_as_such() {
    let bench = Bench::start();
    let mut connection = bench.redis.connection();
    let () =
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1").query(&mut connection).unwrap();
    bench.ctl.run(&["add", "--", "x"]).refused(69, &["out of memory"]);
    let () =
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("0").query(&mut connection).unwrap();
    let () = connection.set("{schedd}:jobs", "x").unwrap();
    bench.ctl.run(&["add", "--", "x"]).refused(1, &["{schedd}:jobs", "schedctl doctor --fix"]);
}

#[test]
fn of_two_edits_at_once_the_second_is_reported_the_newer_version() {
    let bench = Bench::start();
    let eye = Eye::on(&bench.redis);
    bench.add(&["--name", "a", "--", "one"]);
    let seen = eye.job("a").unwrap().rev;
    bench.add(&["--name", "a", "--replace", "--", "two"]);
    let newer = eye.job("a").unwrap().rev;
    let request = Request {
        name: "a".parse().unwrap(),
        spec: job_from_json(r#"{"command": ["three"]}"#, &Zone::utc()).unwrap().spec,
        start_in: None,
        kind: SourceKind::Api,
        source: String::new(),
        existing: Existing::Edit,
        seen: Some(seen),
    };
    assert_eq!(
        eye.ask(apply_one(eye.store(), &Zone::utc(), &request)).unwrap(),
        Applied::Newer(newer)
    );
    assert_eq!(
        bench.ctl.run(&["show", "a", "--json"]).good().json()["definition"]["command"],
        serde_json::json!(["two"])
    );
    let ctl = &bench.ctl;
    let edits: Vec<Finished> = std::thread::scope(|scope| {
        let edit = |number: usize| {
            ctl.run(&["add", "--name", "a", "--replace", "--", &number.to_string()])
        };
        let running: Vec<_> = (0..6).map(|number| scope.spawn(move || edit(number))).collect();
        running.into_iter().map(|edit| edit.join().unwrap()).collect()
    });
    assert!(edits.iter().any(|edit| edit.code == 0), "{edits:?}");
    for refused in edits.iter().filter(|edit| edit.code != 0) {
        refused.refused(
            4,
            &["somebody else changed job a at the same time, and its revision is now "],
        );
    }
}
