//! Unique keys while nodes run and die: never two runs for one burst, never none, and the last definition of each.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use schedd::attempts::Attempt;
use schedd::engine::planning::planting::Applied;
use schedd_core::domain::job::job_spec::Action;
use serde_json::json;

use crate::node::QUICK;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

const ADDS: u32 = 300;

#[test]
fn each_burst_that_races_with_its_claim_runs_once_by_its_last_definition() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _nodes =
        ["one", "two"].map(|node| ScriptedNode::on(&redis, &script).node(node).jobs(QUICK).start());
    let mut last: BTreeMap<String, u32> = BTreeMap::new();
    for number in 0..ADDS {
        let name = format!("job-{number}");
        let shell = format!("work {number}");
        script.set(&shell, &[Act::End(exit(0))]);
        let delay = format!("{}ms", [0, 1, 5, 20][number as usize % 4]);
        let applied =
            eye.add(&json!({"name": name, "in": delay, "shell": shell, "unique": {"key": "burst", "mode": "debounce"}}));
        let job = match applied {
            Applied::Created(_) => name,
            Applied::Moved(first, _) => first.to_string(),
            other => panic!("{other:?}"),
        };
        last.insert(job, number);
    }
    // All are over once none is left.
    until("all have run", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().list_jobs(0, 1)).unwrap().is_empty())
    });
    let of = |attempt: Attempt| {
        let Action::Shell(line) = attempt.action else { panic!("{attempt:?}") };
        let number = line.strip_prefix("work ").unwrap().parse().unwrap();
        (attempt.run.job().to_string(), number)
    };
    let ran: Vec<(String, u32)> = script.attempts().into_iter().map(of).collect();
    println!("{ADDS} adds, {} bursts", last.len());
    let mut sorted = ran.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        last.into_iter().collect::<Vec<_>>(),
        "once for each burst, by its last definition"
    );
}

#[test]
fn a_debounced_job_runs_again_after_the_run_under_way_and_never_beside_it() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).node("one").jobs(QUICK).start();
    let add = || {
        let unique = json!({"key": "sync", "mode": "debounce"});
        eye.add(&json!({"name": "sync", "in": "0s", "shell": "sleep 1", "unique": unique}))
    };
    assert!(matches!(add(), Applied::Created(_)));
    until("it runs", LONG, || script.of("sync").into_iter().next());
    assert!(matches!(add(), Applied::Updated(Some(_))));
    let done = until("it has run twice", LONG, || {
        Some(script.of("sync"))
            .filter(|done| done.iter().filter(|it| it.ended.is_some()).count() == 2)
    });
    assert!(done[0].ended.unwrap() <= done[1].began, "{done:?}");
    eye.wait_for_history("sync", 2);
    until("it is over", LONG, || Some(()).filter(|()| !eye.job("sync").unwrap().is_live()));
    assert_eq!(eye.history("sync").len(), 2);
}

#[test]
fn a_key_outlives_its_killed_node_and_frees_once_another_node_did_the_work() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let mut one = ScriptedNode::on(&redis, &script).node("one").jobs(QUICK).start();
    let add =
        |name: &str| eye.add(&json!({"name": name, "in": "0s", "shell": "sleep 1", "unique": "k"}));
    assert!(matches!(add("first"), Applied::Created(_)));
    until("it runs", LONG, || script.of("first").into_iter().next());
    one.crash();
    let taken = Applied::Taken("first".parse().unwrap());
    assert_eq!(add("second"), taken);
    let _two = ScriptedNode::on(&redis, &script).node("two").jobs(QUICK).start();
    let mut refused = 0;
    until("the second goes in", Duration::from_secs(60), || match add("second") {
        Applied::Created(_) => Some(()),
        other => {
            assert_eq!(other, taken);
            refused += 1;
            None
        }
    });
    assert!(refused > 0);
    assert!(!eye.job("first").unwrap().is_live());
    let done = script.of("first");
    assert!(done.len() == 2 && done[1].ended.is_some(), "{done:?}");
    eye.wait_for_history("second", 1);
}

#[test]
fn keys_nobody_holds_any_more_are_trimmed_by_a_node() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).jobs("[history]\nkeep_per_job = 1\n").start();
    for number in 0..250 {
        eye.add(&json!({"name": format!("j{number}"), "in": "0s", "shell": "true", "unique": format!("k{number}")}));
    }
    eye.add(&json!({"name": "held", "in": "0s", "shell": "true", "unique": {"key": "held", "for": "1h"}}));
    until("all have run", Duration::from_secs(60), || {
        Some(()).filter(|()| eye.ask(eye.store().list_jobs(0, 1)).unwrap().is_empty())
    });
    // The janitor makes no round while nothing changes, so runs end until the keys are due.
    eye.add(&json!({"name": "loud", "shell": "true", "overlap": "allow"}));
    let mut connection = redis.connection();
    let mut changed: Option<Instant> = None;
    until("they are trimmed", Duration::from_secs(180), || {
        if changed.is_none_or(|at| at.elapsed() > Duration::from_secs(2)) {
            let loud = "loud".parse().unwrap();
            let call =
                schedd::engine::planning::job_operations::run_by_hand(eye.store(), &loud, None);
            assert_eq!(eye.ask(call).unwrap().len(), 1);
            changed = Some(Instant::now());
        }
        let left: Vec<String> =
            redis::cmd("KEYS").arg("{schedd}:unique:*").query(&mut connection).unwrap();
        Some(()).filter(|()| left == ["{schedd}:unique:held"])
    });
    let index: Vec<String> =
        redis::cmd("ZRANGE").arg("{schedd}:uniques").arg(0).arg(-1).query(&mut connection).unwrap();
    assert_eq!(index, ["held"]);
}
