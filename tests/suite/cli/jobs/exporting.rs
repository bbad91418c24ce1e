//! `export`: jobs as a file that says the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::cli::Bench;

#[test]
fn job_names_are_a_good_file_and_the_same_jobs_where_it_is_applied() {
    let bench = Bench::start();
    bench.node.declare_queue("mail");
    let adds: [&[&str]; 4] = [
        &[
            "--name",
            "backup",
            "--cron",
            "30 2 * * *",
            "--tz",
            "Europe/Berlin",
            "--retry",
            "3",
            "--timeout",
            "2h",
            "--shell",
            "pg_dump | gzip",
        ],
        &[
            "--name",
            "ping",
            "--every",
            "30s",
            "--http",
            "https://example.com/ping",
            "--method",
            "POST",
            "--header",
            "X-A: b \"c\"",
            "--queue",
            "mail",
        ],
        &["--name", "later", "--at", "2099-01-02T03:04:05Z", "--", "echo", "é \\ \"x\""],
        &["--name", "by-hand", "--cwd", "/", "--", "true"],
    ];
    for add in &adds {
        bench.add(add);
    }
    let text = bench.ctl.run(&["export"]).good().stdout;
    let file = bench.ctl.home().join("all.toml");
    fs::write(&file, &text).unwrap();
    bench.ctl.run(&["check", "all.toml"]).good();
    let other = Bench::start();
    fs::copy(&file, other.ctl.home().join("all.toml")).unwrap();
    other.ctl.run(&["apply", "all.toml"]).good();
    for name in ["backup", "ping", "later", "by-hand"] {
        let definition = |bench: &Bench| {
            bench.ctl.run(&["show", name, "--json"]).good().json()["definition"].clone()
        };
        assert_eq!(definition(&bench), definition(&other), "{text}");
    }
    let one = bench.ctl.run(&["export", "later"]).good().stdout;
    assert_eq!(
        one,
        "[jobs.later]\nat = \"2099-01-02T03:04:05.000Z\"\ncommand = [\"echo\", \"é \\\\ \\\"x\\\"\"]\n"
    );
    let json = bench.ctl.run(&["export", "ping", "--json"]).good().json();
    assert_eq!(
        (&json["jobs"]["ping"]["every"], &json["queues"]["mail"]["concurrency"]),
        (&json!("30s"), &json!(4))
    );
}

#[test]
fn an_export_is_whole_so_it_holds_a_secret_that_was_written_out() {
    let bench = Bench::start();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let line =
        json!({"name": "hook", "http": "https://example.com/hook", "webhook_secret": secret});
    bench.ctl.run_with_input(&["add", "--stdin"], line.to_string().as_bytes()).good();
    let text = bench.ctl.run(&["export"]).good().stdout;
    assert!(text.contains(&format!("webhook_secret = \"{secret}\"\n")), "{text}");
    let file = bench.ctl.home().join("all.toml");
    fs::write(&file, text).unwrap();
    // With a secret in it, it is taken only if nobody else may read it.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    bench.ctl.run(&["check", "all.toml"]).good();
}

#[test]
fn jobs_of_files_are_exported_when_that_is_asked_for() {
    let bench = Bench::start();
    fs::write(bench.ctl.home().join("f.toml"), "[jobs.a]\nshell = \"true\"\n").unwrap();
    bench.ctl.run(&["apply", "f.toml"]).good();
    let none = bench.ctl.run(&["export"]).good();
    assert_eq!(none.stdout, "");
    assert!(none.stderr.contains("--all"), "{none:?}");
    assert_eq!(bench.ctl.run(&["export", "--all"]).good().stdout, "[jobs.a]\nshell = \"true\"\n");
    bench.ctl.run(&["export", "a"]).refused(4, &["the file applied as f", "--all"]);
    bench.ctl.run(&["export", "nowhere"]).refused(3, &["nowhere"]);
    bench.ctl.run(&["export", "No Name"]).refused(2, &["\"No Name\""]);
}

#[test]
fn a_one_shot_whose_time_is_past_is_exported_as_a_comment() {
    let bench = Bench::start();
    bench.add(&["--name", "late", "--at", "2020-01-01", "--allow-past", "--", "x"]);
    let text = bench.ctl.run(&["export"]).good().stdout;
    assert!(text.starts_with("# all times of this job are past\n# [jobs.late]\n"), "{text}");
    assert!(text.lines().all(|line| line.starts_with("# ")), "{text}");
}

#[test]
fn a_job_with_null_in_its_payload_is_exported_as_a_comment_and_so_are_its_children() {
    let bench = Bench::start();
    let payload = r#"{"a":null}"#;
    bench.add(&["--name", "call", "--every", "1h", "--handler", "h", "--payload", payload]);
    bench.add(&["--name", "then", "--after", "call", "--", "x"]);
    bench.add(&["--name", "plain", "--every", "1h", "--", "x"]);
    let text = bench.ctl.run(&["export"]).good().stdout;
    assert!(text.contains("# a jobs file cannot have null"), "{text}");
    assert!(text.contains("# this job runs after a job that is written as a comment"), "{text}");
    fs::write(bench.ctl.home().join("all.toml"), &text).unwrap();
    bench.ctl.run(&["check", "all.toml"]).good();
    let tables: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(tables, ["[jobs.plain]"], "{text}");
}
