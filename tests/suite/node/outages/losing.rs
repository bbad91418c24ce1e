//! Nodes, keepers and Redis killed: nothing scheduled is lost, no attempt overlaps another.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::node::QUICK;
use crate::node::scene::Scene;
use crate::support::daemon::Schedd;
use crate::support::effects::{Effect, Effects};
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

/// Waits until an attempt of `job` has begun.
fn begun(effects: &Effects, job: &str) -> Effect {
    until(&format!("{job} begins"), LONG, || effects.of(job).into_iter().next())
}

fn assert_no_overlap(effects: &[Effect]) {
    let mut effects = effects.to_vec();
    effects.sort_by_key(|effect| effect.began);
    for pair in effects.windows(2) {
        if let Some(end) = pair[0].ended {
            assert!(
                end <= pair[1].began || pair[0].run != pair[1].run,
                "two attempts at once: {pair:?}"
            );
        }
        assert!(pair[0].fence < pair[1].fence || pair[0].run != pair[1].run, "{pair:?}");
    }
}

#[test]
fn a_run_whose_node_is_killed_runs_again_on_another_after_the_lease() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut first = Schedd::on(&redis).node("first").jobs(QUICK).start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 4")}));
    let attempt = begun(&effects, "work");
    let _second = Schedd::on(&redis).node("second").jobs(QUICK).start();
    first.kill9();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt, run.failures), (RunState::Succeeded, 2, 0));
    assert_eq!(run.node.as_deref(), Some("second"));
    let effects = effects.of("work");
    assert_eq!(effects.len(), 2, "{effects:?}");
    assert_eq!(
        (effects[0].fence, effects[0].ended),
        (attempt.fence, None),
        "the first attempt went on after its node's death"
    );
    assert!(effects[1].fence > effects[0].fence);
}

#[test]
fn a_node_killed_and_started_again_takes_its_runs_back_at_once() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut node = Schedd::on(&redis).node("only").jobs("[daemon]\nlease = \"1m\"\n").start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 2")}));
    begun(&effects, "work");
    node.kill9();
    node.start_again();
    // Long before the lease of a minute is over.
    let run = until("it has run again", LONG, || eye.history("work").into_iter().next());
    assert_eq!((run.state, run.attempt), (RunState::Succeeded, 2));
    let effects = effects.of("work");
    assert_eq!((effects.len(), effects[0].ended), (2, None));
}

#[test]
fn so_does_one_killed_with_words_of_its_keeper_it_had_not_heard() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut node = Schedd::on(&redis).node("only").jobs("[daemon]\nlease = \"1m\"\n").start();
    let dir = tempfile::tempdir().unwrap();
    let lines = dir.path().join("lines").display().to_string();
    let work = format!("for n in $(seq 40); do echo $n; echo $n >>{lines}; sleep 0.05; done");
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell(&work)}));
    begun(&effects, "work");
    node.signal(Signal::STOP);
    let count = || std::fs::read_to_string(&lines).unwrap_or_default().lines().count();
    let before = count();
    until("it goes on printing", LONG, || (count() > before + 5).then_some(()));
    node.kill9();
    node.start_again();
    let run = until("it has run again", LONG, || eye.history("work").into_iter().next());
    assert_eq!((run.state, run.attempt), (RunState::Succeeded, 2));
}

#[test]
fn a_frozen_node_loses_its_run_without_an_overlap_and_its_result_counts_for_nothing() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let first = Schedd::on(&redis).node("first").jobs(QUICK).start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 5")}));
    begun(&effects, "work");
    let _second = Schedd::on(&redis).node("second").jobs(QUICK).start();
    first.signal(Signal::STOP);
    until("the second node begins", LONG, || Some(()).filter(|()| effects.of("work").len() == 2));
    first.signal(Signal::CONT);
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.node.as_deref()), (RunState::Succeeded, Some("second")));
    let all = effects.of("work");
    assert_eq!(
        (all.len(), all[0].ended),
        (2, None),
        "the keeper let the job of a frozen node go on: {all:?}"
    );
    assert_no_overlap(&all);
    first.wait_for_log("lease");
}

#[test]
fn a_run_whose_keeper_is_killed_is_stopped_and_runs_again() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).node("only").jobs(QUICK).start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 3")}));
    begun(&effects, "work");
    rustix::process::kill_process(node.keeper(), Signal::KILL).unwrap();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt), (RunState::Succeeded, 2));
    let effects = effects.of("work");
    assert_eq!((effects.len(), effects[0].ended), (2, None), "{effects:?}");
}

#[test]
fn an_at_most_once_run_whose_node_is_killed_ends_lost_and_never_starts_again() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut first = Schedd::on(&redis).node("first").jobs(QUICK).start();
    eye.add(&json!({"name": "once", "in": "0s", "shell": effects.shell("sleep 4"), "delivery": "at-most-once"}));
    begun(&effects, "once");
    let _second = Schedd::on(&redis).node("second").jobs(QUICK).start();
    first.kill9();
    let run = eye.wait_for_history("once", 1).remove(0);
    assert_eq!((run.state, run.attempt), (RunState::Lost, 1));
    assert_eq!(effects.of("once").len(), 1);
}

#[test]
fn a_run_that_takes_its_node_with_it_each_time_is_poison() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut node = Schedd::on(&redis).node("only").jobs(QUICK).start();
    eye.add(&json!({"name": "poison", "in": "0s", "shell": effects.shell("sleep 60")}));
    for starts in 1..=4 {
        until("it starts again", LONG, || {
            Some(()).filter(|()| effects.of("poison").len() == starts)
        });
        node.kill9();
        node.start_again();
    }
    let run = eye.wait_for_history("poison", 1).remove(0);
    assert_eq!((run.state, run.recoveries), (RunState::Failed, 4));
    assert!(run.reason.unwrap().starts_with("poison"));
    assert_eq!(effects.of("poison").len(), 4);
}

#[test]
fn nodes_go_on_by_themselves_when_redis_is_killed_and_comes_back() {
    let (mut redis, effects) = (TestRedis::durable(), Effects::new());
    let jobs = format!("{QUICK}[jobs.beat]\nevery = \"1s\"\nshell = {:?}\n", effects.shell("true"));
    let one = Schedd::on(&redis).node("one").jobs(&jobs).start();
    let _two = Schedd::on(&redis).node("two").jobs(&jobs).start();
    let eye = Eye::on(&redis);
    eye.wait_for_history("beat", 2);
    eye.add(&json!({"name": "short", "in": "3s", "shell": effects.shell("true")}));
    redis.kill9();
    one.wait_for_log("cannot be reached");
    redis.restart();
    let eye = Eye::on(&redis);
    let before = eye.history("beat").len();
    eye.wait_for_history("beat", before + 3);
    assert_eq!(eye.wait_for_history("short", 1)[0].state, RunState::Succeeded);
    let mut runs: Vec<String> = effects.all().into_iter().map(|effect| effect.run).collect();
    let all = runs.len();
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), all, "a run was done twice");
    one.wait_for_log("answers again");
}

#[test]
fn a_run_that_ends_while_redis_is_away_is_reported_when_it_is_back() {
    let (mut redis, effects) = (TestRedis::durable(), Effects::new());
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs("[daemon]\nlease = \"20s\"\n").start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 1")}));
    begun(&effects, "work");
    redis.kill9();
    until("it has ended", LONG, || effects.of("work")[0].ended);
    node.wait_for_log("cannot be reached");
    redis.restart();
    let eye = Eye::on(&redis);
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt), (RunState::Succeeded, 1));
    assert_eq!(effects.of("work").len(), 1);
}

#[test]
fn a_job_whose_lease_is_found_lost_is_killed_at_once() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs("[daemon]\nlease = \"30s\"\n").start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 60")}));
    begun(&effects, "work");
    let _: i64 = redis::cmd("DEL").arg("{schedd}:leases").query(&mut redis.connection()).unwrap();
    // The next renewal, within ten seconds, says so; the deadline alone would leave it 27.
    let since = std::time::Instant::now();
    node.wait_for_log("Another node will recover");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    assert_eq!(effects.of("work")[0].ended, None);
}

#[test]
fn what_a_run_printed_while_redis_was_away_is_kept_with_its_end() {
    let (mut redis, effects) = (TestRedis::durable(), Effects::new());
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs("[daemon]\nlease = \"20s\"\n").start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 1; echo late")}));
    begun(&effects, "work");
    redis.kill9();
    until("it has ended", LONG, || effects.of("work")[0].ended);
    node.wait_for_log("cannot be reached");
    redis.restart();
    let eye = Eye::on(&redis);
    let run = eye.wait_for_history("work", 1).remove(0);
    let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    assert_eq!(output.stdout, b"late\n");
}

#[test]
fn a_push_redis_forgot_when_its_power_was_cut_is_made_again() {
    const JOB: &str = "[jobs.kept]\nevery = \"1h\"\nshell = \"true\"\n";
    let mut redis = TestRedis::durable();
    let eye = Eye::on(&redis);
    let period = |eye: &Eye, wanted: &str| {
        let is_so = || {
            eye.job("kept").filter(|job| format!("{:?}", job.definition).contains(wanted)).map(drop)
        };
        until(&format!("the job is due every {wanted}"), LONG, is_so);
    };
    let node = Schedd::on(&redis).jobs(JOB).start();
    until("the job is there", LONG, || eye.job("kept"));
    let (_, dir): (String, String) =
        redis::cmd("CONFIG").arg("GET").arg("dir").query(&mut redis.connection()).unwrap();
    let files = Path::new(&dir).join("appendonlydir");
    let file = files
        .read_dir()
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|file| file.to_str().unwrap().ends_with(".incr.aof"))
        .unwrap();
    let length = file.metadata().unwrap().len();
    std::fs::write(node.jobs_file(), JOB.replace("1h", "2h")).unwrap();
    period(&eye, "2h");
    redis.kill9();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(length).unwrap();
    redis.restart();
    period(&Eye::on(&redis), "2h");
}

#[test]
fn a_run_whose_keeper_stands_still_is_stopped_and_runs_again() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).node("only").jobs(QUICK).start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep $((SCHEDD_ATTEMPT > 1 ? 1 : 60))")}));
    begun(&effects, "work");
    let keeper = node.keeper();
    rustix::process::kill_process(keeper, Signal::STOP).unwrap();
    // Its lease is renewed all the while: nobody else would ever take the run.
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt), (RunState::Succeeded, 2));
    let effects = effects.of("work");
    assert_eq!((effects.len(), effects[0].ended), (2, None), "{effects:?}");
    node.wait_for_log("The keeper hangs");
}

#[test]
fn with_the_keeper_stopped_and_redis_away_the_jobs_are_dead_before_the_lease_ends() {
    let scene = Scene::with_lease("4s");
    for node in &scene.nodes {
        rustix::process::kill_process(node.keeper(), Signal::STOP).unwrap();
    }
    scene.redis.stop_signal(Signal::STOP);
    scene.assert_pulses_stop_within(Duration::from_secs(4));
    scene.redis.stop_signal(Signal::CONT);
    scene.assert_all_done_and_no_attempts_overlapped();
}

#[test]
fn a_run_its_node_stopped_for_its_lease_reruns_without_another_lease_passing() {
    let lease = Duration::from_secs(4);
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).node("only").jobs("[daemon]\nlease = \"4s\"\n").start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 5; test $SCHEDD_ATTEMPT -gt 1 || sleep 60")}));
    let first = begun(&effects, "work");
    redis.stop_signal(Signal::STOP);
    node.wait_for_log("Another node will recover");
    redis.stop_signal(Signal::CONT);
    let back = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt, run.recoveries), (RunState::Succeeded, 2, 1));
    let all = effects.of("work");
    assert_eq!((all[0].run.as_str(), all[0].ended), (first.run.as_str(), None));
    let again = Duration::from_millis(u64::try_from(run.started_at.unwrap().as_i64()).unwrap());
    assert!(
        again.saturating_sub(back) < lease,
        "it was waited for as if it were another's: {:?}",
        again.saturating_sub(back)
    );
}

#[test]
fn what_a_run_left_is_killed_and_not_given_up_after_the_whole_node_was_frozen() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).node("only").jobs("[daemon]\nlease = \"60s\"\n").start();
    let leaves = "setsid sh -c \"trap '' TERM; while :; do sleep 0.1; done\" & sleep 0.1";
    eye.add(
        &json!({"name": "work", "in": "0s", "kill_grace": "2s", "shell": effects.shell(leaves)}),
    );
    until("its own process has ended", LONG, || {
        effects.of("work").into_iter().find(|effect| effect.ended.is_some())
    });
    let keeper = node.keeper();
    rustix::process::kill_process(keeper, Signal::STOP).unwrap();
    node.signal(Signal::STOP);
    // Past the grace and all patience: how long it stands still is what this is about.
    std::thread::sleep(Duration::from_secs(13));
    rustix::process::kill_process(keeper, Signal::CONT).unwrap();
    node.signal(Signal::CONT);
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.left_processes, run.error), (RunState::Succeeded, true, None));
}
