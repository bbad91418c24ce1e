//! What becomes of jobs when their keeper or their daemon is gone.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use schedd_core::domain::run::excerpt::OutputBounds;
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_core::host::boot_clock::BootInstant;
use schedd_keeper::{Keeper, KeeperSettings};

use super::{exists, family, lives, pids_in};
use crate::support::attempt::{Bench, shell};

#[tokio::test]
async fn when_the_keeper_is_killed_its_jobs_die_and_the_next_attempt_works() {
    let bench = Bench::start().await;
    let file = bench.path("pids");
    let attempt = shell(&format!("{}; sleep 1000", family(&file)));
    let running = bench.begin(&attempt);
    let pids = pids_in(&file, 4).await;
    let first = bench.keeper.pid().unwrap();
    let pid = Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let outcome = running.task.await.unwrap();
    assert_eq!(
        outcome,
        AttemptOutcome {
            error: Some("the keeper died".to_owned()),
            ..AttemptOutcome::bare(Ending::LeaseLost)
        }
    );
    // Their parent is dead. The system reaps them, at a time of its own.
    assert!(!pids.iter().any(|pid| lives(*pid)), "some of {pids:?} are left alive");
    let (outcome, _) = bench.run(&shell("exit 4")).await;
    assert_eq!(outcome.exit_code, Some(4));
    assert_ne!(bench.keeper.pid().unwrap(), first);
}

#[tokio::test]
async fn jobs_of_a_stopped_keeper_die_by_their_deadline_and_the_next_attempt_works() {
    let bench = Bench::start_with_lease(Duration::from_secs(4)).await;
    let file = bench.path("pids");
    let attempt = shell(&format!("{}; sleep 1000", family(&file)));
    let deadline = BootInstant::now().saturating_add(Duration::from_secs(8));
    let running = bench.begin_until(deadline, &attempt);
    let pids = pids_in(&file, 4).await;
    let first = bench.keeper.pid().unwrap();
    let pid = Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    let outcome = running.task.await.unwrap();
    // A tenth of the lease lies between the deadline and whoever may take over.
    assert!(
        BootInstant::now() < deadline.saturating_add(Duration::from_millis(400)),
        "it was told too late"
    );
    assert_eq!(outcome.ending, Ending::LeaseLost);
    // Their parent is dead. The system reaps them, at a time of its own.
    assert!(!pids.iter().any(|pid| lives(*pid)), "some of {pids:?} are left alive");
    let (outcome, _) = bench.run(&shell("exit 4")).await;
    assert_eq!(outcome.exit_code, Some(4));
    assert_ne!(bench.keeper.pid().unwrap(), first);
}

#[tokio::test]
async fn a_keeper_that_stops_for_a_moment_or_has_much_to_do_is_left_alone() {
    let bench = Bench::start_with_lease(Duration::from_secs(4)).await;
    let first = bench.keeper.pid().unwrap();
    let flood = "i=0; while [ $i -lt 40 ]; do (head -c 200000 /dev/zero; sleep 0.5) & i=$((i+1)); done; wait";
    let floods: Vec<_> = (0..3).map(|_| bench.begin(&shell(flood))).collect();
    let pid = Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    rustix::process::kill_process(pid, Signal::CONT).unwrap();
    for running in floods {
        assert_eq!(running.task.await.unwrap().ending, Ending::Succeeded);
    }
    assert_eq!(bench.keeper.pid(), Some(first));
}

#[tokio::test]
async fn when_the_daemon_closes_the_socket_everything_dies_and_the_mark_is_left() {
    let bench = Bench::start_with_mark("ended").await;
    let file = bench.path("pids");
    let mut attempt = shell(&format!("trap '' TERM; {}; sleep 1000", family(&file)));
    attempt.kill_grace = Duration::from_secs(3600);
    let running = bench.begin(&attempt);
    let pids = pids_in(&file, 4).await;
    bench.keeper.clone().stop().await;
    assert_eq!(running.task.await.unwrap().ending, Ending::LeaseLost);
    assert!(pids.iter().all(|pid| !exists(*pid)), "some of {pids:?} are left, dead or alive");
    assert_eq!(bench.keeper.pid(), None);
    let mark: serde_json::Value =
        serde_json::from_slice(&std::fs::read(bench.dir.path().join("ended")).unwrap()).unwrap();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let wanted =
        serde_json::json!({ "node": "web-1", "incarnation": "one", "boot_id": boot_id.trim() });
    assert_eq!(mark, wanted);
}

#[tokio::test]
async fn a_keeper_that_cannot_be_started_is_an_error_that_names_it() {
    let settings = KeeperSettings {
        program: PathBuf::from("/no/such/schedd"),
        ended_file: None,
        node: "web-1".to_owned(),
        incarnation: "one".to_owned(),
        lease: Duration::from_secs(10),
        output: OutputBounds::default(),
        delegation: None,
        open_files: None,
    };
    let error = Keeper::start(settings).await.unwrap_err().to_string();
    assert!(error.contains("/no/such/schedd") && error.contains("No such file"), "{error}");
}

#[test]
fn a_keeper_reported_what_it_cannot_read_leaves_no_mark() {
    // The daemon lives, and may be making requests for its runs.
    for (last, is_marked) in [(&b""[..], true), (&[1, 0, 0, 0, 9][..], false)] {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("ended");
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut keeper = Command::new(env!("CARGO_BIN_EXE_schedd"))
            .arg("__keeper")
            .stdin(OwnedFd::from(theirs))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let serve = serde_json::json!({ "Serve": { "ended_file": mark, "node": "n", "incarnation": "one" } }).to_string();
        let mut frame = u32::try_from(serve.len() + 1).unwrap().to_le_bytes().to_vec();
        frame.push(0);
        frame.extend(serve.as_bytes());
        frame.extend(last);
        ours.write_all(&frame).unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(keeper.wait().unwrap().success(), is_marked);
        assert_eq!(mark.exists(), is_marked);
    }
}
