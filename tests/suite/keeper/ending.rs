//! How an attempt is ended, with all that it left running.

use std::time::{Duration, Instant};

use schedd::attempts::StopReason;
use schedd_core::domain::run::run_state::Ending;

use super::{NONE, alive, children_of, exists, family, pids_in, stdout};
use crate::support::attempt::{Bench, shell};
use crate::support::wait::eventually;

#[tokio::test]
async fn a_time_out_kills_the_tree_with_its_setsid_grandchildren_that_ignore_term() {
    let bench = Bench::start().await;
    let file = bench.path("pids");
    let mut attempt = shell(&format!("{}; wait; sleep 1000", family(&file)));
    attempt.timeout = Duration::from_millis(1500);
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(outcome.ending, Ending::TimedOut);
    assert_eq!(outcome.signal, Some(15));
    assert_eq!(alive(&attempt), NONE);
    let pids = pids_in(&file, 4).await;
    assert!(pids.iter().all(|pid| !exists(*pid)), "some of {pids:?} are left, dead or alive");
    assert_eq!(children_of(&bench.keeper), "");
}

#[tokio::test]
async fn a_stop_is_term_and_lets_the_job_end_well() {
    let bench = Bench::start().await;
    for (reason, ending) in
        [(StopReason::Cancelled, Ending::Stopped), (StopReason::ShutDown, Ending::ShutDown)]
    {
        let mut attempt =
            shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
        attempt.kill_grace = Duration::from_secs(60);
        let running = bench.begin(&attempt);
        eventually("the job is ready", || stdout(&running.output).contains("ready").then_some(()))
            .await;
        running.stop.send_replace(Some(reason));
        let outcome = running.task.await.unwrap();
        assert_eq!((outcome.ending, outcome.exit_code), (ending, Some(7)));
        assert_eq!(stdout(&running.output), "ready\nbye\n");
    }
}

#[tokio::test]
async fn a_job_that_ignores_term_is_killed_after_its_grace() {
    let bench = Bench::start().await;
    let attempt = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done");
    let running = bench.begin(&attempt);
    eventually("the job is ready", || stdout(&running.output).contains("ready").then_some(()))
        .await;
    let asked = Instant::now();
    running.stop.send_replace(Some(StopReason::Cancelled));
    let outcome = running.task.await.unwrap();
    assert_eq!((outcome.ending, outcome.signal), (Ending::Stopped, Some(9)));
    assert!(asked.elapsed() >= attempt.kill_grace);
    assert_eq!(alive(&attempt), NONE);
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_does_not_hold_the_run() {
    let bench = Bench::start().await;
    let file = bench.path("pids");
    let attempt = shell(&format!("{}; echo done; exit 0", family(&file)));
    let begun = Instant::now();
    let (outcome, output) = bench.run(&attempt).await;
    assert_eq!(
        (outcome.ending, outcome.exit_code, outcome.left_processes),
        (Ending::Succeeded, Some(0), true)
    );
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(stdout(&output), "done\n");
    assert_eq!(alive(&attempt), NONE);
    let pids = pids_in(&file, 4).await;
    assert!(pids.iter().all(|pid| !exists(*pid)), "some of {pids:?} are left, dead or alive");
}

#[tokio::test]
async fn an_orphan_without_the_variables_is_found_too_and_other_runs_are_left_alone() {
    let bench = Bench::start().await;
    let other = bench.begin(&shell("echo ready; sleep 1000"));
    eventually("the other runs", || stdout(&other.output).contains("ready").then_some(())).await;
    let file = bench.path("pid");
    let wiped =
        format!("env -i setsid sh -c 'trap \"\" TERM; echo $$ >{file}; while :; do sleep 1; done'");
    let attempt = shell(&format!("{wiped} & sleep 1000"));
    let running = bench.begin(&attempt);
    let pid = pids_in(&file, 1).await[0];
    running.stop.send_replace(Some(StopReason::Cancelled));
    assert_eq!(running.task.await.unwrap().ending, Ending::Stopped);
    assert!(!exists(pid));
    assert!(!other.task.is_finished());
    other.stop.send_replace(Some(StopReason::Cancelled));
    assert_eq!(other.task.await.unwrap().ending, Ending::Stopped);
}

#[tokio::test]
async fn an_attempt_nobody_waits_for_any_more_is_killed() {
    let bench = Bench::start().await;
    let attempt = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done");
    let running = bench.begin(&attempt);
    eventually("the job is ready", || stdout(&running.output).contains("ready").then_some(()))
        .await;
    running.task.abort();
    eventually("the abandoned job is killed", || alive(&attempt).is_empty().then_some(())).await;
}
