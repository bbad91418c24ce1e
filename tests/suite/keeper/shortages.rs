//! What is told where the keeper itself has not the means to start a run: nothing was started, which is no failure of the job.

use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use schedd_core::domain::run::run_state::Ending;

use super::{alive, stdout};
use crate::support::attempt::{Bench, shell};
use crate::support::wait::eventually;

fn keeper_of(bench: &Bench) -> Pid {
    Pid::from_raw(bench.keeper.pid().unwrap().cast_signed()).unwrap()
}

/// Has the keeper have descriptors below this number only, which it may have below 256 at most from then on.
fn allow(keeper: Pid, files: u64) {
    prlimit(Some(keeper), Resource::Nofile, Rlimit { current: Some(files), maximum: Some(256) })
        .unwrap();
}

#[tokio::test]
async fn a_run_the_keeper_has_no_descriptors_for_is_not_started_wherever_it_runs_short() {
    let bench = Bench::start().await;
    let keeper = keeper_of(&bench);
    assert_eq!(bench.run(&shell("true")).await.0.ending, Ending::Succeeded);
    let mut not_started = 0;
    // One descriptor more at each try, until it is enough.
    for files in 3..100 {
        allow(keeper, files);
        let (outcome, _) = bench.run(&shell("true")).await;
        if outcome.ending == Ending::Succeeded {
            break;
        }
        let reported = "not started: this node cannot start processes: Too many open files";
        assert_eq!(
            (outcome.ending, outcome.error.as_deref()),
            (Ending::NotStarted, Some(reported)),
            "with {files}"
        );
        assert_eq!(bench.executors.short_of().as_deref(), reported.strip_prefix("not started: "));
        not_started += 1;
    }
    // More than one descriptor is needed, so it ran short in several places.
    assert!(not_started > 5, "{not_started}");
    assert_eq!(
        (bench.executors.short_of(), bench.executors.capacity()),
        (None, usize::MAX),
        "a start has succeeded"
    );
}

#[tokio::test]
async fn a_user_who_may_have_no_more_processes_is_a_failure_of_the_job() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root becomes another user");
        return;
    }
    let bench = Bench::start().await;
    let as_daemon = |line: &str| {
        let mut attempt = shell(line);
        attempt.process.user = Some("daemon".parse().unwrap());
        attempt.cwd = None;
        attempt
    };
    let first = bench.begin(&as_daemon("echo begun; exec sleep 600"));
    eventually("its user has a process", || stdout(&first.output).contains("begun").then_some(()))
        .await;
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    prlimit(Some(keeper_of(&bench)), Resource::Nproc, none).unwrap();
    let (outcome, _) = bench.run(&as_daemon("true")).await;
    let reported = "cannot start: /bin/sh: Resource temporarily unavailable";
    assert_eq!((outcome.ending, outcome.error.as_deref()), (Ending::Failed, Some(reported)));
    assert_eq!(bench.executors.short_of(), None);
}

#[tokio::test]
async fn an_end_is_not_reported_while_the_keeper_cannot_look_for_what_was_left() {
    let bench = Bench::start().await;
    let keeper = keeper_of(&bench);
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let go = dir.path().join("go");
    let line = format!(
        "setsid sleep 600 & echo begun; until test -e {}; do sleep 0.01; done",
        go.display()
    );
    let attempt = shell(&line);
    let mut running = bench.begin(&attempt);
    eventually("it has begun", || stdout(&running.output).contains("begun").then_some(())).await;
    allow(keeper, 3);
    std::fs::write(&go, "").unwrap();
    let early = tokio::time::timeout(Duration::from_secs(2), &mut running.task).await;
    assert!(early.is_err(), "its end was told unseen: {early:?}");
    allow(keeper, 256);
    let outcome = running.task.await.unwrap();
    assert_eq!(alive(&attempt), Vec::<i32>::new(), "its end was told, and it was not over");
    assert_eq!((outcome.ending, outcome.left_processes), (Ending::Succeeded, true));
}
