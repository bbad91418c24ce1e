//! `logs -f`: what a run writes, while it writes it.

use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use schedd_core::domain::run::run_state::RunState;
use serde_json::Value;

use super::played::Played;
use crate::cli::Bench;
use crate::support::ctl::Schedctl;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// A `schedctl logs -f` at work, whose output is read as it comes.
struct Follower {
    child: Child,
    stdout: Reader,
    stderr: Reader,
}

struct Reader {
    seen: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn of(mut input: impl Read + Send + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keeping = seen.clone();
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = input.read(&mut bytes)
                && count > 0
            {
                keeping.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self { seen, thread: Some(thread) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        until(&format!("{text:?} is written"), LONG, || self.text().contains(text).then_some(()));
    }

    /// All of it.
    fn rest(mut self) -> String {
        self.thread.take().unwrap().join().unwrap();
        self.text()
    }
}

impl Follower {
    fn start(bench: &Bench, args: &[&str]) -> Self {
        Self::of(&bench.ctl, args)
    }

    fn of(ctl: &Schedctl, args: &[&str]) -> Self {
        let mut command = ctl.command(&[&["logs", "-f"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, stderr) =
            (Reader::of(child.stdout.take().unwrap()), Reader::of(child.stderr.take().unwrap()));
        Self { child, stdout, stderr }
    }

    /// Its code and both outputs, once it has ended.
    fn end(mut self) -> (Option<i32>, String, String) {
        let status = self.child.wait().unwrap();
        (status.code(), self.stdout.rest(), self.stderr.rest())
    }
}

#[test]
fn a_running_run_is_followed_to_its_end_and_one_that_is_over_is_printed() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("a");
    let id = claim.run.to_string();
    bench.node.write(&claim, b"one\n", b"", 0);
    let follower = Follower::start(&bench, &[&id]);
    follower.stdout.wait_for("one\n");
    bench.node.write(&claim, b"one\ntwo\n", b"", 0);
    follower.stdout.wait_for("two\n");
    bench.node.write(&claim, b"one\ntwo\nthree\n", b"oops\n", 0);
    bench.node.finish(&claim, RunState::Failed, &[("exit_code", "3")]);
    let (code, stdout, stderr) = follower.end();
    assert_eq!((code, stdout.as_str()), (Some(0), "one\ntwo\nthree\n"));
    assert!(
        stderr.starts_with("oops\n") && stderr.contains(&format!("{id} failed after")),
        "{stderr}"
    );
    assert!(stderr.ends_with(": exit code 3\n"), "{stderr}");
    let over = bench.ctl.run(&["logs", &id, "--follow", "--quiet"]).good();
    assert_eq!((over.stdout.as_str(), over.stderr.as_str()), ("one\ntwo\nthree\n", "oops\n"));
    bench.ctl.run(&["logs", &id, "-f", "--attempt", "1"]).refused(2, &["--attempt", "--follow"]);
    bench.ctl.run(&["logs", "a@5", "-f"]).refused(3, &["no run a@5"]);
}

#[test]
fn a_run_that_is_tried_again_is_followed_into_its_next_attempt() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "0s", "--retry", "1", "--", "x"]);
    let first = bench.node.claim("a");
    bench.node.write(&first, b"first\n", b"", 0);
    let follower = Follower::start(&bench, &[&first.run.to_string()]);
    follower.stdout.wait_for("first\n");
    bench.node.retry(&first, Duration::ZERO, 7);
    follower.stderr.wait_for(&format!("attempt 1 of run {} ended: exit code 7", first.run));
    let second = bench.node.claim("a");
    bench.node.write(&second, b"second\n", b"", 0);
    follower.stdout.wait_for("second\n");
    bench.node.finish(&second, RunState::Succeeded, &[("exit_code", "0")]);
    let (code, stdout, stderr) = follower.end();
    assert_eq!((code, stdout.as_str()), (Some(0), "first\nsecond\n"));
    assert!(
        stderr.contains(&format!("attempt 2 of run {} started on node web-1", first.run)),
        "{stderr}"
    );
    assert!(stderr.contains(&format!("{} succeeded after", first.run)), "{stderr}");
}

#[test]
fn of_a_job_the_run_that_executes_is_followed_or_else_the_next_one() {
    let bench = Bench::start();
    bench.add(&["--name", "m", "--", "x"]);
    let follower = Follower::start(&bench, &["m"]);
    follower.stderr.wait_for("no run of job m is running; waiting for the next run");
    bench.ctl.run(&["run", "m"]).good();
    let claim = bench.node.claim("m");
    bench.node.write(&claim, b"hello\n", b"", 0);
    follower.stdout.wait_for("hello\n");
    let second = Follower::start(&bench, &["m"]);
    second.stdout.wait_for("hello\n");
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    for follower in [follower, second] {
        let (code, stdout, _) = follower.end();
        assert_eq!((code, stdout.as_str()), (Some(0), "hello\n"));
    }
    bench.ctl.run(&["logs", "-f", "nosuch"]).refused(3, &["no job nosuch"]);
    let follower = Follower::start(&bench, &["m"]);
    follower.stderr.wait_for("waiting for the next");
    bench.ctl.run(&["cancel", "m"]).good();
    let (code, _, stderr) = follower.end();
    assert!(code == Some(4) && stderr.contains("job m is over (cancelled)"), "{stderr}");
}

#[test]
fn an_interrupt_ends_the_following_only() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("a");
    bench.node.write(&claim, b"one\n", b"", 0);
    let follower = Follower::start(&bench, &["a"]);
    follower.stdout.wait_for("one\n");
    kill_process(Pid::from_child(&follower.child), Signal::INT).unwrap();
    let (code, _, stderr) = follower.end();
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains(&format!("interrupted; run {} continues", claim.run)), "{stderr}");
    assert_eq!(
        bench.ctl.run(&["show", &claim.run.to_string(), "--json"]).json()["state"],
        "running"
    );
}

#[test]
fn a_reader_that_goes_ends_the_following_of_a_silent_run() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "0s", "--", "x"]);
    bench.node.claim("a");
    let mut child = bench
        .ctl
        .command(&["logs", "-f", "a"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn following_outlives_a_redis_that_is_away_for_a_moment() {
    let mut redis = TestRedis::durable();
    let (ctl, node) = (Schedctl::on(&redis), Played::on(&redis));
    ctl.run(&["add", "--name", "a", "--in", "0s", "--", "x"]).good();
    let claim = node.claim("a");
    node.write(&claim, b"one\n", b"", 0);
    let follower = Follower::of(&ctl, &["a"]);
    follower.stdout.wait_for("one\n");
    redis.kill9();
    follower.stderr.wait_for("; waiting for Redis");
    redis.restart();
    let node = Played::on(&redis);
    node.write(&claim, b"one\ntwo\n", b"", 0);
    node.finish(&claim, RunState::Succeeded, &[]);
    let (code, stdout, stderr) = follower.end();
    assert_eq!((code, stdout.as_str()), (Some(0), "one\ntwo\n"), "{stderr}");
}

#[test]
fn a_program_that_follows_is_given_an_object_a_line() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("a");
    // A character of two bytes, cut in the middle.
    bench.node.write(&claim, b"caf\xc3", b"", 0);
    let follower = Follower::start(&bench, &["a", "--json"]);
    follower.stdout.wait_for("caf");
    bench.node.write(&claim, "caf\u{e9}\n".as_bytes(), b"e\n", 0);
    follower.stdout.wait_for("\\n");
    bench.node.write(&claim, "caf\u{e9}\n".as_bytes(), b"e\n", 9);
    bench.node.finish(&claim, RunState::Cancelled, &[]);
    let (code, stdout, _) = follower.end();
    let lines: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let all =
        |field: &str| lines.iter().map(|line| line[field].as_str().unwrap()).collect::<String>();
    assert_eq!(
        (code, all("stdout").as_str(), all("stderr").as_str()),
        (Some(0), "caf\u{e9}\n", "e\n")
    );
    assert_eq!(lines.iter().map(|line| line["dropped_bytes"].as_u64().unwrap()).sum::<u64>(), 9);
    let states: Vec<&Value> = lines.iter().map(|line| &line["state"]).collect();
    assert!(
        matches!(states.as_slice(), [before @ .., last] if **last == "cancelled" && before.iter().all(|s| s.is_null()))
    );
    assert!(
        lines.iter().all(|line| line["run_id"] == claim.run.to_string() && line["attempt"] == 1),
        "{stdout}"
    );
}

#[test]
fn what_is_followed_cannot_steer_the_terminal_unless_it_may() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("a");
    bench.node.write(&claim, "one\u{1b}[2Jtwo\rthree\u{202e}\n".as_bytes(), b"", 55);
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    let id = claim.run.to_string();
    let seen = bench.ctl.run_on_terminal(&["logs", "-f", &id]).good().stdout;
    assert!(
        seen.contains("one\\u{1b}[2Jtwo\\rthree\\u{202e}\r\n") && !seen.contains('\u{1b}'),
        "{seen:?}"
    );
    assert!(seen.contains("the next 55 bytes of the output were not stored"), "{seen:?}");
    assert!(
        bench
            .ctl
            .run_on_terminal(&["logs", "-f", &id, "--raw"])
            .good()
            .stdout
            .contains("one\u{1b}[2J")
    );
}
