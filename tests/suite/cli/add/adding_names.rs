//! `add` under a name that a job has.

use schedd::engine::planning::planting::{Applied, Request, apply_one};
use schedd_core::config::job_from_json;
use schedd_schedule::time::zone::Zone;
use schedd_store::{Existing, SourceKind};

use crate::cli::Bench;
use crate::support::ctl::Finished;
use crate::support::eye::Eye;

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
    let add = |flags: &[&str]| {
        bench.ctl.run(&[&["add", "--name", "backup"], flags, &["--", "y"]].concat())
    };
    for flags in [&[][..], &["--replace"]] {
        add(flags).refused(4, &["backup", "web-1", "edit [jobs.backup]"]);
    }
    assert_eq!(add(&["--if-absent", "--json"]).good().json()["result"], "exists");
    let line = br#"{"name": "backup", "shell": "y"}"#;
    bench.ctl.run_with_input(&["add", "--stdin", "--if-absent"], line).good();
    assert_eq!(bench.ctl.run(&["show", "backup", "--json"]).json()["definition"]["shell"], "x");
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
        is_drawn: false,
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
