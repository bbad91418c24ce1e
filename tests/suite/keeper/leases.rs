//! An attempt does not outlive its lease.

use std::path::Path;
use std::time::Duration;

use schedd_core::domain::run::run_state::Ending;
use schedd_core::host::boot_clock::BootInstant;

use super::{NONE, alive, stdout};
use crate::support::attempt::{Bench, shell};
use crate::support::wait::eventually;

#[tokio::test]
async fn a_passed_lease_is_term_before_the_deadline_and_kill_at_it() {
    let bench = Bench::start().await;
    let mut attempt = shell("trap 'echo term' TERM; echo ready; while :; do sleep 0.01; done");
    attempt.kill_grace = Duration::from_secs(3600);
    let deadline = BootInstant::now().saturating_add(Duration::from_secs(3));
    let running = bench.begin_until(deadline, &attempt);
    let warned = eventually("the job is warned", || {
        stdout(&running.output).contains("term").then(BootInstant::now)
    })
    .await;
    assert!(
        warned >= deadline.saturating_sub(attempt.lease / 10) && warned < deadline,
        "warned at {warned:?} for {deadline:?}"
    );
    let outcome = running.task.await.unwrap();
    let ended = BootInstant::now();
    assert_eq!((outcome.ending, outcome.signal), (Ending::LeaseLost, Some(9)));
    assert_eq!(stdout(&running.output), "ready\nterm\n");
    assert!(ended >= deadline, "it was killed before its deadline");
    assert!(ended.since(deadline) < Duration::from_secs(2), "it outlived its deadline");
    assert_eq!(alive(&attempt), NONE);
}

#[tokio::test]
async fn a_renewed_lease_lets_the_job_run_on() {
    let bench = Bench::start().await;
    let mut attempt = shell("echo ready; sleep 2.5");
    attempt.lease = Duration::from_secs(1);
    let start = BootInstant::now();
    let running = bench.begin_until(start.saturating_add(Duration::from_secs(2)), &attempt);
    eventually("the job is ready", || stdout(&running.output).contains("ready").then_some(()))
        .await;
    running.deadline.send_replace(start.saturating_add(Duration::from_secs(60)));
    assert_eq!(running.task.await.unwrap().ending, Ending::Succeeded);
}

#[tokio::test]
async fn past_its_deadline_nothing_is_started() {
    let bench = Bench::start().await;
    let file = bench.path("started");
    let attempt = shell(&format!("touch {file}"));
    let outcome = bench.begin_until(BootInstant::now(), &attempt).task.await.unwrap();
    assert_eq!(outcome.ending, Ending::NotStarted);
    assert!(outcome.error.unwrap().starts_with("not started: "));
    assert!(!Path::new(&file).exists());
}
