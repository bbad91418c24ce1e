//! `diff` and `apply`: a file against what is live.

use std::fs;

use serde_json::{Value, json};

use crate::cli::Bench;
use crate::support::ctl::{Finished, Schedctl};
use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::wait::{LONG, until};

const A: &str = "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n";
const B: &str = "[jobs.b]\ncron = \"0 9 * * *\"\ntz = \"UTC\"\nshell = \"true\"\nenv = { TOKEN = \"hunter2\" }\n";

/// Writes `text` as the file `name` in the directory of the calls.
fn write(bench: &Bench, name: &str, text: &str) {
    fs::write(bench.ctl.home().join(name), text).unwrap();
}

fn changes(finished: &Finished) -> Vec<(String, String)> {
    let document = finished.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    document["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (text(&job["job"]), text(&job["change"])))
        .collect()
}

fn names(bench: &Bench) -> Vec<String> {
    let listed = bench.ctl.run(&["list", "--json"]).good().json();
    let mut names: Vec<String> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_is_applied_and_then_there_is_no_difference() {
    let bench = Bench::start();
    write(&bench, "crm.toml", &format!("{A}{B}"));
    let before = bench.ctl.run(&["diff", "crm.toml", "--json"]);
    assert_eq!(before.code, 1, "{before:?}");
    assert_eq!(before.json()["source"], "apply:crm");
    assert_eq!(
        changes(&before),
        [("a".to_owned(), "added".to_owned()), ("b".to_owned(), "added".to_owned())]
    );
    assert!(names(&bench).is_empty(), "diff changes nothing");
    let dry = bench.ctl.run(&["apply", "crm.toml", "--dry-run"]).good();
    assert!(
        dry.stdout.contains("+ a ")
            && dry.stdout.contains("2 added")
            && dry.stdout.contains("--dry-run"),
        "{dry:?}"
    );
    assert!(names(&bench).is_empty(), "a dry run changes nothing");

    let applied = bench.ctl.run(&["apply", "crm.toml"]).good();
    assert!(
        applied.stdout.ends_with("apply:crm: 2 added, 0 changed, 0 removed, 0 unchanged\n"),
        "{applied:?}"
    );
    assert_eq!(names(&bench), ["a", "b"]);
    assert_eq!(bench.ctl.run(&["diff", "crm.toml"]).good().stdout, "");
    let shown = bench.ctl.run(&["show", "a", "--json"]).good().json();
    assert_eq!((&shown["source"], &shown["source_name"]), (&json!("file"), &json!("apply:crm")));
    let shown = bench.ctl.run(&["show", "a"]).good();
    assert!(shown.stdout.contains("file: the file applied as crm"), "{shown:?}");

    let next = bench.ctl.run(&["show", "b", "--json"]).good().json();
    let again = bench.ctl.run(&["apply", "crm.toml", "--json"]).good().json();
    assert_eq!((&again["differs"], &again["jobs"][1]["change"]), (&json!(false), &json!("none")));
    let after = bench.ctl.run(&["show", "b", "--json"]).good().json();
    assert_eq!(
        (&after["rev"], &after["next_due"]),
        (&next["rev"], &next["next_due"]),
        "applying again changes nothing"
    );
}

#[test]
fn a_change_is_shown_key_by_key_and_no_secret_with_it() {
    let bench = Bench::start();
    write(&bench, "f.toml", &format!("{A}{B}"));
    bench.ctl.run(&["apply", "f.toml"]).good();
    let changed = B.replace("0 9", "30 9").replace("hunter2", "hunter3") + "retry = 2\n";
    write(&bench, "f.toml", &format!("{A}{changed}"));
    let shown = bench.ctl.run(&["diff", "f.toml"]);
    assert_eq!(shown.code, 1);
    let lines: Vec<&str> = shown.stdout.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 3, "{shown:?}");
    assert!(
        lines[0].starts_with("~ b ") && lines[0].ends_with(r#"cron: "0 9 * * *" -> "30 9 * * *""#),
        "{lines:?}"
    );
    assert_eq!(lines[1..], [r#"env.TOKEN: "(hidden)" -> "(hidden)""#, "retry.limit: none -> 2"]);
    let applied = bench.ctl.run(&["apply", "f.toml", "--json"]).good();
    assert_eq!(applied.json()["jobs"][1]["result"], "updated");
    for reported in [shown, applied] {
        assert!(
            !reported.stdout.contains("hunter") && !reported.stderr.contains("hunter"),
            "{reported:?}"
        );
    }
    assert_eq!(
        bench.ctl.run(&["show", "b", "--json"]).good().json()["definition"]["env"]["TOKEN"],
        "hunter3"
    );
}

#[test]
fn what_is_no_longer_in_the_file_stays_and_is_named_until_it_is_pruned() {
    let bench = Bench::start();
    write(&bench, "f.toml", &format!("[queues.mail]\nlimit = 3\n{A}queue = \"mail\"\n{B}"));
    bench.ctl.run(&["apply", "f.toml"]).good();
    write(&bench, "f.toml", B);
    let kept = bench.ctl.run(&["apply", "f.toml"]).good();
    assert!(
        kept.stdout.contains("- a ") && kept.stdout.contains("--prune removes the job"),
        "{kept:?}"
    );
    assert!(
        kept.stdout.contains("- queue mail")
            && kept.stdout.contains("--prune removes the queue")
            && kept.stdout.contains("1 no longer in the file but kept"),
        "{kept:?}"
    );
    assert_eq!(names(&bench), ["a", "b"]);
    let differs = bench.ctl.run(&["diff", "f.toml", "--json"]);
    assert_eq!((differs.code, changes(&differs)[1].1.as_str()), (1, "removed"));
    let pruned = bench.ctl.run(&["apply", "f.toml", "--prune", "--json"]).good().json();
    assert_eq!(
        (&pruned["jobs"][1]["job"], &pruned["jobs"][1]["result"]),
        (&json!("a"), &json!("removed"))
    );
    assert_eq!(names(&bench), ["b"]);
    let queues = bench.ctl.run(&["queues", "--json"]).good().json();
    assert!(
        !queues
            .as_array()
            .unwrap()
            .iter()
            .any(|queue| queue["name"] == "mail" && !queue["limit"].is_null()),
        "{queues}"
    );
    assert_eq!(bench.ctl.run(&["diff", "f.toml"]).good().stdout, "");
    // An emptied file takes all of them, since that was asked for.
    write(&bench, "f.toml", "");
    bench.ctl.run(&["apply", "f.toml", "--prune"]).good();
    assert!(names(&bench).is_empty());
}

#[test]
fn a_job_of_the_command_line_is_left_alone_and_reported_with_a_conflict() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "5m", "--", "mine"]);
    write(&bench, "f.toml", &format!("{A}{B}"));
    let differs = bench.ctl.run(&["diff", "f.toml"]);
    assert!(differs.code == 1 && differs.stdout.contains("! a "), "{differs:?}");
    let applied = bench.ctl.run(&["apply", "f.toml", "--prune"]);
    assert_eq!(applied.code, 4, "{applied:?}");
    assert!(
        applied
            .stderr
            .contains("job a is not applied: the name belongs to a job added with schedctl add"),
        "{applied:?}"
    );
    let error = bench.ctl.run(&["apply", "f.toml", "--json"]).stderr;
    let error: serde_json::Value = serde_json::from_str(&error).unwrap();
    assert_eq!((&error["exit_code"], &error["kind"]), (&json!(4), &json!("conflict")));
    assert_eq!(names(&bench), ["a", "b"]);
    let shown = bench.ctl.run(&["show", "a", "--json"]).good().json();
    assert_eq!(
        (&shown["source"], &shown["definition"]["command"]),
        (&json!("api"), &json!(["mine"]))
    );
    write(&bench, "f.toml", "");
    bench.ctl.run(&["apply", "f.toml", "--prune"]).good();
    assert_eq!(names(&bench), ["a"]);
}

#[test]
fn a_file_with_problems_changes_nothing_and_reports_them_all() {
    let bench = Bench::start();
    write(&bench, "f.toml", &format!("{A}{B}"));
    bench.ctl.run(&["apply", "f.toml"]).good();
    write(
        &bench,
        "bad.toml",
        "[jobs.c]\ncomand = \"x\"\n[jobs.d]\nshell = \"y\"\ntimeout = \"30\"\n",
    );
    for verb in [&["apply", "bad.toml", "--source", "f", "--prune"][..], &["diff", "bad.toml"]] {
        let refused = bench.ctl.run(verb);
        assert_eq!((refused.code, refused.stderr.lines().count()), (78, 2), "{refused:?}");
        assert!(
            refused.stderr.contains("bad.toml:2:1") && refused.stderr.contains("bad.toml:5:11"),
            "{refused:?}"
        );
    }
    assert_eq!(names(&bench), ["a", "b"]);
    bench.ctl.run(&["apply", "nowhere.toml"]).refused(78, &["nowhere.toml: no such file"]);
    bench
        .ctl
        .run(&["apply", "f.toml", "--source", "My Crm"])
        .refused(2, &["--source", "\"My Crm\""]);
    bench
        .ctl
        .run(&["diff", "f.toml", "--node", "a", "--source", "b"])
        .refused(2, &["cannot be used with"]);
    bench.ctl.run(&["apply"]).refused(2, &["FILE"]);
    Schedctl::alone().run(&["apply", "/no/such.toml"]).refused(78, &["no such file"]);
}

#[test]
fn a_one_shot_whose_time_is_past_is_not_planted_and_no_difference() {
    let bench = Bench::start();
    write(
        &bench,
        "f.toml",
        &format!("{A}[jobs.once]\nat = \"2020-01-01T00:00:00Z\"\nshell = \"true\"\n"),
    );
    let applied = bench.ctl.run(&["apply", "f.toml"]).good();
    assert!(
        applied.stderr.contains("job once gets no run, because its last time is past"),
        "{applied:?}"
    );
    assert_eq!(names(&bench), ["a"]);
    bench.ctl.run(&["diff", "f.toml"]).good();
}

#[test]
fn an_applied_job_is_not_taken_out_by_hand_nor_by_another_source() {
    let bench = Bench::start();
    write(&bench, "one.toml", A);
    write(&bench, "two.toml", &A.replace("1h", "2h"));
    bench.ctl.run(&["apply", "one.toml"]).good();
    bench
        .ctl
        .run(&["cancel", "a"])
        .refused(4, &["the file applied as one", "apply it with --prune"]);
    bench.ctl.run(&["add", "--name", "a", "--", "x"]).refused(4, &["the file applied as one"]);
    let differs = bench.ctl.run(&["diff", "two.toml"]);
    assert!(
        differs.code == 1
            && differs
                .stdout
                .contains("also defined in the file applied as one; the last change wins"),
        "{differs:?}"
    );
    bench.ctl.run(&["apply", "two.toml"]).good();
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).good().json()["definition"]["every"], "2h");
    assert_eq!(bench.ctl.run(&["diff", "one.toml"]).code, 1);
    // One source lets go of it, the other keeps it.
    write(&bench, "two.toml", "");
    let let_go = bench.ctl.run(&["apply", "two.toml", "--prune", "--json"]).good().json();
    assert_eq!(let_go["jobs"][0]["result"], "unlisted");
    assert_eq!(names(&bench), ["a"]);
    let doctor = bench.ctl.run(&["doctor", "--json"]).json();
    assert!(!doctor.to_string().contains("listed"), "{doctor}");
}

#[test]
fn a_definition_that_cannot_be_read_is_written_anew() {
    let bench = Bench::start();
    write(&bench, "f.toml", A);
    bench.ctl.run(&["apply", "f.toml"]).good();
    redis::cmd("HSET")
        .arg("{schedd}:job:a")
        .arg("def")
        .arg("{garbage")
        .exec(&mut bench.redis.connection())
        .unwrap();
    let differs = bench.ctl.run(&["diff", "f.toml"]);
    assert!(
        differs.code == 1
            && differs.stdout.contains("~ a ")
            && differs.stdout.contains("cannot be read"),
        "{differs:?}"
    );
    assert!(bench.ctl.run(&["apply", "f.toml"]).good().stdout.contains("1 changed"));
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).good().json()["definition"]["every"], "1h");
    bench.ctl.run(&["diff", "f.toml"]).good();
}

#[test]
fn a_node_and_an_applied_file_live_beside_each_other() {
    let bench = Bench::start();
    let eye = Eye::on(&bench.redis);
    let node = Schedd::on(&bench.redis).node("web1").jobs(A).start();
    until("the node's job is there", LONG, || {
        eye.job("a").filter(schedd_store::JobRecord::is_live)
    });
    write(&bench, "f.toml", B);
    bench.ctl.run(&["apply", "f.toml"]).good();
    // What reloading the node would do.
    write(&bench, "new.toml", &format!("{}[jobs.c]\nshell = \"true\"\n", A.replace("1h", "3h")));
    let reload = bench.ctl.run(&["diff", "new.toml", "--node", "web1", "--json"]);
    assert_eq!(
        changes(&reload),
        [("a".to_owned(), "changed".to_owned()), ("c".to_owned(), "added".to_owned())]
    );
    fs::copy(bench.ctl.home().join("new.toml"), node.jobs_file()).unwrap();
    node.hup();
    until("the node has it so", LONG, || eye.job("c").filter(schedd_store::JobRecord::is_live));
    until("without a difference", LONG, || {
        Some(()).filter(|()| bench.ctl.run(&["diff", "new.toml", "--node", "web1"]).code == 0)
    });
    assert_eq!(names(&bench), ["a", "b", "c"]);
    bench
        .ctl
        .run(&["diff", "new.toml", "--node", "web2"])
        .refused(3, &["no node web2 is known", "schedctl nodes"]);
    // What it said already it does not say again when another file changes it.
    write(&bench, "o.toml", &A.replace("1h", "9h"));
    bench.ctl.run(&["apply", "o.toml"]).good();
    let overruled = bench.ctl.run(&["diff", "new.toml", "--node", "web1"]).good();
    let wanted = "job a: the node already applied this definition; the file applied as o changed the job later, and that change wins";
    assert!(overruled.stderr.contains(wanted) && overruled.stdout.is_empty(), "{overruled:?}");
    let document = bench.ctl.run(&["diff", "new.toml", "--node", "web1", "--json"]).good();
    assert_eq!(changes(&document)[0], ("a".to_owned(), "overruled".to_owned()));
    let times_read = || node.log().matches("All jobs of the jobs file are applied.").count();
    let before = times_read();
    node.hup();
    until("the node has read its file again", LONG, || Some(()).filter(|()| times_read() > before));
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).good().json()["definition"]["every"], "9h");
    // The node keeps to its own: what was applied is not in its file, and stays.
    assert!(eye.job("b").unwrap().listed_by.contains_key("apply:f"));
}

#[test]
fn what_a_file_changed_is_as_the_others_say_again_once_it_has_it_no_more() {
    let bench = Bench::start();
    let eye = Eye::on(&bench.redis);
    let queue = |limit: u32| format!("[queues.mail]\nlimit = {limit}\n");
    let _node = Schedd::on(&bench.redis).node("web1").jobs(&format!("{}{A}", queue(2))).start();
    until("the node's job is there", LONG, || {
        eye.job("a").filter(schedd_store::JobRecord::is_live)
    });
    write(&bench, "o.toml", &format!("{}{}", queue(7), A.replace("1h", "9h")));
    bench.ctl.run(&["apply", "o.toml"]).good();
    let files = || bench.ctl.run(&["doctor"]).stdout;
    let warned = files();
    for what in ["a", "queue mail"] {
        let wanted = "defined differently in the files of apply:o, web1";
        assert!(
            warned.lines().any(|line| line.contains(what) && line.contains(wanted)),
            "{warned}"
        );
    }
    write(&bench, "o.toml", "");
    bench.ctl.run(&["apply", "o.toml", "--prune"]).good();
    until("the node's text holds", LONG, || {
        let every =
            bench.ctl.run(&["show", "a", "--json"]).good().json()["definition"]["every"].clone();
        let queues = bench.ctl.run(&["queues", "--json"]).good().json();
        let limit = queues
            .as_array()
            .unwrap()
            .iter()
            .find(|queue| queue["name"] == "mail")
            .unwrap()["limit"]
            .clone();
        Some(()).filter(|()| every == "1h" && limit == 2)
    });
    assert!(
        files().contains("all files that nodes read were applied, and no two files define a job, queue or group differently"),
        "{}",
        files()
    );
}

#[test]
fn a_job_that_is_live_as_no_file_says_is_named_until_one_of_them_is_applied_again() {
    let bench = Bench::start();
    write(&bench, "one.toml", A);
    write(&bench, "two.toml", &A.replace("1h", "2h"));
    bench.ctl.run(&["apply", "one.toml"]).good();
    bench.ctl.run(&["apply", "two.toml"]).good();
    write(&bench, "two.toml", "");
    bench.ctl.run(&["apply", "two.toml", "--prune"]).good();
    let reported = bench.ctl.run(&["doctor"]).stdout;
    assert!(
        reported.contains(
            "the file with the definition in effect no longer has this job, and the files of apply:one define the job differently"
        ),
        "{reported}"
    );
    let applied = bench.ctl.run(&["apply", "one.toml"]).good();
    assert!(applied.stdout.contains("1 changed"), "{applied:?}");
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).good().json()["definition"]["every"], "1h");
    let reported = bench.ctl.run(&["doctor"]).stdout;
    assert!(!reported.contains("the live definition comes from a file"), "{reported}");
}
