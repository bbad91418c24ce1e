//! Several nodes on one Redis: with equal and with different files.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd::engine;
use schedd::engine::{HostFacts, Naming};
use schedd_core::domain::queue::lane_serving::Serving;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::time::unix_millis::UnixMillis;

#[test]
fn equal_nodes_share_the_work_and_each_run_is_done_once() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let jobs = "[queues.default]\nconcurrency = 4\n[jobs.j]\nevery = \"1h\"\nshell = \"true\"\n";
    let _nodes: Vec<_> = ["one", "two", "three"]
        .map(|name| ScriptedNode::on(&redis, &script).node(name).jobs(jobs).start())
        .into();
    until("all are there", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().list_nodes()).unwrap().1.len() == 3)
    });
    for number in 0..60 {
        eye.add(&json!({"name": format!("n{number}"), "in": "500ms", "shell": "sleep 0.1"}));
    }
    until("all have run", LONG, || {
        let done = script.all().iter().filter(|effect| effect.ended.is_some()).count();
        Some(()).filter(|()| done >= 60)
    });
    let runs: BTreeSet<String> = script.all().into_iter().map(|effect| effect.run).collect();
    assert_eq!((runs.len(), script.all().len()), (60, 60));
    let by: BTreeSet<_> =
        (0..60).filter_map(|n| eye.wait_for_history(&format!("n{n}"), 1)[0].node.clone()).collect();
    assert!(by.len() > 1, "one node did it all: {by:?}");
    assert_eq!(eye.job("j").unwrap().listed_by.len(), 3);
}

#[test]
fn two_nodes_with_many_lanes_do_each_run_once_soon_after_it_is_due() {
    let (server, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&server);
    let queues: Vec<String> = (0..250).map(|n| format!("[queues.q{n}]\nconcurrency = 4")).collect();
    let queues = queues.join("\n");
    let _nodes: Vec<_> = ["one", "two"]
        .map(|name| ScriptedNode::on(&server, &script).node(name).jobs(&queues).start())
        .into();
    until("all queues are declared", LONG, || {
        let known: usize =
            redis::cmd("HLEN").arg("{schedd}:queues").query(&mut server.connection()).unwrap();
        Some(()).filter(|()| known >= 250)
    });
    for number in 0..250 {
        let (name, queue) = (format!("n{number}"), format!("q{number}"));
        eye.add(&json!({"name": name, "in": "3s", "shell": "true", "queue": queue}));
    }
    // These runs are added while the nodes read their lanes, a page in each poll.
    for number in 0..20 {
        let (name, queue) = (format!("late{number}"), format!("q{}", number * 12));
        eye.add(&json!({"name": name, "in": "0s", "shell": "true", "queue": queue}));
    }
    until("all have run", LONG, || {
        Some(()).filter(|()| script.all().iter().filter(|run| run.ended.is_some()).count() >= 270)
    });
    let runs: BTreeSet<String> = script.all().into_iter().map(|effect| effect.run).collect();
    assert_eq!((runs.len(), script.all().len()), (270, 270));
    // Both nodes know now that all lanes are empty. The patience is shorter than the minute after
    // which they read lanes without a counted change.
    for number in 0..3 {
        let (name, queue) = (format!("single{number}"), format!("q{}", number * 100));
        eye.add(&json!({"name": name, "in": "0s", "shell": "true", "queue": queue}));
        until("a single run has ended", Duration::from_secs(30), || {
            let all = script.all();
            all.iter().any(|run| run.run.starts_with(&name) && run.ended.is_some()).then_some(())
        });
    }
}

#[test]
fn of_different_files_the_last_push_wins_and_a_job_goes_when_no_file_lists_it() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let text = |every: &str| format!("[jobs.shared]\nevery = \"{every}\"\nshell = \"true\"\n");
    let one = Schedd::on(&redis).node("one").jobs(&text("1h")).start();
    until("the first file is taken", LONG, || eye.job("shared"));
    let two = Schedd::on(&redis).node("two").jobs(&text("2h")).start();
    let says = |every: &str| {
        until(&format!("the job says {every}"), LONG, || {
            eye.job("shared").filter(|job| job.definition.contains(every))
        })
    };
    let job = says("2h");
    assert_eq!(job.source, "two");
    assert_eq!(job.listed_by.len(), 2);
    assert_ne!(job.listed_by["one"], job.listed_by["two"]);
    // A reload of the unchanged first file does not take it back; a change of it does.
    one.hup();
    until("the first file was read again", LONG, || {
        Some(()).filter(|()| one.log().matches("the jobs file are applied").count() == 2)
    });
    assert_eq!(eye.job("shared").unwrap().source, "two");
    fs::write(one.jobs_file(), text("3h")).unwrap();
    assert_eq!(says("3h").source, "one");

    let other = "[jobs.other]\nevery = \"1h\"\nshell = \"true\"\n";
    fs::write(one.jobs_file(), other).unwrap();
    until("the first file does not list it", LONG, || {
        eye.job("shared").filter(|job| job.listed_by.len() == 1 && job.is_live())
    });
    fs::write(two.jobs_file(), other).unwrap();
    until("it is gone", LONG, || eye.job("shared").filter(|job| !job.is_live()));
}

#[test]
fn a_name_held_by_an_added_job_is_left_out_and_the_rest_applies() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "taken", "every": "1h", "shell": "echo added"}));
    let text = "[jobs.taken]\nevery = \"2h\"\nshell = \"true\"\n[jobs.free]\nevery = \"2h\"\nshell = \"true\"\n";
    let _node = Schedd::on(&redis).jobs(text).start();
    until("the rest is there", LONG, || eye.job("free"));
    assert!(eye.job("taken").unwrap().definition.contains("echo added"));
    until("it is shown", LONG, || {
        eye.ask(eye.store().list_nodes())
            .unwrap()
            .1
            .remove(0)
            .config_error
            .filter(|error| error.contains("taken"))
    });
}

#[test]
fn two_nodes_without_names_on_one_host_get_different_ones() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let _nodes = [Schedd::on(&redis).start(), Schedd::on(&redis).start()];
    until("both are there", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().list_nodes()).unwrap().1.len() == 2)
    });
}

#[test]
fn a_name_asked_for_that_another_live_node_has_is_refused() {
    let redis = TestRedis::start();
    let first = Schedd::on(&redis).node("same").start();
    first.wait_for_log("Started.");
    let mut second = Schedd::on(&redis).node("same").start();
    assert_eq!(second.wait_exit().code(), Some(4));
    assert!(second.log().contains(&first.pid().to_string()), "{}", second.log());
}

#[test]
fn a_queue_runs_no_more_at_once_than_its_concurrency() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node =
        ScriptedNode::on(&redis, &script).jobs("[queues.narrow]\nconcurrency = 2\n").start();
    until("the queue is known", LONG, || {
        Some(()).filter(|()| !eye.ask(eye.store().read_queues()).unwrap().is_empty())
    });
    for number in 0..8 {
        eye.add(&json!({"name": format!("n{number}"), "in": "0s", "queue": "narrow", "shell": "sleep 0.3"}));
    }
    for number in 0..8 {
        assert_eq!(eye.wait_for_history(&format!("n{number}"), 1)[0].state, RunState::Succeeded);
    }
    let all = script.all();
    for effect in &all {
        let beside = |other: &&crate::support::effects::Effect| {
            other.began <= effect.began && other.ended.unwrap() > effect.began
        };
        assert!(all.iter().filter(beside).count() <= 2, "{all:?}");
    }
}

#[test]
fn a_predecessor_with_this_process_own_number_is_dead() {
    // The first process of a container has the same number at each start.
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let host = HostFacts {
        host: "h".to_owned(),
        boot_id: "b".to_owned(),
        is_alive: |_| true,
        clock: || UnixMillis::EPOCH,
        load: || None,
        free_memory: || None,
    };
    let name = "web".parse().unwrap();
    for incarnation in ["first", "second"] {
        let announced = eye.ask(engine::announce(
            eye.store(),
            &name,
            Naming::Asked,
            incarnation,
            &host,
            &Serving::default(),
        ));
        assert_eq!(announced.unwrap().0, name);
    }
}
