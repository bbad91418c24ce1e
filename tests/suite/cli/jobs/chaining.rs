//! Chains as users meet them: parents in files and flags, `graph`, `explain`, `next` and `show`.

use std::fs;

use schedd_core::domain::run::run_state::RunState;
use serde_json::json;

use crate::cli::Bench;

/// A bench with the chain extract -> load, transform -> report.
fn chain() -> Bench {
    let bench = Bench::start();
    bench.add(&["--name", "extract", "--cron", "0 3 * * *", "--tz", "UTC", "--", "true"]);
    bench.add(&["--name", "load", "--after", "extract", "--", "true"]);
    bench.add(&["--name", "transform", "--after", "extract", "--", "true"]);
    bench.add(&["--name", "report", "--after-any", "load,transform", "--", "true"]);
    bench
}

fn check(bench: &Bench, text: &str) -> crate::support::ctl::Finished {
    fs::write(bench.ctl.home().join("x.toml"), text).unwrap();
    bench.ctl.run(&["check", "x.toml"])
}

#[test]
fn a_file_with_broken_parents_is_refused_with_one_clear_line() {
    let bench = Bench::start();
    let job = |name: &str, keys: &str| format!("[jobs.{name}]\nshell = \"true\"\n{keys}\n");
    let root = job("extract", "every = \"1h\"");
    let root = root.as_str();
    for (text, words) in [
        (job("a", "after = \"b\"") + &job("b", "after = \"a\""), "a -> b -> a"),
        (job("a", "after = \"a\""), "a -> a"),
        (root.to_owned() + &job("a", "after = \"extrct\""), "did you mean \"extract\"?"),
        (job("a", "after = \"nobody\""), "add [jobs.nobody] to this file"),
        (
            root.to_owned()
                + &job("other", "every = \"1h\"")
                + &job("a", "after = [\"extract\", \"other\"]"),
            "the parents have two roots, extract and other",
        ),
        (
            root.to_owned() + &job("a", "after = \"extract\"\ncron = \"@daily\""),
            "found after and cron together",
        ),
        (
            root.to_owned() + &job("a", "after = \"extract\"\nafter_any = \"extract\""),
            "a job has one rule for its parents",
        ),
        (
            root.to_owned() + &job("a", "after = \"extract\"\njitter = \"5m\""),
            "jitter has no effect on a job with parents",
        ),
        (root.to_owned() + &job("a", "after = []"), "found 0 parents, wanted 1 to 16"),
        (
            job("each", "every = \"1h\"\non = \"each-node\"") + &job("a", "after = \"each\""),
            "parent each runs on each node",
        ),
        (
            root.to_owned() + &job("a", "after = \"extract\"\non = \"each-node\""),
            "found after with on = \"each-node\"",
        ),
    ] {
        let finished = check(&bench, &text);
        assert_eq!(finished.code, 78, "{text}: {}", finished.stderr);
        assert!(finished.stderr.contains(words), "{text}: {}", finished.stderr);
    }
    check(&bench, &(root.to_owned() + &job("a", "after_finished = \"extract\""))).good();
}

#[test]
fn an_add_with_broken_parents_is_refused_and_changes_nothing() {
    let bench = chain();
    bench.add(&["--name", "other", "--every", "1h", "--", "true"]);
    let add = |args: &[&str]| bench.ctl.run(&[&["add"], args].concat());
    add(&["--name", "x", "--after", "nobody", "--", "true"])
        .refused(2, &["job x", "parent nobody does not exist"]);
    add(&["--name", "x", "--after", "load,other", "--", "true"])
        .refused(2, &["two roots, extract and other"]);
    add(&["--name", "load", "--replace", "--after", "report", "--", "true"])
        .refused(2, &["load -> report -> load"]);
    add(&["--name", "x", "--after", "load", "--cron", "@daily", "--", "true"])
        .refused(2, &["--cron"]);
    let lines = "{\"name\":\"y\",\"after\":\"report\",\"shell\":\"true\"}\n{\"name\":\"z\",\"after\":[\"y\",\"gone\"],\"shell\":\"true\"}\n";
    let finished = bench.ctl.run_with_input(&["add", "--stdin"], lines.as_bytes());
    assert!(
        finished.stderr.contains("line 2: job z: parent gone does not exist"),
        "{}",
        finished.stderr
    );
    bench.ctl.run(&["show", "y"]).good();
    bench.ctl.run(&["show", "z"]).refused(3, &["z"]);
    bench.ctl.run(&["cancel", "y"]).good();
    bench.ctl.run(&["cancel", "load"]).refused(4, &["has children", "cancel report first"]);
    bench.node.apply_file_job("filed", r#"{"after": "load", "shell": "true"}"#);
    let steps = "cancel report, and remove [jobs.filed] from the jobs file of node web-1 first";
    bench.ctl.run(&["cancel", "load"]).refused(4, &["has children", steps]);
}

#[test]
fn graph_draws_chains_as_a_tree_as_dot_and_as_json() {
    let bench = chain();
    assert_eq!(
        bench.ctl.run(&["graph"]).good().stdout,
        "extract  0 3 * * * in UTC\n\
         \x20 load  after extract\n\
         \x20   report  after any of load, transform\n\
         \x20 transform  after extract\n\
         \x20   report  after any of load, transform\n"
    );
    let dot = bench.ctl.run(&["graph", "--dot"]).good().stdout;
    assert!(
        dot.starts_with("digraph schedd {\n") && dot.contains("  \"load\" -> \"report\";\n"),
        "{dot}"
    );
    let all = bench.ctl.run(&["graph", "report", "--json"]).good().json();
    assert_eq!(all.as_array().unwrap().len(), 4);
    assert_eq!(
        all[2],
        json!({
            "job": "report", "schedule": "after any of load, transform", "root": "extract",
            "parents": ["load", "transform"], "children": [],
        })
    );
    bench.add(&["--name", "alone", "--every", "1h", "--", "true"]);
    bench.ctl.run(&["graph", "alone"]).refused(3, &["alone", "no chain"]);
    bench.ctl.run(&["graph", "reprot"]).refused(3, &["no job reprot", "report"]);
}

#[test]
fn a_child_is_listed_shown_described_and_exported_with_its_parents() {
    let bench = chain();
    let list = bench.ctl.run(&["list"]).good().stdout;
    let line = list.lines().find(|line| line.ends_with(" load")).unwrap();
    assert!(line.starts_with('-') && line.contains("after extract"), "{list}");
    let shown = bench.ctl.run(&["show", "load"]).good().stdout;
    assert!(shown.contains("schedule      after extract\n"), "{shown}");
    assert!(shown.contains("children      report\n"), "{shown}");
    let fields = bench.ctl.run(&["show", "load", "--json"]).good().json();
    assert_eq!(
        (&fields["parents"], &fields["children"]),
        (&json!(["extract"]), &json!(["report"]))
    );
    assert_eq!(fields["definition"]["after"], json!("extract"));
    assert_eq!(
        bench.ctl.run(&["describe", "report"]).good().stdout,
        "when load and transform have ended and at least one of them has succeeded\n"
    );
    let next = bench.ctl.run(&["next", "report", "-n", "1"]).good().stdout;
    assert!(next.contains("03:00:00") && next.contains("top of the chain"), "{next}");
    let text = bench.ctl.run(&["export"]).good().stdout;
    assert!(text.contains("[jobs.report]\nafter_any = [\"load\", \"transform\"]\n"), "{text}");
    check(&bench, &text).good();
}

#[test]
fn explain_says_which_parents_are_awaited_and_why_a_child_was_skipped() {
    let bench = chain();
    let explained = |what: &str| bench.ctl.run(&["explain", what]).good().stdout;
    let load = explained("load");
    assert!(load.contains("It runs after extract, when all parents have succeeded."), "{load}");
    assert!(load.contains("schedctl next load"), "{load}");
    bench.ctl.run(&["run", "extract"]).good();
    let run = bench.node.claim("extract");
    let root = run.run.to_string().split_once('@').unwrap().1.to_owned();
    bench.node.finish(&run, RunState::Succeeded, &[]);
    bench.node.give_chain_ends();
    bench.node.finish(&bench.node.claim("load"), RunState::Failed, &[("exit_code", "3")]);
    bench.node.give_chain_ends();
    let report = explained("report");
    assert!(
        report.contains(&format!("Run report@{root} waits for the end of transform (scheduled).")),
        "{report}"
    );
    assert!(report.contains(&format!("load@{root} failed (exit code 3)")), "{report}");
    bench.node.finish(&bench.node.claim("transform"), RunState::Failed, &[]);
    bench.node.give_chain_ends();
    let report = explained(&format!("report@{root}"));
    assert!(report.contains("The run was skipped because of the ends of its parents:"), "{report}");
    let history = bench.ctl.run(&["history", "report"]).good().stdout;
    assert!(history.contains("skipped") && history.contains("parent"), "{history}");
}

#[test]
fn the_export_of_a_child_has_the_jobs_above_it_so_that_the_file_is_good() {
    let bench = chain();
    let exported = bench.ctl.run(&["export", "report"]).good();
    assert!(
        exported.stderr.contains("job load is exported too, because job report runs after it"),
        "{}",
        exported.stderr
    );
    check(&bench, &exported.stdout).good();
    assert_eq!(exported.stdout.matches("[jobs.").count(), 4, "{}", exported.stdout);
    // A child of a job whose times are past has no further time either.
    bench.add(&["--name", "once", "--at", "2000-01-01T00:00:00Z", "--allow-past", "--", "true"]);
    bench.add(&["--name", "then", "--after", "once", "--", "true"]);
    bench.add(&["--name", "last", "--after", "then", "--", "true"]);
    let text = bench.ctl.run(&["export", "last"]).good().stdout;
    assert_eq!(text.matches("# [jobs.").count(), 3, "{text}");
    check(&bench, &text).good();
}

#[test]
fn a_replaced_job_that_would_split_the_chain_below_it_is_refused() {
    let bench = chain();
    let replace = |job: &str, schedule: [&str; 2]| {
        let [flag, value] = schedule;
        bench.ctl.run(&["add", "--name", job, "--replace", flag, value, "--", "true"])
    };
    let words = [
        "job load: job report, which runs after it",
        "two roots, extract and load",
        "edit or cancel job report first",
    ];
    replace("load", ["--every", "1h"]).refused(2, &words);
    let line = "{\"name\":\"load\",\"every\":\"1h\",\"shell\":\"true\"}\n";
    let finished = bench.ctl.run_with_input(&["add", "--stdin", "--replace"], line.as_bytes());
    assert!(finished.stderr.contains("two roots, extract and load"), "{}", finished.stderr);
    // A job without children, or whose children have no other root, may get a schedule.
    replace("report", ["--after-any", "load"]).good();
    replace("load", ["--every", "1h"]).good();
    replace("report", ["--every", "1h"]).good();
}

#[test]
fn an_occurrence_that_waits_in_vain_is_explained_found_and_ended() {
    let bench = chain();
    bench.ctl.run(&["run", "extract"]).good();
    bench.node.finish(&bench.node.claim("extract"), RunState::Succeeded, &[]);
    bench.node.give_chain_ends();
    bench.node.finish(&bench.node.claim("load"), RunState::Succeeded, &[]);
    bench.node.give_chain_ends();
    assert!(!bench.ctl.run(&["explain", "report"]).good().stdout.contains("in vain"));
    bench.node.finish(&bench.node.claim("transform"), RunState::Failed, &[]);
    // The end of `transform` is lost, as only a fault of Redis or schedd could do it.
    let () =
        redis::cmd("DEL").arg("{schedd}:chain_ends").query(&mut bench.redis.connection()).unwrap();
    let report = bench.ctl.run(&["explain", "report"]).good().stdout;
    assert!(report.contains("waits for the end of transform (failed)."), "{report}");
    assert!(report.contains("It waits in vain"), "{report}");
    let found = bench.ctl.run(&["doctor", "--fix"]).stdout;
    assert!(found.contains("occurrences that waited in vain: 1"), "{found}");
    bench.node.give_chain_ends();
    let report = bench.node.claim("report");
    bench.node.finish(&report, RunState::Succeeded, &[]);
    let shown = bench.ctl.run(&["show", &report.run.to_string(), "--json"]).good().json();
    assert_eq!(shown["parents"][1]["state"], json!("failed"));
}
