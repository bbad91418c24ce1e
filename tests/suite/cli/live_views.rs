//! `list --watch`, `top` and the bar of `add --stdin` on a real terminal: what comes, what ends them, and what they leave behind.

use std::io::Read;
use std::process::Stdio;

use rustix::process::Signal;
use schedd_core::domain::run::run_state::RunState;
use serde_json::Value;

use super::{Bench, lines};
use crate::support::ctl::Schedctl;
use crate::support::host::terminal_session::TerminalSession;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// The key that takes a letter back.
const BACK: &str = "\u{7f}";
/// What leaves the second screen of a terminal.
const LEAVE: &str = "\u{1b}[?1049l";

fn terminal(redis: &TestRedis) -> Schedctl {
    Schedctl::on(redis).env("TZ", "UTC").env("TERM", "xterm").env("LANG", "C.UTF-8")
}

#[test]
fn a_watched_list_is_drawn_in_its_place_and_the_terminal_given_back() {
    let bench = Bench::start();
    bench.node.beat("");
    bench.add(&["--name", "a", "--in", "1h", "--", "x"]);
    let mut session =
        TerminalSession::start(&terminal(&bench.redis), (80, 10), "list --watch=500ms");
    session.wait_for("1 job\u{1b}[K\u{1b}[J");
    let input =
        lines(0..20, |n| format!("{{\"name\": \"b{n:02}\", \"in\": \"2h\", \"shell\": \"x\"}}"));
    bench.ctl.run_with_input(&["add", "--stdin", "--quiet"], input.as_bytes()).good();
    session.wait_for("the first 6 jobs");
    session.press("\u{3}");
    let seen = session.end(130);
    let (before, behind) = seen.split_once(LEAVE).unwrap();
    assert!(before.contains("every 500ms") && before.contains("\u{1b}[?1049h"), "{before:?}");
    assert!(before.contains("b04") && !before.contains("b05"), "{before:?}");
    assert!(!behind.contains("1 job"), "{behind:?}");

    let session = TerminalSession::start(&terminal(&bench.redis), (80, 10), "list --watch");
    session.wait_for("the first 6 jobs");
    session.signal(Signal::TERM);
    assert!(session.end(143).contains(LEAVE));

    let session = TerminalSession::start(&terminal(&bench.redis), (80, 10), "list --watch");
    session.wait_for("the first 6 jobs");
    session.signal(Signal::QUIT);
    assert!(session.end(131).contains(LEAVE));
}

#[test]
fn a_stopped_watch_gives_the_terminal_back_and_takes_it_again_on_continue() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "1h", "--", "x"]);
    let mut session =
        TerminalSession::start(&terminal(&bench.redis), (80, 10), "list --watch=500ms");
    session.wait_for("1 job");
    session.signal(Signal::TSTP);
    session.wait_for(LEAVE);
    until("it stands still", LONG, || session.state().starts_with('T').then_some(()));
    let before = session.length();
    session.signal(Signal::CONT);
    session.wait_after(before, "\u{1b}[?1049h");
    session.wait_after(before, "1 job");
    session.press("\u{3}");
    assert_eq!(session.end(130).matches(LEAVE).count(), 2);
}

#[test]
fn a_watched_list_goes_on_when_redis_is_back() {
    let mut redis = TestRedis::durable();
    let ctl = terminal(&redis);
    ctl.run(&["add", "--name", "a", "--in", "1h", "--", "x"]).good();
    let mut session = TerminalSession::start(&ctl, (80, 24), "list --watch=500ms");
    session.wait_for("1 job");
    let before = session.length();
    redis.kill9();
    session.wait_after(before, "redis.sock");
    redis.restart();
    let before = session.length();
    session.wait_after(before, "every 500ms");
    session.press("\u{3}");
    session.end(130);
}

#[test]
fn a_list_watched_by_a_program_is_an_array_a_line() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "1h", "--", "x"]);
    bench.add(&["--name", "b", "--in", "2h", "--", "x"]);
    let watch = |args: &[&str], wanted: usize| {
        let mut command = bench.ctl.command(&[&["list", "--watch=500ms"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let mut text = String::new();
        let mut bytes = [0; 4096];
        while text.lines().count() < wanted {
            let count = output.read(&mut bytes).unwrap();
            text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
        // A reader that goes ends it.
        drop(output);
        let ended = child.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
        text
    };
    let arrays = watch(&["--json"], 2);
    let arrays: Vec<Value> =
        arrays.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        arrays.len() >= 2
            && arrays.iter().all(|array| array[0]["name"] == "a" && array[1]["name"] == "b"),
        "{arrays:?}"
    );
    let tables = watch(&[], 10);
    assert_eq!(tables.lines().filter(|line| line.starts_with("NEXT")).count(), 2, "{tables}");
    for bad in ["10ms", "5", "soon"] {
        bench.ctl.run(&["list", &format!("--watch={bad}")]).refused(2, &["--watch"]);
    }
}

#[test]
fn top_shows_what_is_due_runs_and_ended_and_its_keys_act() {
    let bench = Bench::start();
    bench.node.beat("");
    bench.add(&["--name", "nightly", "--in", "1h", "--", "x"]);
    bench.add(&["--name", "ended", "--in", "0s", "--", "x"]);
    let ended = bench.node.claim("ended");
    bench.node.write(&ended, b"last\x1b[2Jwords\n", b"", 0);
    bench.node.finish(&ended, RunState::Failed, &[("exit_code", "3")]);
    bench.add(&["--name", "busy", "--in", "0s", "--", "x"]);
    let busy = bench.node.claim("busy");

    let mut session = TerminalSession::start(&terminal(&bench.redis), (150, 40), "top");
    for word in ["nightly", &busy.run.to_string(), &ended.run.to_string(), "web-1", "default"] {
        session.wait_for(word);
    }
    session.press("/nightly\r");
    session.wait_for("only");
    session.press("p");
    until("the job is paused", LONG, || {
        (bench.ctl.run(&["show", "nightly", "--json"]).json()["paused"] == true).then_some(())
    });
    session.press("p");
    until("the job is resumed", LONG, || {
        (bench.ctl.run(&["show", "nightly", "--json"]).json()["paused"] == false).then_some(())
    });
    session.press("r");
    assert_eq!(bench.node.claim("nightly").run.job().as_str(), "nightly");
    session.press(&format!("/{}", BACK.repeat(8)));
    session.press("2/busy\r");
    session.press("c");
    session.wait_for("y/n");
    session.press("y");
    until("the run is asked to stop", LONG, || {
        let mut connection = bench.redis.connection();
        let asked: Option<String> = redis::cmd("HGET")
            .arg("{schedd}:stop_requests")
            .arg(busy.run.to_string())
            .query(&mut connection)
            .unwrap();
        asked
    });
    session.press(&format!("3/{}ended\r\r", BACK.repeat(4)));
    session.wait_for("\\u{1b}[2Jwords");
    // Out of the page about the run, then out of it all.
    session.press("qq");
    let seen = session.end(0);
    assert!(!seen.contains("\u{1b}[2Jwords"), "what a job wrote steers nothing");
    assert!(seen.contains(LEAVE), "{seen:?}");
}

#[test]
fn top_reports_a_job_whose_run_is_tried_again_as_list_does_and_cancels_that_run() {
    let bench = Bench::start();
    bench.add(&["--name", "later", "--in", "2h", "--", "x"]);
    bench.add(&["--name", "again", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("again");
    bench.node.retry(&claim, std::time::Duration::from_secs(3_600), 7);

    let mut session = TerminalSession::start(&terminal(&bench.redis), (150, 40), "top");
    session.wait_for("later");
    // What is tried again in an hour stands before what is due in two.
    let seen = session.text();
    let at = |word: &str| seen.find(word).unwrap_or_else(|| panic!("no {word}: {seen:?}"));
    assert!(at("retrying") < at("later"), "{seen:?}");
    session.press("c");
    session.wait_for("y/n");
    session.press("y");
    until("the run is cancelled", LONG, || {
        (bench.ctl.run(&["show", &claim.run.to_string(), "--json"]).json()["state"] == "cancelled")
            .then_some(())
    });
    session.press("q");
    session.end(0);
}

#[test]
fn top_gives_the_terminal_back_whatever_ends_it() {
    let bench = Bench::start();
    let signals =
        [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131)];
    for (signal, code) in
        signals.map(|(signal, code)| (Some(signal), code)).into_iter().chain([(None, 130)])
    {
        let mut session = TerminalSession::start(&terminal(&bench.redis), (20, 6), "top");
        session.wait_for("nodes");
        match signal {
            Some(signal) => session.signal(signal),
            None => session.press("\u{3}"),
        }
        let seen = session.end(code);
        assert!(seen.contains("\u{1b}[?1049h") && seen.contains(LEAVE), "{seen:?}");
    }
}

#[test]
fn top_says_that_redis_is_away_and_goes_on_when_it_is_back() {
    let mut redis = TestRedis::durable();
    let ctl = terminal(&redis);
    ctl.run(&["add", "--name", "nightly", "--in", "1h", "--", "x"]).good();
    let mut session = TerminalSession::start(&ctl, (80, 24), "top");
    session.wait_for("nightly");
    let before = session.length();
    redis.kill9();
    session.wait_after(before, "redis.sock");
    redis.restart();
    let before = session.length();
    session.wait_after(before, "UTC");
    session.press("q");
    session.end(0);
}

#[test]
fn top_without_a_terminal_is_refused_in_one_line() {
    let bench = Bench::start();
    bench.ctl.run(&["top"]).refused(2, &["top: wanted a terminal", "list --watch"]);
    let refused = bench.ctl.run(&["top", "--json"]);
    assert!(refused.code == 2 && refused.stderr.contains("top --json"), "{refused:?}");
    let seen = Schedctl::on(&bench.redis).env("TERM", "dumb").run_on_terminal(&["top"]);
    assert!(seen.code == 2 && seen.stdout.contains("TERM is dumb"), "{seen:?}");
}

#[test]
fn a_bulk_add_that_is_broken_off_leaves_nothing_of_its_bar() {
    let bench = Bench::start();
    let mut session = TerminalSession::start(&terminal(&bench.redis), (80, 10), "add --stdin");
    session.wait_for("number ");
    until("the bar is seen", LONG, || {
        session.press("{\"shell\": \"x\"}\n");
        session.text().contains(" a second").then_some(())
    });
    session.press("\u{3}");
    let seen = session.end(130);
    let behind = seen.rsplit(" a second").next().unwrap();
    assert!(behind.contains("\u{1b}[2K"), "{behind:?}");
    let added = bench.ctl.run(&["list", "--json"]).good().json();
    assert!(!added.as_array().unwrap().is_empty(), "what was added stays");
}

#[test]
fn a_long_bulk_add_shows_how_far_it_is_on_a_terminal_only_and_leaves_nothing() {
    let bench = Bench::start();
    bench.node.beat("");
    // A slow writer: the bar appears only when the adding takes a while.
    let slow = |flags: &str| {
        let line = r#"{\"shell\": \"x\"}"#;
        let program = env!("CARGO_BIN_EXE_schedctl");
        let line = format!(
            "(for n in 1 2 3 4 5 6; do echo \"{line}\"; sleep 0.3; done) | {program} add --stdin {flags} > names"
        );
        let ctl = terminal(&bench.redis);
        let mut command = ctl.command_of("script");
        let output =
            command.env("SHELL", "/bin/sh").args(["-qec", &line, "/dev/null"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let seen = slow("");
    assert!(seen.contains(" a second") && seen.contains("lines"), "{seen:?}");
    assert!(
        seen.ends_with("\u{1b}[2K") || seen.trim_end().ends_with("[2K"),
        "nothing is left of it: {seen:?}"
    );
    assert_eq!(slow("--quiet"), "");
    let input = lines(0..3_000, |_| r#"{"shell": "x"}"#.to_owned());
    assert_eq!(bench.ctl.run_with_input(&["add", "--stdin"], input.as_bytes()).good().stderr, "");
}
