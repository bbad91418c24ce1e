//! Starts that a file system holds up, and processes that it keeps alive: each is its own trouble and nobody else's.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use schedd::attempts::{Attempt, StopReason};
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};

use super::{children_of, stdout};
use crate::support::attempt::{Bench, Running, command, shell};
use crate::support::host::program::write_program;
use crate::support::host::silent_mount::{Silence, SilentMount};
use crate::support::wait::eventually;

/// Somebody who has taken a lease on a file (`fcntl(2)`, `F_SETLEASE`) and does not give it up: who opens the file waits.
struct Holder(Child);

impl Holder {
    /// None, said, where that cannot be.
    fn of(file: &str) -> Option<Self> {
        // 1024 is F_SETLEASE, 1 is F_WRLCK.
        let script =
            "$SIG{IO} = sub {}; open F, '<', $ARGV[0] or exit 1; fcntl(F, 1024, 1) or exit 1;
             $| = 1; print qq(held\\n); sleep 1000 while 1";
        let child = Command::new("perl")
            .args(["-e", script, file])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.map_err(|error| eprintln!("not tested: perl: {error}")).ok()?;
        let mut said = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().unwrap()),
            &mut said,
        )
        .unwrap();
        let holder = Self(child);
        if said != "held\n" {
            eprintln!("not tested: no lease can be taken on a file here");
        }
        (said == "held\n").then_some(holder)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run that goes on beside what is tested.
async fn beside(bench: &Bench) -> Running {
    let running = bench.begin(&shell("echo ready; sleep 1000"));
    eventually("the run beside is ready", || {
        stdout(&running.output).contains("ready").then_some(())
    })
    .await;
    running
}

/// Begins what will hang, and returns once its child is there.
async fn hang(bench: &Bench, attempt: &Attempt) -> Running {
    let before = children_of(&bench.keeper).split_whitespace().count();
    let running = bench.begin(attempt);
    eventually("the child is there", || {
        (children_of(&bench.keeper).split_whitespace().count() > before).then_some(())
    })
    .await;
    running
}

async fn is_well(bench: &Bench, beside: Running, keeper: Option<u32>) {
    assert_eq!(bench.run(&shell("true")).await.0.ending, Ending::Succeeded);
    assert_eq!(bench.keeper.pid(), keeper, "the keeper is the one it was");
    assert!(!beside.task.is_finished());
    beside.stop.send_replace(Some(StopReason::Cancelled));
    assert_eq!(beside.task.await.unwrap().ending, Ending::Stopped);
}

#[tokio::test]
async fn a_program_not_yet_openable_blocks_no_other_run_and_is_given_up_in_time() {
    let bench = Bench::start().await;
    let file = bench.path("held");
    write_program(file.as_ref(), "#!/bin/sh\necho ran\n");
    let Some(holder) = Holder::of(&file) else { return };
    let keeper = bench.keeper.pid();
    let beside = beside(&bench).await;
    let hanging = hang(&bench, &command(&[&file])).await;
    assert_eq!(bench.run(&shell("true")).await.0.ending, Ending::Succeeded);
    assert!(!hanging.task.is_finished());
    hanging.stop.send_replace(Some(StopReason::Cancelled));
    assert_eq!(hanging.task.await.unwrap().ending, Ending::Stopped);
    let mut attempt = command(&[&file]);
    attempt.timeout = Duration::from_millis(700);
    let (outcome, output) = bench.run(&attempt).await;
    assert_eq!(
        outcome,
        AttemptOutcome::failed(format!("cannot start: {file} has not answered for 700ms"))
    );
    assert_eq!(stdout(&output), "");
    let hanging = hang(&bench, &command(&[&file])).await;
    drop(holder);
    assert_eq!(hanging.task.await.unwrap().ending, Ending::Succeeded);
    assert_eq!(stdout(&hanging.output), "ran\n");
    is_well(&bench, beside, keeper).await;
}

#[tokio::test]
async fn a_directory_on_a_mount_that_does_not_answer_is_the_end_of_that_start_alone() {
    let Some(mount) = SilentMount::new(Silence::Deaf) else { return };
    let bench = Bench::start().await;
    let keeper = bench.keeper.pid();
    let beside = beside(&bench).await;
    let mut attempt = shell("true");
    attempt.cwd = Some(mount.path("sub"));
    attempt.lease = Duration::from_millis(700);
    let (outcome, _) = bench.run(&attempt).await;
    let subject = mount.path("sub").display().to_string();
    assert_eq!(
        outcome,
        AttemptOutcome::failed(format!(
            "cannot start: directory {subject} has not answered for 700ms"
        ))
    );
    let mut attempt = command(&["true"]);
    attempt.timeout = Duration::from_millis(700);
    attempt.env.insert(
        "PATH".to_owned(),
        format!("/no/such/place:{}:/usr/bin:/bin", mount.path("bin").display()),
    );
    let (outcome, _) = bench.run(&attempt).await;
    let subject = mount.path("bin/true").display().to_string();
    assert_eq!(
        outcome,
        AttemptOutcome::failed(format!("cannot start: {subject} has not answered for 700ms"))
    );
    is_well(&bench, beside, keeper).await;
    eventually("nothing is left", || children_of(&bench.keeper).is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_start_the_kernel_will_not_end_keeps_neither_the_keeper_nor_other_runs() {
    let Some(mount) = SilentMount::new(Silence::Dumb) else { return };
    let bench = Bench::start_with_mark("ended").await;
    let keeper = bench.keeper.pid();
    let beside = beside(&bench).await;
    let mut attempt = shell("true");
    attempt.cwd = Some(mount.path("sub"));
    attempt.timeout = Duration::from_millis(700);
    let (outcome, _) = bench.run(&attempt).await;
    let subject = mount.path("sub").display().to_string();
    let stuck = "the process is stuck in the kernel";
    assert_eq!(
        outcome,
        AttemptOutcome::failed(format!(
            "cannot start: directory {subject} has not answered for 700ms; {stuck}"
        ))
    );
    is_well(&bench, beside, keeper).await;
    let (alone, _) = bench.run(&shell("exit 5")).await;
    assert_eq!(
        (alone.exit_code, alone.left_processes),
        (Some(5), false),
        "what is stuck is nobody's"
    );
    eventually("only what is stuck is left", || {
        (children_of(&bench.keeper).split_whitespace().count() == 1).then_some(())
    })
    .await;
    bench.keeper.clone().stop().await;
    assert!(bench.dir.path().join("ended").exists(), "nothing of a job is alive");
    drop(mount);
}

#[tokio::test]
async fn a_start_that_was_stuck_is_buried_once_its_mount_is_gone() {
    let Some(mount) = SilentMount::new(Silence::Dumb) else { return };
    let bench = Bench::start().await;
    let mut attempt = shell("true");
    attempt.cwd = Some(mount.path("sub"));
    attempt.timeout = Duration::from_millis(200);
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(outcome.ending, Ending::Failed);
    assert_ne!(children_of(&bench.keeper), "");
    drop(mount);
    eventually("it is reaped", || children_of(&bench.keeper).is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_process_that_cannot_be_killed_is_reported_and_waited_for_no_longer() {
    let Some(mount) = SilentMount::new(Silence::Dumb) else { return };
    let bench = Bench::start().await;
    let mut attempt = command(&["cat", mount.path("file").to_str().unwrap()]);
    attempt.timeout = Duration::from_millis(200);
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!((outcome.ending, outcome.left_processes), (Ending::TimedOut, true));
    let wanted = "the attempt exceeded its timeout of 200ms; a process of the run could not be killed and may still run";
    assert_eq!(outcome.error.as_deref(), Some(wanted));
    let (alone, _) = bench.run(&shell("exit 5")).await;
    assert_eq!((alone.exit_code, alone.left_processes), (Some(5), false), "it is nobody's");
    assert_ne!(children_of(&bench.keeper), "");
    drop(mount);
    eventually("it is reaped", || children_of(&bench.keeper).is_empty().then_some(())).await;
}
