//! `history --dead`, `retry` and `purge`: which dead letters are meant, and what is said of them.

use schedd_core::domain::run::run_state::RunState;
use schedd_store::Claim;
use serde_json::{Value, json};

use crate::cli::Bench;

/// A one-shot `name` whose run ended so.
fn ended(bench: &Bench, name: &str, state: RunState) -> String {
    bench.add(&["--name", name, "--in", "0s", "--", "x"]);
    let claim: Claim = bench.node.claim(name);
    bench.node.finish(&claim, state, &[]);
    claim.run.to_string()
}

/// One of each dead state and one that is none, oldest first.
fn scene() -> (Bench, [String; 4]) {
    let bench = Bench::start();
    let ends = [
        ("f", RunState::Failed),
        ("t", RunState::TimedOut),
        ("l", RunState::Lost),
        ("s", RunState::Succeeded),
    ];
    let ids = ends.map(|(name, state)| ended(&bench, name, state));
    (bench, ids)
}

fn ids(document: &Value) -> Vec<&str> {
    document.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect()
}

#[test]
fn dead_letters_are_listed_newest_first_by_state_job_time_and_page() {
    let (bench, [f, t, l, s]) = scene();
    // The last one, wherever this host and its clock are.
    let weekday =
        jiff::Zoned::now().saturating_sub(jiff::ToSpan::days(2)).strftime("%a").to_string();
    let cases: [(&[&str], &[&String]); 17] = [
        (&["--since", &weekday], &[&s, &l, &t, &f]),
        (&["--dead", "--since", &weekday], &[&l, &t, &f]),
        (&["--until", &weekday], &[]),
        (&["--dead"], &[&l, &t, &f]),
        (&["--dead", "f"], &[&f]),
        (&["--dead", "s"], &[]),
        (&["--dead", "--limit", "1", "--offset", "1"], &[&t]),
        (&["--dead", "--state", "lost,failed"], &[&l, &f]),
        (
            &["--dead", "--state", "lost", "--state", "failed", "--limit", "1", "--offset", "1"],
            &[&f],
        ),
        (&["--dead", "--since", "1h"], &[&l, &t, &f]),
        (&["--dead", "--until", "1h"], &[]),
        (&["--dead", "--since", "2020-01-01", "--until", "2020-01-02"], &[]),
        (&["--since", "1h"], &[&s, &l, &t, &f]),
        (&["--state", "succeeded"], &[&s]),
        (&["--state", "succeeded,lost", "--until", "2099-01-01T00:00Z"], &[&s, &l]),
        (&["f", "--state", "succeeded"], &[]),
        (&[], &[&s, &l, &t, &f]),
    ];
    for (flags, wanted) in cases {
        let found = bench.ctl.run(&[&["history", "--json"], flags].concat()).good().json();
        assert_eq!(
            ids(&found),
            wanted.iter().map(|id| id.as_str()).collect::<Vec<_>>(),
            "{flags:?}"
        );
    }
    bench
        .ctl
        .run(&["history", "--dead", "--state", "succeeded"])
        .refused(2, &["succeeded", "timed_out"]);
    bench.ctl.run(&["history", "--state", "nosuch"]).refused(2, &["nosuch"]);
    bench
        .ctl
        .run(&["history", "--since", "1h", "--until", "2h"])
        .refused(2, &["--since", "--until", "no run can match"]);
    bench
        .ctl
        .run(&["history", "--since", "2099-01-01"])
        .refused(2, &["--since", "wanted a past time"]);
    bench.ctl.run(&["history", "--limit", "-1"]).refused(2, &["-1"]);
    bench.ctl.run(&["history", "--limit", "many"]).refused(2, &["--limit", "many"]);
    bench.ctl.run(&["history", "--since", "whenever"]).refused(2, &["--since", "whenever"]);
}

#[test]
fn those_a_filter_picks_are_retried_oldest_first_and_a_dry_run_changes_nothing() {
    let (bench, [f, t, l, _]) = scene();
    let picked = |flags: &[&str]| {
        bench.ctl.run(&[&["retry", "--dead", "--json"], flags].concat()).good().json()
    };
    let all = picked(&["--dry-run"]);
    assert_eq!(ids(&all), [&f, &t, &l]);
    assert!(all.as_array().unwrap().iter().all(|run| run["result"] == "would_retry"), "{all}");
    assert_eq!(bench.ctl.run(&["stats", "--json"]).json()["dead"], 3);
    assert_eq!(picked(&["--until", "1h"]), json!([]));
    assert_eq!(picked(&["--state", "timed_out"]), json!([{"run_id": t, "result": "retried"}]));
    assert_eq!(picked(&["--limit", "1"]), json!([{"run_id": f, "result": "retried"}]));
    assert_eq!(picked(&["--job", "f"]), json!([]));
    assert_eq!(picked(&["--job", "l"]), json!([{"run_id": l, "result": "retried"}]));
    let stats = bench.ctl.run(&["stats", "--json"]).json();
    assert_eq!(
        (&stats["dead"], &stats["retried"], &stats["scheduled"]),
        (&0.into(), &3.into(), &3.into())
    );
    assert_eq!(bench.node.claim("f").attempt, 2);
}

#[test]
fn every_run_named_is_tried_and_what_cannot_be_is_said_with_what_to_do() {
    let (bench, [f, t, l, s]) = scene();
    let several = bench.ctl.run(&["retry", &f, &s, &t]);
    several.refused(4, &[&s, "succeeded", "schedctl rerun s@"]);
    assert_eq!(several.stdout, format!("run {f} is ready again\nrun {t} is ready again\n"));
    bench.ctl.run(&["retry", "l@9"]).refused(3, &["no run l@9"]);
    bench.add(&["--name", "live", "--every", "1h", "--", "x"]);
    let planned = ["found scheduled", "the run is planned and has not begun"];
    for verb in
        [&["retry", "live@next"][..], &["retry", "live@next", "--dry-run"], &["purge", "live@next"]]
    {
        bench.ctl.run(verb).refused(4, &planned);
    }
    bench.ctl.run(&["run", "live"]).good();
    let claim = bench.node.claim("live");
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    let advice = format!("run it again with schedctl rerun {}", claim.run);
    bench.ctl.run(&["retry", "live@last"]).refused(4, &[&advice]);
    bench.ctl.run(&["retry", "nosuch@1"]).refused(3, &["nosuch"]);
    bench.ctl.run(&["retry"]).refused(2, &["ids of runs, or --dead", "schedctl retry --help"]);
    bench.ctl.run(&["retry", &l, "--dead"]).refused(2, &["--dead"]);
    bench.ctl.run(&["retry", &l, "--state", "lost"]).refused(2, &["--dead"]);
    bench.ctl.run(&["retry", "l"]).refused(2, &["l"]);
    bench.ctl.run(&["purge"]).refused(2, &["schedctl purge --help"]);
    bench.ctl.run(&["purge", "--keep", "1"]).refused(2, &["--dead"]);
    bench.ctl.run(&["purge", &l, "--dead"]).refused(2, &["--dead"]);
    bench.ctl.run(&["purge", "--dead", "--older-than", "old"]).refused(2, &["--older-than", "old"]);

    bench.add(&["--name", "gone", "--every", "1s", "--", "x"]);
    let claim = bench.node.claim("gone");
    bench.node.finish(&claim, RunState::Failed, &[]);
    let id = claim.run.to_string();
    let offers = || bench.ctl.run(&["show", &id]).good().stdout.contains("retries the run");
    assert!(offers());
    bench.ctl.run(&["cancel", "gone"]).good();
    for flags in [&[][..], &["--dry-run"]] {
        let gone = bench.ctl.run(&[&["retry", &id], flags].concat());
        gone.refused(4, &["job gone no longer exists", "add the job again"]);
    }
    assert!(!offers());
    bench.add(&["--name", "gone", "--", "y"]);
    for flags in [&[][..], &["--dry-run"]] {
        let earlier = bench.ctl.run(&[&["retry", &id], flags].concat());
        let rerun = format!("schedctl rerun {id} ");
        earlier.refused(4, &["it belongs to an earlier job gone", &rerun]);
    }
    assert!(!offers());
    bench.ctl.run(&["rerun", &claim.run.to_string()]).good();
}

#[test]
fn a_retried_run_waits_for_the_open_run_of_its_job() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1s", "--", "x"]);
    let first = bench.node.claim("a");
    bench.node.finish(&first, RunState::Failed, &[]);
    let open = bench.node.claim("a");
    let id = first.run.to_string();
    assert_eq!(
        bench.ctl.run(&["retry", &id, "--json"]).good().json(),
        json!([{"run_id": id, "result": "waiting"}])
    );
    assert_eq!(bench.ctl.run(&["stats", "--json"]).json()["waiting"], 1);
    bench.ctl.run(&["pause", "a"]).good();
    bench.node.finish(&open, RunState::Succeeded, &[]);
    let again = bench.node.claim("a");
    assert_eq!((again.run, again.attempt), (first.run, 2));
}

#[test]
fn every_dead_letter_is_forgotten_only_when_that_is_surely_meant() {
    let (bench, _) = scene();
    bench
        .ctl
        .run(&["purge", "--dead"])
        .refused(2, &["every dead letter of namespace schedd", "--yes", "--older-than"]);
    bench.ctl.run(&["purge", "--dead", "--dry-run"]).good();
    for answer in ["", "\n", "y\n", "schedd2\n"] {
        let asked = bench.ctl.answer_on_terminal(&["purge", "--dead"], answer);
        assert!(
            asked.code == 2
                && asked.stdout.contains("3 dead letters of namespace schedd will be deleted"),
            "{asked:?}"
        );
        assert!(
            asked.stdout.contains("type schedd to confirm: ")
                && asked.stdout.contains("nothing is deleted"),
            "{asked:?}"
        );
    }
    assert_eq!(bench.ctl.run(&["stats", "--json"]).json()["dead"], 3);
    let asked = bench.ctl.answer_on_terminal(&["purge", "--dead"], "schedd\n");
    assert!(asked.code == 0 && asked.stdout.ends_with("3 dead letters deleted\r\n"), "{asked:?}");
    assert!(
        bench
            .ctl
            .run_on_terminal(&["purge", "--dead"])
            .good()
            .stdout
            .ends_with("0 dead letters deleted\r\n")
    );
    assert_eq!(
        bench.ctl.run(&["purge", "--dead", "--yes"]).good().stdout,
        "0 dead letters deleted\n"
    );
    for flags in [
        &["--yes"][..],
        &["--older-than", "7d"],
        &["--keep", "1"],
        &["--state", "lost"],
        &["--job", "f"],
    ] {
        bench.ctl.run(&[&["purge", "a@5"], flags].concat()).refused(2, &[flags[0], "RUN"]);
        bench.ctl.run(&[&["purge"], flags].concat()).refused(2, &["--dead"]);
    }
}

#[test]
fn dead_letters_are_purged_by_name_age_and_count_and_the_others_stay() {
    let (bench, [f, t, l, s]) = scene();
    let purge = |flags: &[&str]| {
        bench.ctl.run(&[&["purge", "--json"], flags].concat()).good().json()["purged"].clone()
    };
    assert_eq!(purge(&["--dead", "--older-than", "1h"]), 0);
    let dry = ["purge", "--json", "--dead", "--keep", "1", "--dry-run"];
    let found = serde_json::json!({"found": 2, "purged": 0, "dry_run": true});
    assert_eq!(bench.ctl.run(&dry).good().json(), found);
    assert_eq!(purge(&["--dead", "--state", "lost", "--keep", "1"]), 0);
    assert_eq!(purge(&["--dead", "--keep", "2", "--older-than", "0s"]), 1);
    bench.ctl.run(&["show", &f]).refused(3, &[&f]);
    assert_eq!(bench.ctl.run(&["purge", &t]).good().stdout, "1 dead letter deleted\n");
    bench.ctl.run(&["purge", &t]).refused(3, &[&t]);
    bench.ctl.run(&["purge", &s]).refused(4, &[&s, "not a dead letter"]);
    assert_eq!(purge(&["--dead", "--job", "t"]), 0);
    assert_eq!(ids(&bench.ctl.run(&["history", "--json"]).json()), [&s, &l]);
    assert_eq!(purge(&["--dead", "--yes"]), 1);
    assert_eq!(ids(&bench.ctl.run(&["history", "--json"]).json()), [&s]);
}
