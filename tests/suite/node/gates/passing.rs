//! Keys, groups and `not_while` with whole nodes that are killed, by the jobs' own word; and what blocked runs cost.

use std::collections::BTreeMap;
use std::time::Duration;

use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::effects::Effect;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

const GROUPS: &str = "[daemon]\nlease = \"2s\"\n[groups.one]\nmode = \"exclusive\"\n\
    [groups.turns]\nmode = \"alternate\"\norder = [\"ta\", \"tb\"]\ngap = \"300ms\"\nturn_timeout = \"3s\"\n";

/// Attempts that lie in each other's time, by their own word; of one that never told its end none is known.
fn together(
    script: &[Effect],
    are_apart: impl Fn(&str, &str) -> bool,
) -> Option<(&Effect, &Effect)> {
    let job = |effect: &Effect| effect.run.split('@').next().unwrap().to_owned();
    script.iter().enumerate().find_map(|(at, one)| {
        let end = one.ended?;
        let other = script[at + 1..].iter().find(|other| {
            let is_apart =
                other.began >= end || other.ended.is_some_and(|ended| ended <= one.began);
            other.ended.is_some() && !is_apart && are_apart(&job(one), &job(other))
        })?;
        Some((one, other))
    })
}

#[test]
fn with_dying_nodes_no_key_group_or_exclusive_pair_overlaps_and_all_runs_end() {
    let (redis, script) = (TestRedis::durable(), Script::new());
    let eye = Eye::on(&redis);
    let turns = |job: &str| {
        format!(
            "[jobs.{job}]\nevery = \"1s\"\ngroup = \"turns\"\ncatch_up = \"skip\"\nshell = {:?}\n",
            "sleep 0.1"
        )
    };
    let jobs = format!("{GROUPS}{}{}", turns("ta"), turns("tb"));
    let mut nodes: Vec<ScriptedNode> = ["one", "two", "three"]
        .map(|name| ScriptedNode::on(&redis, &script).node(name).jobs(&jobs).start())
        .into();
    until("the groups are known", LONG, || eye.job("tb"));
    until("the groups are there", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().read_groups()).unwrap().len() == 2)
    });
    for number in 0..8 {
        let delay = format!("{}ms", number * 150);
        eye.add(&json!({"name": format!("g{number}"), "in": delay, "group": "one", "shell": "sleep 0.2"}));
        eye.add(
            &json!({"name": format!("k{number}"), "in": delay, "key": "a b", "per_key": 2, "shell": "sleep 0.2"}),
        );
        eye.add(&json!({"name": format!("n{number}"), "in": delay, "not_while": ["owner"], "shell": "sleep 0.1"}));
    }
    eye.add(&json!({"name": "owner", "in": "400ms", "shell": "sleep 0.5"}));
    for victim in [0, 1] {
        let begun = script.all().len();
        until("some have begun", LONG, || Some(()).filter(|()| script.all().len() >= begun + 3));
        nodes[victim].crash();
        nodes[victim].start_again();
    }
    let names: Vec<String> =
        ["g", "k", "n"].iter().flat_map(|kind| (0..8).map(move |n| format!("{kind}{n}"))).collect();
    for name in names.iter().map(String::as_str).chain(["owner"]) {
        until(&format!("{name} has run"), Duration::from_secs(90), || {
            eye.history(name).into_iter().next()
        });
    }
    let all = script.all();
    let is = |kind: char, one: &str, other: &str| one.starts_with(kind) && other.starts_with(kind);
    assert_eq!(together(&all, |one, other| is('g', one, other)), None, "a group");
    assert_eq!(together(&all, |one, other| is('t', one, other)), None, "turns");
    assert_eq!(
        together(&all, |one, other| one != other
            && [one, other].contains(&"owner")
            && (one.starts_with('n') || other.starts_with('n'))),
        None
    );
    for effect in all.iter().filter(|effect| effect.run.starts_with('k')) {
        let at = effect.began;
        let others = all.iter().filter(|other| {
            other.run.starts_with('k')
                && other.began <= at
                && other.ended.is_some_and(|end| end > at)
        });
        assert!(others.count() <= 2, "three of a key");
    }
    // Of those that take turns each waits for the other, and for the gap.
    let mut done: Vec<&Effect> =
        all.iter().filter(|effect| effect.run.starts_with('t') && effect.ended.is_some()).collect();
    done.sort_by_key(|effect| effect.began);
    for pair in done.windows(2) {
        let between = pair[1].began.saturating_sub(pair[0].ended.unwrap());
        assert!(between >= 290_000_000, "only {between} ns after {pair:?}");
    }
    let standing =
        eye.ask(eye.store().read_group_standings(&["turns".parse().unwrap()])).unwrap().remove(0);
    assert!(standing.turn.is_some(), "{standing:?}");
    let findings = Schedctl::on(&redis).run(&["doctor", "--json"]).json();
    assert!(!findings.to_string().contains("wrong:gate"), "{findings}");
}

#[test]
fn what_a_run_waits_for_is_shown_and_a_job_taken_out_says_of_no_run_that_goes_on() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    eye.add(&json!({"name": "holder", "in": "0s", "key": "a b", "shell": "sleep 600"}));
    let _node = ScriptedNode::on(&redis, &script).start();
    until("the key is taken", LONG, || script.of("holder").into_iter().next());
    eye.add(&json!({"name": "w", "every": "1s", "key": "a b", "per_key": {"limit": 1, "rate": "9/1m"}, "not_while": ["c", "d"],
        "shell": "true"}));
    let waits = || {
        Some(ctl.run(&["show", "w"]).good().stdout)
            .filter(|shown| shown.contains("waits for key a b"))
    };
    let shown = until("one waits", LONG, waits);
    for line in ["key           a b, 1 at once, 9/1m with a burst of 9", "not while     c, d"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let line = shown.lines().find(|line| line.contains("waits for key a b")).unwrap();
    let run = line.split_whitespace().find(|word| word.starts_with("w@")).unwrap();
    let shown = ctl.run(&["show", run]).good().stdout;
    assert!(shown.contains("waiting for   key a b"), "{shown}");
    let said = ctl.run(&["cancel", "w"]).good().stdout;
    assert_eq!(said.trim_end(), "job w cancelled");
}

/// How many scripts Redis has run.
fn calls(redis: &TestRedis) -> u64 {
    let text: String =
        redis::cmd("INFO").arg("commandstats").query(&mut redis.connection()).unwrap();
    let line =
        text.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap_or("0");
    line.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn runs_that_wait_at_a_gate_are_not_met_again_and_hide_no_free_run() {
    const BLOCKED: usize = 2_000;
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "holder", "in": "0s", "key": "k", "shell": "sleep 600"}));
    eye.add(&json!({"name": "mass", "key": "k", "overlap": "allow", "shell": "true"}));
    let _node = ScriptedNode::on(&redis, &script).start();
    until("the key is taken", LONG, || script.of("holder").into_iter().next());
    // As many runs by hand, due before anything else.
    let mut plant = redis::pipe();
    let mut connection = redis.connection();
    for number in 0..BLOCKED {
        let id = format!("mass@{}~m{number}", 1_700_000_000_000_u64 + number as u64);
        let due = (1_700_000_000_000_u64 + number as u64).to_string();
        plant.cmd("HSET").arg(format!("{{schedd}}:run:{id}")).arg(&[
            "job",
            "mass",
            "due",
            &due,
            "queue",
            "default",
            "kind",
            "manual",
            "state",
            "scheduled",
        ]);
        plant.cmd("ZADD").arg("{schedd}:due:default").arg(&due).arg(&id);
    }
    let () = plant.query(&mut connection).unwrap();
    let queued = || -> usize {
        redis::cmd("ZCARD")
            .arg("{schedd}:gate_waiters:key:k")
            .query(&mut redis.connection())
            .unwrap()
    };
    let before = calls(&redis);
    until("all wait at the gate", Duration::from_secs(120), || {
        Some(()).filter(|()| queued() == BLOCKED)
    });
    let to_block = calls(&redis) - before;
    // A poll and a claim for each batch of 50, and what else a node does.
    assert!(
        to_block < (BLOCKED / 50 * 2 + 400) as u64,
        "{to_block} calls to have {BLOCKED} runs wait"
    );
    let before = calls(&redis);
    eye.add(&json!({"name": "free", "in": "0s", "shell": "true"}));
    until("the free run has run", LONG, || script.of("free").into_iter().next());
    let to_start = calls(&redis) - before;
    assert!(
        to_start < 60,
        "{to_start} calls until the free run began: those that wait are met again"
    );
    assert_eq!(eye.ask(eye.store().read_stats()).unwrap().waiting, BLOCKED as u64);
}

#[test]
fn groups_and_explain_report_whose_turn_it_is_and_what_a_run_waits_for() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let ctl = Schedctl::on(&redis);
    let jobs = format!(
        "{GROUPS}[jobs.ta]\ngroup = \"turns\"\nshell = {:?}\n[jobs.tb]\ngroup = \"turns\"\nshell = \"true\"\n[jobs.shy]\nnot_while = \"ta\"\nshell = \"true\"\n",
        "sleep 600"
    );
    let _node = ScriptedNode::on(&redis, &script).jobs(&jobs).start();
    until("the file is taken", LONG, || eye.job("shy"));
    until("the first turn is the first member's", LONG, || {
        Some(()).filter(|()| ctl.run(&["groups", "--json"]).good().json()[1]["turn"] == json!("ta"))
    });
    ctl.run(&["run", "ta"]).good();
    until("it runs", LONG, || script.of("ta").into_iter().next());
    ctl.run(&["run", "tb"]).good();
    ctl.run(&["run", "shy"]).good();
    let gates = [Gate::from_name("group:turns").unwrap(), Gate::from_name("job:ta").unwrap()];
    for gate in &gates {
        until("one waits", LONG, || {
            Some(()).filter(|()| eye.ask(eye.store().inspect_gate(gate)).unwrap().queued.len() == 1)
        });
    }
    let groups = ctl.run(&["groups", "--json"]).good().json();
    let turns: BTreeMap<_, _> = [
        ("name", json!("turns")),
        ("turn", json!("ta")),
        ("waiting", json!(1)),
        ("mode", json!("alternate")),
    ]
    .into();
    for (field, wanted) in turns {
        assert_eq!(groups[1][field], wanted, "{groups}");
    }
    let table = ctl.run(&["groups"]).good();
    assert!(table.stdout.contains("turns") && table.stdout.contains("tb@"), "{}", table.stdout);
    let reported = ctl.run(&["explain", "tb"]).good();
    assert!(
        reported.stdout.contains(" waits for a place at group turns, behind run ta@"),
        "{}",
        reported.stdout
    );
    assert!(reported.stdout.contains("The turn belongs to job ta."), "{}", reported.stdout);
    let reported = ctl.run(&["explain", "shy"]).good();
    assert!(
        reported.stdout.contains(" waits for a place at job ta, behind run ta@"),
        "{}",
        reported.stdout
    );
    let shy: String = redis::cmd("ZRANGE")
        .arg("{schedd}:gate_waiters:job:ta")
        .arg(0)
        .arg(0)
        .query::<Vec<String>>(&mut redis.connection())
        .unwrap()
        .remove(0);
    assert_eq!(ctl.run(&["show", &shy, "--json"]).good().json()["waiting_for"], "job ta");
    ctl.run(&["cancel", &shy]).good();
    assert_eq!(
        eye.wait_for_history("shy", 1)[0].state,
        schedd_core::domain::run::run_state::RunState::Cancelled
    );
    let findings = ctl.run(&["doctor", "--json"]).json();
    assert!(
        !findings.to_string().contains("wrong:gate")
            && !findings.to_string().contains("missing:due"),
        "{findings}"
    );
}

#[test]
fn what_waits_at_a_gate_is_scheduled_held_by_a_pause_and_freed_by_an_edit() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    eye.add(&json!({"name": "holder", "in": "0s", "key": "k", "shell": "sleep 600"}));
    let _node = ScriptedNode::on(&redis, &script).start();
    until("the key is taken", LONG, || script.of("holder").into_iter().next());
    let add = |name: &str| {
        ctl.run(&["add", "--name", name, "--in", "0s", "--key", "k", "--shell", "true"]).good()
    };
    let gate = Gate::from_name("key:k").unwrap();
    let waiting = || eye.ask(eye.store().inspect_gate(&gate)).unwrap().queued.len();
    add("held");
    add("freed");
    until("both wait", LONG, || Some(()).filter(|()| waiting() == 2));
    let listed = ctl.run(&["list", "--json"]).good().json();
    let state = |name: &str| {
        listed.as_array().unwrap().iter().find(|job| job["name"] == name).unwrap()["state"].clone()
    };
    assert_eq!((state("holder"), state("held")), (json!("running"), json!("scheduled")));
    ctl.run(&["pause", "held"]).good();
    assert_eq!(waiting(), 1);
    let freed =
        ["add", "--name", "freed", "--replace", "--in", "0s", "--key", "other", "--shell", "true"];
    ctl.run(&freed).good();
    until("it runs with its new key", LONG, || script.of("freed").into_iter().next());
    ctl.run(&["cancel", "holder"]).good();
    eye.wait_for_history("holder", 1);
    let free = ["add", "--name", "after", "--in", "0s", "--key", "k", "--shell", "true"];
    ctl.run(&free).good();
    until("the key is free for others", LONG, || script.of("after").into_iter().next());
    assert!(script.of("held").is_empty(), "it is paused");
    ctl.run(&["resume", "held"]).good();
    until("it runs once it is resumed", LONG, || script.of("held").into_iter().next());
    assert_eq!(
        eye.wait_for_history("held", 1)[0].state,
        schedd_core::domain::run::run_state::RunState::Succeeded
    );
    let findings = ctl.run(&["doctor", "--json"]).json();
    assert!(
        !findings.to_string().contains("wrong:gate")
            && !findings.to_string().contains("missing:due"),
        "{findings}"
    );
}

#[test]
fn many_runs_moved_to_the_gate_of_one_key_delay_no_free_run() {
    const BLOCKED: usize = 3_000;
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "holder", "in": "0s", "key": "k", "shell": "sleep 600"}));
    let due = eye.ask(eye.store().now()).unwrap().as_i64() - 10_000;
    let at = |ms: i64| jiff::Timestamp::from_millisecond(ms).unwrap().to_string();
    for number in 0..BLOCKED {
        eye.add(
            &json!({"name": format!("mass{number}"), "at": at(due), "key": "k", "shell": "true"}),
        );
    }
    // The lane it stands in is theirs.
    let shard = |key: &str| Lane::default_lane().shard_for(&Gate::of_key(&key.parse().unwrap()));
    let beside = (0..1_000)
        .map(|number| format!("own-{number}"))
        .find(|key| shard(key) == shard("k"))
        .unwrap();
    let queued = || -> usize {
        redis::cmd("ZCARD")
            .arg("{schedd}:gate_waiters:key:k")
            .query(&mut redis.connection())
            .unwrap()
    };
    let mut free = Vec::new();
    for number in 1..=3 {
        let name = format!("zown{number}");
        eye.add(&json!({"name": name, "at": at(due + number), "key": beside, "shell": "true"}));
        free.push(name);
    }
    eye.add(&json!({"name": "zfree", "at": at(due + 1), "shell": "true"}));
    let _node = ScriptedNode::on(&redis, &script).start();
    until("the free run has run", LONG, || script.of("zfree").into_iter().next());
    assert!(queued() < BLOCKED / 2, "{} runs of a key went before a run without one", queued());
    until("the runs with a key of their own have run", LONG, || {
        Some(()).filter(|()| free.iter().all(|name| !script.of(name).is_empty()))
    });
    assert!(queued() < BLOCKED, "all runs of a key went before those with a key of their own");
    let began: Vec<u128> = free.iter().map(|name| script.of(name)[0].began).collect();
    assert!(began.is_sorted(), "in due order: {began:?}");
}
