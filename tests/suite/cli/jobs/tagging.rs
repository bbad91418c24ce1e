//! Tags of jobs, and the lists that they filter.

use schedd_core::domain::run::run_state::RunState;
use serde_json::{Value, json};

use crate::cli::Bench;

fn names(found: &Value, field: &str) -> Vec<String> {
    let names = found.as_array().unwrap().iter().map(|row| row[field].as_str().unwrap().to_owned());
    names.collect()
}

/// Three jobs: two of team db, in different queues, and one without tags.
fn tagged() -> Bench {
    let bench = Bench::start();
    let flags = ["--tag", "team=db", "--tag", "env=prod"];
    bench.add(&[&["--name", "a", "--in", "0s"], &flags[..], &["--", "x"]].concat());
    bench.node.declare_queue("mail");
    bench.add(&["--name", "b", "--in", "1h", "--queue", "mail", "--tag", "team=db", "--", "x"]);
    bench.add(&["--name", "c", "--in", "0s", "--", "x"]);
    bench
}

#[test]
fn list_selects_jobs_by_the_name_or_the_value_of_a_tag() {
    let bench = tagged();
    let listed = |flags: &[&str]| {
        let mut found =
            names(&bench.ctl.run(&[&["list", "--json"], flags].concat()).json(), "name");
        found.sort();
        found
    };
    assert_eq!(listed(&["--tag", "team"]), ["a", "b"]);
    assert_eq!(listed(&["--tag", "team=db", "--tag", "env=prod"]), ["a"]);
    assert!(listed(&["--tag", "team=web"]).is_empty());
    let shown = bench.ctl.run(&["show", "a", "--json"]).good().json();
    assert_eq!(shown["tags"], json!({"env": "prod", "team": "db"}));
    let text = bench.ctl.run(&["show", "a"]).good().stdout;
    assert!(text.lines().any(|line| line.ends_with("env=prod, team=db")), "{text}");
    bench.ctl.run(&["list", "--tag", "Team"]).refused(2, &["wanted NAME or NAME=VALUE"]);
}

#[test]
fn history_selects_runs_by_the_tags_of_their_jobs() {
    let bench = tagged();
    for job in ["a", "c"] {
        bench.node.finish(&bench.node.claim(job), RunState::Failed, &[("exit_code", "1")]);
    }
    let history = bench.ctl.run(&["history", "--tag", "team", "--json"]).good().json();
    assert_eq!(names(&history, "job"), ["a"]);
    let none = bench.ctl.run(&["history", "c", "--tag", "team"]).good();
    assert!(none.stderr.contains("match the filters"), "{none:?}");
    let retried =
        bench.ctl.run(&["retry", "--dead", "--tag", "team", "--dry-run", "--json"]).good().json();
    assert_eq!(retried.as_array().unwrap().len(), 1, "{retried}");
    bench.ctl.run(&["retry", "a@5", "--tag", "team"]).refused(2, &["--dead"]);
}

#[test]
fn queues_count_only_the_runs_of_jobs_with_a_tag() {
    let bench = tagged();
    let queues = |flags: &[&str]| -> Vec<[Value; 4]> {
        let found = bench.ctl.run(&[&["queues", "--json"], flags].concat()).good().json();
        let row =
            |row: &Value| ["name", "depth", "scheduled", "running"].map(|field| row[field].clone());
        found.as_array().unwrap().iter().map(row).collect()
    };
    let wanted = [json!(["default", 1, 0, 0]), json!(["mail", 0, 1, 0])];
    assert_eq!(json!(queues(&["--tag", "team"])), json!(wanted));
    let claim = bench.node.claim("a");
    assert_eq!(json!(queues(&["--tag", "env"])), json!([["default", 0, 0, 1]]));
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    assert_eq!(json!(queues(&["--tag", "none"])), json!([]));
}

#[test]
fn tags_of_a_job_are_added_to_those_of_defaults_and_are_bounded() {
    let bench = Bench::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jobs.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        bench.ctl.run(&["check", file.to_str().unwrap()])
    };
    let job = "[jobs.a]\nshell = \"true\"\n";
    check(&format!("[defaults]\ntags = {{ team = \"db\" }}\n{job}tags = {{ env = \"x\" }}\n"))
        .good();
    let many: Vec<String> = (0..8).map(|number| format!("t{number} = \"x\"")).collect();
    check(&format!("{job}tags = {{ {} }}\n", many.join(", "))).good();
    for (text, wanted) in [
        (
            format!(
                "[defaults]\ntags = {{ team = \"db\" }}\n{job}tags = {{ {} }}",
                many.join(", ")
            ),
            "found 9 tags, wanted at most 8",
        ),
        (format!("{job}tags = {{ Team = \"db\" }}\n"), "not a name for a tag"),
        (format!("{job}tags = {{ team = \"\" }}\n"), "wanted 1 to 64 characters"),
        (format!("{job}tags = [\"team\"]\n"), "a table such as { team = \"db\" }"),
    ] {
        let found = check(&text);
        assert!(found.code == 78 && found.stderr.contains(wanted), "{found:?}");
    }
}
