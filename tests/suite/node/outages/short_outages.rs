//! What Redis may do to the nodes: refuse, stand still, forget its scripts, go away. Runs go on, runs come due, and afterwards
//! every one was done, once.

use std::time::{Duration, Instant};

use redis::Connection;
use rustix::process::Signal;

use crate::node::scene::Scene;
use crate::node::scripted_scene::ScriptedScene;
use crate::support::wait::{LONG, until};

/// Longer than the faults here last: nothing may be begun again.
const LEASE: &str = "12s";

fn say<T: redis::FromRedisValue>(admin: &mut Connection, words: &[&str]) -> T {
    redis::cmd(words[0]).arg(&words[1..]).query(admin).unwrap()
}

/// Ends every connection but this one.
fn cut_all(admin: &mut Connection) {
    for kind in ["normal", "pubsub"] {
        let _: i64 = say(admin, &["CLIENT", "KILL", "TYPE", kind]);
    }
}

/// How long a fault is left to be met.
fn last(time: Duration) {
    std::thread::sleep(time);
}

#[test]
fn connections_killed_again_and_again_cost_no_run() {
    let scene = Scene::with_lease(LEASE);
    let mut admin = scene.redis.connection();
    for _ in 0..6 {
        cut_all(&mut admin);
        last(Duration::from_millis(400));
    }
    scene.assert_all_done_once();
}

#[test]
fn scripts_forgotten_under_load_are_loaded_again_in_silence() {
    let scene = ScriptedScene::with_lease(LEASE);
    let mut admin = scene.redis.connection();
    for _ in 0..40 {
        let () = say(&mut admin, &["SCRIPT", "FLUSH"]);
        last(Duration::from_millis(50));
    }
    for node in &scene.nodes {
        let log = node.log();
        // At the start they warn of the server as it is set up here.
        let warned: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("level=warn") && !line.contains("appendfsync"))
            .collect();
        assert!(warned.is_empty(), "{log}");
    }
    scene.assert_all_done_once();
}

#[test]
fn a_redis_busy_with_a_script_of_somebody_costs_no_run() {
    let scene = ScriptedScene::with_lease(LEASE);
    let mut admin = scene.redis.connection();
    let () = say(&mut admin, &["CONFIG", "SET", "busy-reply-threshold", "100"]);
    let loops = "local s = redis.call('TIME')[1] + 4 while redis.call('TIME')[1] + 0 < s do end";
    let () = say(&mut admin, &["EVAL", loops, "0"]);
    assert!(scene.logged("busy with a long Lua script"));
    scene.assert_all_done_once();
}

#[test]
fn a_redis_that_loads_its_data_costs_no_run() {
    let scene = ScriptedScene::with_lease(LEASE);
    let mut admin = scene.redis.connection();
    let fill = "for n = 1, 3000 do redis.call('SET', 'filler:' .. n, string.rep('x', 200)) end";
    let () = say(&mut admin, &["EVAL", fill, "0"]);
    let () = say(&mut admin, &["CONFIG", "SET", "loading-process-events-interval-bytes", "1024"]);
    let () = say(&mut admin, &["CONFIG", "SET", "key-load-delay", "1000"]);
    let () = say(&mut admin, &["DEBUG", "RELOAD"]);
    let () = say(&mut admin, &["CONFIG", "SET", "key-load-delay", "0"]);
    assert!(scene.logged("the server is loading its data"));
    scene.assert_all_done_once();
}

#[test]
fn a_primary_made_a_replica_for_a_while_costs_no_run() {
    let scene = ScriptedScene::with_lease(LEASE);
    let mut admin = scene.redis.connection();
    // Of nobody: its data stays as it is.
    let () = say(&mut admin, &["REPLICAOF", "127.0.0.1", "1"]);
    scene.until_logged("read-only replica");
    last(Duration::from_secs(1));
    let () = say(&mut admin, &["REPLICAOF", "NO", "ONE"]);
    scene.assert_all_done_once();
}

#[test]
fn a_replica_that_lost_its_primary_and_answers_nothing_costs_no_run() {
    let scene = ScriptedScene::with_lease(LEASE);
    let mut admin = scene.redis.connection();
    let () = say(&mut admin, &["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    let () = say(&mut admin, &["REPLICAOF", "127.0.0.1", "1"]);
    scene.until_logged("replica");
    last(Duration::from_secs(1));
    let () = say(&mut admin, &["REPLICAOF", "NO", "ONE"]);
    scene.assert_all_done_once();
}

#[test]
fn a_primary_without_its_replicas_takes_nothing_and_costs_no_run() {
    let scene = ScriptedScene::with_lease(LEASE);
    let mut admin = scene.redis.connection();
    let () = say(&mut admin, &["CONFIG", "SET", "min-replicas-to-write", "1"]);
    scene.until_logged("accepts no writes: fewer replicas than min-replicas-to-write");
    last(Duration::from_secs(1));
    assert!(!scene.logged("Redis answers again"), "reads end no trouble with writes");
    let () = say(&mut admin, &["CONFIG", "SET", "min-replicas-to-write", "0"]);
    scene.assert_all_done_once();
}

#[test]
fn a_redis_that_takes_no_more_connections_costs_no_run() {
    let scene = ScriptedScene::with_lease(LEASE);
    let mut admin = scene.redis.connection();
    let () = say(&mut admin, &["CONFIG", "SET", "maxclients", "1"]);
    cut_all(&mut admin);
    scene.until_logged("maxclients");
    last(Duration::from_secs(1));
    let () = say(&mut admin, &["CONFIG", "SET", "maxclients", "1000"]);
    scene.assert_all_done_once();
}

#[test]
fn rights_taken_away_are_named_and_given_back_the_nodes_go_on() {
    let scene = ScriptedScene::with_lease_and_user(LEASE, "node", "pw");
    let mut admin = scene.redis.connection();
    for (less, named, more) in [
        ("-evalsha", "EVALSHA", "+evalsha"),
        ("-zcard", "ZCARD", "+zcard"),
        ("resetkeys", "wanted access to ~{schedd}:*", "~*"),
    ] {
        let () = say(&mut admin, &["ACL", "SETUSER", "node", less]);
        scene.until_logged(named);
        let () = say(&mut admin, &["ACL", "SETUSER", "node", more]);
    }
    scene.assert_all_done_once();
}

#[test]
fn a_redis_killed_and_back_after_a_second_costs_no_run() {
    let mut scene = Scene::with_lease(LEASE);
    scene.redis.kill9();
    last(Duration::from_secs(1));
    scene.redis.restart();
    scene.assert_all_done_once();
}

#[test]
fn a_redis_that_stands_still_for_half_a_lease_costs_no_run() {
    let scene = ScriptedScene::with_lease("6s");
    scene.redis.stop_signal(Signal::STOP);
    last(Duration::from_secs(3));
    scene.redis.stop_signal(Signal::CONT);
    scene.assert_all_done_once();
}

#[test]
fn jobs_die_before_the_lease_ends_when_redis_goes_down_and_all_run_again() {
    let mut scene = Scene::with_lease("3s");
    scene.redis.kill9();
    let gone = Instant::now();
    scene.assert_pulses_stop_within(Duration::from_secs(3));
    last(Duration::from_secs(5).saturating_sub(gone.elapsed()));
    scene.redis.restart();
    scene.assert_all_done_and_the_long_ones_again();
}

#[test]
fn jobs_die_before_the_lease_ends_when_redis_hangs_and_all_run_again() {
    let scene = Scene::with_lease("3s");
    scene.redis.stop_signal(Signal::STOP);
    let stopped = Instant::now();
    scene.assert_pulses_stop_within(Duration::from_secs(3));
    last(Duration::from_secs(6).saturating_sub(stopped.elapsed()));
    scene.redis.stop_signal(Signal::CONT);
    scene.assert_all_done_and_the_long_ones_again();
}

#[test]
fn a_redis_without_memory_takes_nothing_new_and_what_is_there_goes_on() {
    let scene = ScriptedScene::with_lease(LEASE);
    let ctl = crate::support::ctl::Schedctl::on(&scene.redis);
    let mut admin = scene.redis.connection();
    let () = say(&mut admin, &["CONFIG", "SET", "maxmemory", "1"]);
    let refused = ctl.run(&["add", "--name", "late", "--in", "0s", "--", "true"]);
    assert_eq!(refused.code, 69, "{refused:?}");
    assert!(
        refused.stderr.contains("out of memory") && refused.stderr.lines().count() == 1,
        "{refused:?}"
    );
    // The next of a job that recurs is planted all the same, again and again.
    let before = scene.script.of("beat").len();
    until("the beat goes on", LONG, || {
        Some(()).filter(|()| scene.script.of("beat").len() >= before + 4)
    });
    let () = say(&mut admin, &["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(ctl.run(&["add", "--name", "late", "--in", "0s", "--", "true"]).code, 0);
    scene.eye().wait_for_history("late", 1);
    scene.assert_all_done_once();
}
