//! Jobs as processes: the keeper, and the process executor on it.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use schedd::domain::run::{Ending, Outcome};
use schedd::executor::{Attempt, OutputBuffer, StopReason, Stream};
use schedd::keeper::{BootInstant, Keeper, KeeperSettings, OutputBounds};

use crate::support::attempt::{Bench, command, shell};
use crate::support::wait::eventually;

const NONE: [i32; 0] = [];

fn stdout(output: &OutputBuffer) -> String {
    String::from_utf8(output.snapshot().stream(Stream::Stdout)).unwrap()
}

/// The processes alive whose environment names the run.
fn alive(attempt: &Attempt) -> Vec<i32> {
    let mark = format!("SCHEDD_RUN_ID={}\0", attempt.run);
    let names = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(names).collect()
}

fn exists(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// The numbers a job wrote into a file, once there are `count` of them.
async fn pids_in(file: &str, count: usize) -> Vec<i32> {
    eventually("the job writes its process ids", || {
        let text = std::fs::read_to_string(file).ok().filter(|text| text.ends_with('\n'))?;
        let pids: Vec<i32> = text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        (pids.len() == count).then_some(pids)
    })
    .await
}

fn children_of(keeper: &Keeper) -> String {
    let pid = keeper.pid().unwrap();
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
}

/// A line that starts a grandchild, a `setsid` grandchild that ignores TERM and one whose parent is gone, and writes the ids.
fn family(file: &str) -> String {
    format!(
        "sleep 1000 & a=$!
         setsid sh -c 'trap \"\" TERM; echo $$ >{file}.b; while :; do sleep 1; done' &
         (setsid sh -c 'trap \"\" TERM; echo $$ >{file}.c; while :; do sleep 1; done' &)
         while [ ! -s {file}.b ] || [ ! -s {file}.c ]; do sleep 0.01; done
         echo $$ $a $(cat {file}.b) $(cat {file}.c) >{file}"
    )
}

/// How much of an output is kept unless another bound is set.
const KEPT: usize = 64 * 1024;

#[tokio::test]
async fn the_exit_code_and_the_output_are_the_jobs_own() {
    let bench = Bench::start().await;
    let (outcome, output) = bench.run(&shell("echo out; echo err >&2; exit 3")).await;
    assert_eq!(outcome, Outcome { exit_code: Some(3), ..Outcome::bare(Ending::Failed) });
    assert_eq!(output.snapshot().stream(Stream::Stdout), b"out\n");
    assert_eq!(output.snapshot().stream(Stream::Stderr), b"err\n");
    let (outcome, _) = bench.run(&shell("true")).await;
    assert_eq!(outcome, Outcome { exit_code: Some(0), ..Outcome::bare(Ending::Succeeded) });
    assert_eq!(children_of(&bench.keeper), "");
}

#[tokio::test]
async fn a_signal_is_told_as_a_signal_and_not_as_137() {
    let bench = Bench::start().await;
    let (outcome, _) = bench.run(&shell("kill -9 $$")).await;
    let wanted = Outcome { signal: Some(9), ..Outcome::failed("signal 9 (KILL)") };
    assert_eq!(outcome, wanted);
}

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
    for (reason, ending) in [(StopReason::Cancelled, Ending::Stopped), (StopReason::ShutDown, Ending::ShutDown)] {
        let mut attempt = shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
        attempt.kill_grace = Duration::from_secs(60);
        let running = bench.begin(&attempt);
        eventually("the job is ready", || stdout(&running.output).contains("ready").then_some(())).await;
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
    eventually("the job is ready", || stdout(&running.output).contains("ready").then_some(())).await;
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
    assert_eq!((outcome.ending, outcome.exit_code, outcome.left_processes), (Ending::Succeeded, Some(0), true));
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
    let wiped = format!("env -i setsid sh -c 'trap \"\" TERM; echo $$ >{file}; while :; do sleep 1; done'");
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
async fn stdin_is_empty_and_no_descriptor_is_inherited() {
    let bench = Bench::start().await;
    let (_, output) = bench.run(&shell("readlink /proc/self/fd/0; cat; umask")).await;
    assert_eq!(stdout(&output), "/dev/null\n0022\n");
    // 3 is the directory ls itself reads.
    let (_, output) = bench.run(&command(&["ls", "/proc/self/fd"])).await;
    assert_eq!(stdout(&output), "0\n1\n2\n3\n");
}

#[tokio::test]
async fn the_child_has_a_session_of_its_own_an_empty_mask_and_ignores_nothing() {
    let bench = Bench::start().await;
    let (_, output) = bench.run(&command(&["grep", "-E", "^(Pid|NSsid|SigBlk|SigIgn)", "/proc/self/status"])).await;
    let text = stdout(&output);
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    };
    assert_eq!(field("Pid"), field("NSsid"));
    for set in ["SigBlk", "SigIgn"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
}

#[tokio::test]
async fn the_environment_is_exactly_what_the_design_says() {
    let bench = Bench::start().await;
    let mut attempt = command(&["env", "-0"]);
    let own = [("LANG", "de_DE.UTF-8"), ("GREETING", "a b\n=c"), ("SCHEDD_FENCE", "0")];
    attempt.env = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (outcome, output) = bench.run(&attempt).await;
    assert_eq!(outcome.ending, Ending::Succeeded);
    let text = stdout(&output);
    let mut found: BTreeMap<&str, &str> =
        text.split('\0').filter(|part| !part.is_empty()).map(|part| part.split_once('=').unwrap()).collect();
    assert!(Path::new(found.remove("HOME").unwrap()).is_absolute());
    assert!(!found.remove("USER").unwrap().is_empty());
    let (due, fence) = (attempt.run.due(), attempt.fence);
    let (run, due_text, due_ms, fence) = (attempt.run.to_string(), due.to_string(), due.as_i64().to_string(), fence.to_string());
    let wanted = BTreeMap::from([
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("SHELL", "/bin/sh"),
        ("LANG", "de_DE.UTF-8"),
        ("GREETING", "a b\n=c"),
        ("SCHEDD_JOB", "backup"),
        ("SCHEDD_RUN_ID", &run),
        ("SCHEDD_DUE", &due_text),
        ("SCHEDD_DUE_MS", &due_ms),
        ("SCHEDD_ATTEMPT", "2"),
        ("SCHEDD_FENCE", &fence),
        ("SCHEDD_NODE", "web-1"),
    ]);
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn a_process_starts_in_its_directory_or_says_why_it_cannot() {
    let bench = Bench::start().await;
    let mut attempt = command(&["pwd"]);
    attempt.cwd = Some(bench.dir.path().to_owned());
    let (_, output) = bench.run(&attempt).await;
    assert_eq!(PathBuf::from(stdout(&output).trim_end()), bench.dir.path().canonicalize().unwrap());
    attempt.cwd = Some(PathBuf::from("/no/such/place"));
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(outcome, Outcome::failed("cannot start: directory /no/such/place: No such file or directory"));
}

#[tokio::test]
async fn what_cannot_start_is_127_if_it_is_not_there_and_126_if_it_cannot_be_executed() {
    let bench = Bench::start().await;
    let file = |name: &str, mode: u32, text: &[u8]| {
        let path = bench.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let plain = file("plain", 0o644, b"#!/bin/sh\n");
    let no_interpreter = file("no-interpreter", 0o755, b"#!/no/such/shell\n");
    let wrong_arch = file("wrong-arch", 0o755, b"\x7fELF\x01\x02garbage");
    let cases = [
        ("no-such-program", 127, "no-such-program: No such file or directory"),
        ("/no/such/program", 127, "/no/such/program: No such file or directory"),
        (&plain, 126, "plain: Permission denied"),
        (&no_interpreter, 126, "no-interpreter: its interpreter: No such file or directory"),
        (&wrong_arch, 126, "wrong-arch: Exec format error"),
        ("/tmp", 126, "/tmp: Permission denied"),
    ];
    for (program, code, words) in cases {
        let (outcome, _) = bench.run(&command(&[program])).await;
        assert_eq!((outcome.ending, outcome.exit_code), (Ending::Failed, Some(code)), "{program}");
        let error = outcome.error.unwrap();
        assert!(error.starts_with("cannot start: ") && error.ends_with(words), "{error}");
    }
    // A job's own 127 is not taken for one.
    let (outcome, _) = bench.run(&shell("exit 127")).await;
    assert_eq!((outcome.exit_code, outcome.error), (Some(127), None));
    assert_eq!(children_of(&bench.keeper), "");
}

#[tokio::test]
async fn a_program_open_for_writing_is_tried_again_until_it_is_closed() {
    let bench = Bench::start().await;
    let path = bench.path("program");
    std::fs::copy("/bin/true", &path).unwrap();
    let writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    let attempt = command(&[&path]);
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(outcome.exit_code, Some(126));
    assert!(outcome.error.unwrap().ends_with("Text file busy"));
    let running = bench.begin(&attempt);
    tokio::time::sleep(Duration::from_millis(30)).await;
    drop(writer);
    assert_eq!(running.task.await.unwrap().ending, Ending::Succeeded);
}

#[tokio::test]
async fn two_hundred_megabytes_do_not_block_the_job_and_every_dropped_byte_is_counted() {
    const SIZE: u64 = 200 * 1024 * 1024;
    let bench = Bench::start().await;
    let line = format!("printf first; head -c {SIZE} /dev/zero; printf last");
    let (outcome, output) = bench.run(&shell(&line)).await;
    assert_eq!(outcome.ending, Ending::Succeeded);
    let kept = output.snapshot();
    assert_eq!(kept.dropped_bytes, SIZE + 9 - KEPT as u64);
    let bytes = kept.stream(Stream::Stdout);
    assert_eq!(bytes.len(), KEPT);
    assert!(bytes.starts_with(b"first\0") && bytes.ends_with(b"\0last"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", bench.keeper.pid().unwrap())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB");
    assert!(peak.parse::<u64>().unwrap() < 64 * 1024, "the keeper took {peak} kB");
}

/// Stops the daemon's side, whose runtime has only this thread, until the fact.
fn hold_the_daemon_until(what: &str, fact: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !fact() {
        assert!(Instant::now() < end, "waited 20 s in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn a_daemon_that_does_not_listen_blocks_no_job_and_misses_no_count() {
    const SIZE: u64 = 20 * 1024 * 1024;
    let bench = Bench::start().await;
    let file = bench.path("written");
    let line = format!("printf first; touch {file}.begun; head -c {SIZE} /dev/zero; printf last; touch {file}");
    let running = bench.begin(&shell(&line));
    eventually("the job begins", || Path::new(&format!("{file}.begun")).exists().then_some(())).await;
    hold_the_daemon_until("the job writes all", || Path::new(&file).exists());
    assert_eq!(running.task.await.unwrap().ending, Ending::Succeeded);
    let kept = running.output.snapshot();
    let bytes = kept.stream(Stream::Stdout);
    assert_eq!((bytes.len() as u64 + kept.dropped_bytes, bytes.len()), (SIZE + 9, KEPT));
    assert!(bytes.starts_with(b"first\0") && bytes.ends_with(b"\0last"));
}

#[tokio::test]
async fn a_time_out_and_a_lease_hold_while_the_daemon_is_stopped() {
    let bench = Bench::start().await;
    let mut attempts = [shell("echo ready; sleep 1000"), shell("echo ready; sleep 1000")];
    attempts[0].timeout = Duration::from_secs(2);
    let lease = BootInstant::now().saturating_add(Duration::from_secs(3));
    let (timed, leased) = (bench.begin(&attempts[0]), bench.begin_until(lease, &attempts[1]));
    for running in [&timed, &leased] {
        eventually("the job is ready", || stdout(&running.output).contains("ready").then_some(())).await;
    }
    hold_the_daemon_until("both are killed", || attempts.iter().all(|attempt| alive(attempt).is_empty()));
    assert!(BootInstant::now() < lease.saturating_add(Duration::from_secs(2)));
    assert_eq!(timed.task.await.unwrap().ending, Ending::TimedOut);
    assert_eq!(leased.task.await.unwrap().ending, Ending::LeaseLost);
}

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
    assert_eq!(outcome, Outcome { error: Some("the keeper died".to_owned()), ..Outcome::bare(Ending::LeaseLost) });
    assert!(pids.iter().all(|pid| !exists(*pid)), "some of {pids:?} are left, dead or alive");
    let (outcome, _) = bench.run(&shell("exit 4")).await;
    assert_eq!(outcome.exit_code, Some(4));
    assert_ne!(bench.keeper.pid().unwrap(), first);
}

#[tokio::test]
async fn when_the_keeper_is_stopped_its_jobs_die_before_their_deadline_and_the_next_attempt_works() {
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
    assert!(BootInstant::now() < deadline.saturating_add(Duration::from_millis(400)), "it was told too late");
    assert_eq!(outcome.ending, Ending::LeaseLost);
    assert!(pids.iter().all(|pid| !exists(*pid)), "some of {pids:?} are left, dead or alive");
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
    let mark: serde_json::Value = serde_json::from_slice(&std::fs::read(bench.dir.path().join("ended")).unwrap()).unwrap();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let wanted = serde_json::json!({ "node": "web-1", "incarnation": "one", "boot_id": boot_id.trim() });
    assert_eq!(mark, wanted);
}

#[tokio::test]
async fn an_attempt_nobody_waits_for_any_more_is_killed() {
    let bench = Bench::start().await;
    let attempt = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done");
    let running = bench.begin(&attempt);
    eventually("the job is ready", || stdout(&running.output).contains("ready").then_some(())).await;
    running.task.abort();
    eventually("the abandoned job is killed", || alive(&attempt).is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_passed_lease_is_term_before_the_deadline_and_kill_at_it() {
    let bench = Bench::start().await;
    let mut attempt = shell("trap 'echo term' TERM; echo ready; while :; do sleep 0.01; done");
    attempt.kill_grace = Duration::from_secs(3600);
    let deadline = BootInstant::now().saturating_add(Duration::from_secs(3));
    let running = bench.begin_until(deadline, &attempt);
    let warned = eventually("the job is warned", || stdout(&running.output).contains("term").then(BootInstant::now)).await;
    assert!(warned >= deadline.saturating_sub(attempt.lease / 10) && warned < deadline, "warned at {warned:?} for {deadline:?}");
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
    eventually("the job is ready", || stdout(&running.output).contains("ready").then_some(())).await;
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

#[tokio::test]
async fn a_keeper_that_cannot_be_started_is_an_error_that_names_it() {
    let settings = KeeperSettings {
        program: PathBuf::from("/no/such/schedd"),
        ended_file: None,
        node: "web-1".to_owned(),
        incarnation: "one".to_owned(),
        lease: Duration::from_secs(10),
        output: OutputBounds::default(),
    };
    let error = Keeper::start(settings).await.unwrap_err().to_string();
    assert!(error.contains("/no/such/schedd") && error.contains("No such file"), "{error}");
}

#[test]
fn a_keeper_told_what_it_cannot_read_leaves_no_mark() {
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
