//! Runs that have their place at a gate while their queue takes nothing, or no node carries their label: with whole nodes they keep
//! nobody out, and the rate of a key holds by when runs begin.

use schedd::domain::time::UnixMillis;
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

const SECTIONS: &str = "[queues.other]\nconcurrency = 4\n[groups.one]\nmode = \"exclusive\"\n\
    [groups.turns]\nmode = \"alternate\"\norder = [\"c\", \"d\"]\npatience = \"1s\"\n";

#[test]
fn whoever_cannot_begin_keeps_nobody_out_of_a_group_a_key_or_a_job() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let turn = |job: &str, queue: &str| {
        format!("[jobs.{job}]\nevery = \"1s\"\ngroup = \"turns\"\nqueue = {queue:?}\nshell = {:?}\n", effects.shell("true"))
    };
    let jobs = format!("{SECTIONS}{}{}", turn("c", "default"), turn("d", "other"));
    let _node = Schedd::on(&redis).jobs(&jobs).start();
    until("both take turns", LONG, || effects.of("d").into_iter().next());
    let ctl_shows = |name: &str| ctl.run(&["show", name]).good().stdout;
    let holds = |gates: serde_json::Value, names: [&str; 2]| {
        for (name, more) in names.iter().zip([json!({"in": "0s"}), json!({"in": "1ms", "queue": "other"})]) {
            let mut job = json!({"name": name, "shell": effects.shell(if name.ends_with('1') { "sleep 600" } else { "true" })});
            for part in [&gates, &more] {
                job.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
            }
            eye.add(&job);
            let is_there =
                || if name.ends_with('1') { !effects.of(name).is_empty() } else { ctl_shows(name).contains("waits for") };
            until("it stands at its gate", LONG, || Some(()).filter(|()| is_there()));
        }
    };
    holds(json!({"group": "one"}), ["g1", "g2"]);
    holds(json!({"key": "k"}), ["k1", "k2"]);
    eye.add(&json!({"name": "g3", "in": "2ms", "group": "one", "shell": effects.shell("true")}));
    eye.add(&json!({"name": "k3", "in": "2ms", "key": "k", "shell": effects.shell("true")}));
    eye.add(&json!({"name": "g4", "in": "3ms", "group": "one", "requires": ["nobody"], "shell": effects.shell("true")}));
    ctl.run(&["queue", "pause", "other"]).good();
    let begun = effects.of("c").len();
    for job in ["g1", "k1"] {
        ctl.run(&["cancel", job]).good();
    }
    for job in ["g3", "k3"] {
        until("it comes behind one that cannot begin", LONG, || effects.of(job).into_iter().next());
    }
    until("the turn of the other passes", LONG, || Some(()).filter(|()| effects.of("c").len() >= begun + 3));
    assert!(effects.of("g2").is_empty() && effects.of("k2").is_empty(), "their queue is paused");
    eye.add(&json!({"name": "g5", "in": "0s", "group": "one", "shell": effects.shell("true")}));
    until("no label keeps it out", LONG, || effects.of("g5").into_iter().next());
    ctl.run(&["queue", "resume", "other"]).good();
    for job in ["g2", "k2", "d"] {
        let before = effects.of(job).len();
        until("its queue takes it", LONG, || Some(()).filter(|()| job != "d" && before > 0 || effects.of(job).len() > before));
    }
    assert!(effects.of("g4").is_empty());
    let standing = ctl.run(&["groups", "--json"]).good().json();
    assert!(!standing[0]["running"].to_string().contains("g4"), "nothing runs that has not begun: {standing}");
    let findings = ctl.run(&["doctor", "--json"]).json();
    assert!(!findings.to_string().contains("gate_wrong"), "{findings}");
}

#[test]
fn a_key_s_rate_is_kept_by_runs_that_were_held_up_together() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let _node = Schedd::on(&redis).jobs(SECTIONS).start();
    until("the queue is known", LONG, || Some(()).filter(|()| ctl.run(&["queue", "pause", "other"]).code == 0));
    let jobs: Vec<String> = (0..4).map(|number| format!("r{number}")).collect();
    for job in &jobs {
        let per_key = json!({"rate": "1/1s", "burst": 1});
        eye.add(
            &json!({"name": job, "in": "0s", "queue": "other", "key": "k", "per_key": per_key, "shell": effects.shell("true")}),
        );
    }
    eye.add(&json!({"name": "later", "in": "3s", "shell": effects.shell("true")}));
    until("time passes", LONG, || effects.of("later").into_iter().next());
    ctl.run(&["queue", "resume", "other"]).good();
    let mut begun: Vec<UnixMillis> = jobs.iter().map(|job| eye.wait_for_history(job, 1)[0].started_at.unwrap()).collect();
    begun.sort_unstable();
    for pair in begun.windows(2) {
        assert!(pair[1].as_i64() - pair[0].as_i64() >= 1_000, "by Redis' clock: {begun:?}");
    }
}
