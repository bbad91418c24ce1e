//! Dead letters with a `schedd` that runs: what failed is mended, tried again as the same run, and done.

use serde_json::{Value, json};

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

#[track_caller]
fn run_in(ctl: &Schedctl, job: &str, state: &str) -> Value {
    until(&format!("a run of {job} is {state}"), LONG, || {
        let runs = ctl.run(&["history", job, "--json"]).good().json();
        runs.as_array().unwrap().iter().find(|run| run["state"] == state).cloned()
    })
}

fn id_of(run: &Value) -> String {
    run["run_id"].as_str().unwrap().to_owned()
}

fn dead_of(ctl: &Schedctl, job: &str) -> usize {
    ctl.run(&["history", job, "--dead", "--json"]).good().json().as_array().unwrap().len()
}

#[test]
fn what_failed_is_mended_and_tried_again_as_the_same_run_also_after_a_restart() {
    let (redis, effects) = (TestRedis::durable(), Effects::new());
    let mut node = Schedd::on(&redis).jobs("").start();
    let ctl = Schedctl::on(&redis).env("TZ", "UTC");
    let mended = ctl.home().join("mended");
    let line = effects.shell(&format!("test -e {}", mended.display()));
    ctl.run(&["add", "--name", "once", "--in", "0s", "--shell", &line]).good();
    let first = run_in(&ctl, "once", "failed");
    let id = id_of(&first);
    let shown = ctl.run(&["show", &id]).good().stdout;
    assert!(shown.contains(&format!("schedctl retry {id}")), "{shown}");
    assert_eq!(dead_of(&ctl, "once"), 1);

    // Not mended yet: it fails a second time and can be retried a second time.
    ctl.run(&["retry", &id]).good();
    let second = until("it failed again", LONG, || {
        let run = ctl.run(&["show", &id, "--json"]).good().json();
        Some(run).filter(|run| run["state"] == "failed" && run["attempt"] == 2)
    });
    assert_eq!((&second["due"], second["attempts"].as_array().unwrap().len()), (&first["due"], 2));
    node.kill9();
    assert_eq!(
        ctl.run(&["retry", &id, "--json"]).good().json(),
        json!([{"run_id": id, "result": "retried"}])
    );
    assert_eq!(
        ctl.run(&["retry", &id, "--json"]).good().json(),
        json!([{"run_id": id, "result": "already"}])
    );
    let waiting = ctl.run(&["show", &id, "--json"]).good().json();
    assert_eq!((&waiting["state"], &waiting["finished_at"]), (&"scheduled".into(), &Value::Null));
    assert_eq!(dead_of(&ctl, "once"), 0);
    std::fs::write(&mended, "").unwrap();
    node.start_again();
    let done = run_in(&ctl, "once", "succeeded");
    assert_eq!((id_of(&done), &done["attempt"]), (id.clone(), &3.into()));
    let attempts: Vec<u32> = effects.of("once").iter().map(|effect| effect.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    ctl.run(&["retry", &id])
        .refused(4, &["not a dead letter", "succeeded", "schedctl rerun once@"]);
    ctl.run(&["purge", &id]).refused(4, &["not a dead letter"]);
    assert_eq!(
        ctl.run(&["list", "--json"]).good().json(),
        json!([]),
        "the one-shot stays finished"
    );
    let stats = ctl.run(&["stats", "--json"]).good().json();
    assert_eq!(
        (&stats["retried"], &stats["dead"], &stats["scheduled"]),
        (&2.into(), &0.into(), &0.into())
    );
}

#[test]
fn a_lost_run_is_started_again_only_when_a_user_says_so() {
    let (redis, effects) = (TestRedis::durable(), Effects::new());
    let mut node = Schedd::on(&redis).jobs("[daemon]\nlease = \"2s\"\n").start();
    let ctl = Schedctl::on(&redis).env("TZ", "UTC");
    let again = ctl.home().join("again");
    let line = effects.shell(&format!("test -e {} || sleep 60", again.display()));
    ctl.run(&[
        "add",
        "--name",
        "amo",
        "--in",
        "0s",
        "--delivery",
        "at-most-once",
        "--shell",
        &line,
    ])
    .good();
    until("it has begun", LONG, || Some(()).filter(|()| effects.of("amo").len() == 1));
    node.kill9();
    std::fs::write(&again, "").unwrap();
    node.start_again();
    let id = id_of(&run_in(&ctl, "amo", "lost"));
    assert_eq!(effects.of("amo").len(), 1);
    ctl.run(&["retry", "--dead", "--state", "lost"]).good();
    let done = run_in(&ctl, "amo", "succeeded");
    assert_eq!((id_of(&done), &done["attempt"]), (id, &2.into()));
    assert_eq!(effects.of("amo").len(), 2);
}

#[test]
fn a_run_that_took_too_long_is_tried_again_with_all_its_retries() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let _node = Schedd::on(&redis).jobs("").start();
    let ctl = Schedctl::on(&redis).env("TZ", "UTC");
    let line = effects.shell("sleep 60");
    let retry = ["--retry", "1", "--retry-delay", "10ms"];
    let add = ["add", "--name", "slow", "--in", "0s", "--timeout", "200ms", "--shell", &line];
    ctl.run(&[&add[..], &retry].concat()).good();
    let id = id_of(&run_in(&ctl, "slow", "timed_out"));
    assert_eq!(effects.of("slow").len(), 2);
    ctl.run(&["retry", &id]).good();
    until("it has used its budget again", LONG, || {
        let run = ctl.run(&["show", &id, "--json"]).good().json();
        Some(()).filter(|()| run["state"] == "timed_out" && run["attempt"] == 4)
    });
    assert_eq!(effects.of("slow").len(), 4);
}
