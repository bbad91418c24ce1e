//! The question before an attempt: work that is done is not done again, and what nobody knows is not started.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::node::QUICK;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::eye::Eye;
use crate::support::host::http_sink::{Answer, HttpSink};
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;
use schedd_store::RunRecord;

/// A real question: a line of the shell that notes that it was asked, and what jobs and it leave behind.
struct Desk {
    redis: TestRedis,
    effects: Effects,
    eye: Eye,
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        let redis = TestRedis::start();
        let eye = Eye::on(&redis);
        let dir = tempfile::Builder::new().prefix("schedd-desk-").tempdir_in("/tmp").unwrap();
        Self { redis, effects: Effects::new(), eye, dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// A line that notes the attempt it is asked before, and answers by `answer`.
    fn question(&self, answer: &str) -> String {
        format!("echo $SCHEDD_ATTEMPT >> {}; {answer}", self.path("asked"))
    }

    /// The attempts it was asked before.
    fn asked(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("asked")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn end_of(&self, job: &str) -> RunRecord {
        self.eye.wait_for_history(job, 1).remove(0)
    }

    fn stdout(&self, run: &RunRecord, attempt: u32) -> String {
        let output = self
            .eye
            .ask(self.eye.store().read_output(&run.run, attempt))
            .unwrap()
            .unwrap_or_default();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the process that wrote its id into `name` is there, and gives the id.
    fn pid(&self, name: &str) -> Pid {
        let file = PathBuf::from(self.path(name));
        let read =
            || std::fs::read_to_string(&file).ok()?.trim().parse().ok().and_then(Pid::from_raw);
        until(&format!("{name} is there"), LONG, read)
    }
}

/// Waits until a process has ended, whether somebody has buried it or not.
fn gone(pid: Pid) {
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    until("the process has ended", LONG, || {
        let text = std::fs::read_to_string(&stat).unwrap_or_default();
        let state = text.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_none_or(|state| state == 'Z').then_some(())
    });
}

#[test]
fn what_a_failed_attempt_did_all_the_same_is_not_done_again() {
    let desk = Desk::new();
    let _node = Schedd::on(&desk.redis).start();
    let marker = desk.path("marker");
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell(&format!("(echo work; touch {marker}; exit 7)")),
        "retry": {"limit": 3, "delay": "0s"}, "done_check": {"shell": desk.question(&format!("echo looked; test -e {marker}"))},
    }));
    let run = desk.end_of("work");
    assert_eq!(
        (run.state, run.reason.as_deref()),
        (RunState::Succeeded, Some("done_check: already done"))
    );
    assert_eq!((run.exit_code, run.failures, run.attempt), (None, 1, 2));
    assert_eq!(
        (desk.effects.of("work").len(), desk.asked()),
        (1, vec!["2".to_owned()]),
        "not asked before the first attempt"
    );
    assert_eq!(
        (desk.stdout(&run, 1), desk.stdout(&run, 2)),
        ("work\n".to_owned(), "looked\n".to_owned())
    );
}

#[test]
fn work_that_is_not_done_is_done_and_what_the_question_printed_is_not_its_output() {
    let desk = Desk::new();
    let _node = Schedd::on(&desk.redis).start();
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell("(test $SCHEDD_ATTEMPT -ge 3)"),
        "retry": {"limit": 3, "delay": "0s"}, "done_check": {"shell": desk.question("echo looked; exit 1")},
    }));
    let run = desk.end_of("work");
    assert_eq!(
        (run.state, run.reason.as_deref(), run.exit_code, run.attempt),
        (RunState::Succeeded, None, Some(0), 3)
    );
    assert_eq!(
        (desk.effects.of("work").len(), desk.asked()),
        (3, vec!["2".to_owned(), "3".to_owned()])
    );
    assert_eq!((desk.stdout(&run, 2), desk.stdout(&run, 3)), (String::new(), String::new()));
}

#[test]
fn a_question_always_asked_keeps_even_the_first_attempt_from_starting() {
    let desk = Desk::new();
    let _node = Schedd::on(&desk.redis).start();
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell("true"),
        "done_check": {"command": ["/bin/sh", "-c", desk.question("true")], "on": "always"},
    }));
    let run = desk.end_of("work");
    assert_eq!((run.state, run.attempt, desk.asked().len()), (RunState::Succeeded, 1, 1));
    assert!(desk.effects.all().is_empty());
}

#[test]
fn what_nobody_knows_is_never_started_and_ends_lost_with_what_the_question_said() {
    let desk = Desk::new();
    let _node = Schedd::on(&desk.redis).start();
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell("true"), "delivery": "at-most-once",
        "retry": {"limit": 0, "delay": "0s"}, "done_check": {"shell": desk.question("echo cannot tell; exit 2"), "on": "always"},
    }));
    let run = desk.end_of("work");
    assert_eq!(
        run.reason.as_deref(),
        Some("done_check gave no clear answer 4 times in a row: exit code 2")
    );
    assert_eq!((run.state, run.attempt, run.failures, run.recoveries), (RunState::Lost, 1, 0, 0));
    assert_eq!((desk.effects.all().len(), desk.asked().len()), (0, 4));
    assert_eq!(desk.stdout(&run, 1), "cannot tell\n");
}

#[test]
fn after_a_clear_answer_the_attempt_is_made_and_nothing_is_left_of_the_unclear_ones() {
    let desk = Desk::new();
    let _node = Schedd::on(&desk.redis).start();
    let answer =
        format!("echo cannot tell; test $(wc -l < {}) -le 2 && exit 3; exit 1", desk.path("asked"));
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell("true"),
        "retry": {"limit": 0, "delay": "0s"}, "done_check": {"shell": desk.question(&answer), "on": "always"},
    }));
    let run = desk.end_of("work");
    assert_eq!(
        (run.state, run.attempt, run.unclear, run.exit_code),
        (RunState::Succeeded, 1, 0, Some(0))
    );
    assert_eq!((desk.effects.of("work").len(), desk.asked().len()), (1, 3));
    assert_eq!(
        desk.stdout(&run, 1),
        "",
        "what the question had printed stands as the attempt's output"
    );
}

#[test]
fn a_run_of_a_killed_node_is_asked_about_on_another_and_not_done_twice() {
    let desk = Desk::new();
    let mut first = Schedd::on(&desk.redis).node("first").jobs(QUICK).start();
    let marker = desk.path("marker");
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell(&format!("touch {marker}; sleep 60")),
        "done_check": {"shell": desk.question(&format!("test -e {marker}"))},
    }));
    until("the work is done", LONG, || std::fs::exists(&marker).unwrap().then_some(()));
    let _second = Schedd::on(&desk.redis).node("second").jobs(QUICK).start();
    first.kill9();
    let run = desk.end_of("work");
    assert_eq!((run.state, run.node.as_deref()), (RunState::Succeeded, Some("second")));
    assert_eq!(run.reason.as_deref(), Some("done_check: already done"));
    assert_eq!((run.attempt, run.recoveries, desk.effects.of("work").len()), (2, 1, 1));
}

#[test]
fn a_run_handed_back_at_a_stop_is_asked_about_under_the_same_attempt_number() {
    let desk = Desk::new();
    let mut first =
        Schedd::on(&desk.redis).node("first").jobs("[daemon]\nshutdown_grace = \"0s\"\n").start();
    let marker = desk.path("marker");
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell(&format!("touch {marker}; sleep 60")),
        "done_check": {"shell": desk.question(&format!("test -e {marker}"))},
    }));
    until("the work is done", LONG, || std::fs::exists(&marker).unwrap().then_some(()));
    first.term();
    assert!(first.wait_exit().success());
    let _second = Schedd::on(&desk.redis).node("second").start();
    let run = desk.end_of("work");
    assert_eq!(
        (run.state, run.reason.as_deref()),
        (RunState::Succeeded, Some("done_check: already done"))
    );
    assert_eq!(
        (run.attempt, desk.effects.of("work").len(), desk.asked()),
        (1, 1, vec!["1".to_owned()])
    );
}

#[test]
fn an_at_most_once_run_shut_down_while_it_was_asked_about_starts_later_and_once() {
    let desk = Desk::new();
    let mut first =
        Schedd::on(&desk.redis).node("first").jobs("[daemon]\nshutdown_grace = \"0s\"\n").start();
    let (asking, answered) = (desk.path("asking"), desk.path("answered"));
    let answer = format!("echo $$ > {asking}; test -e {answered} && exit 1; sleep 60 & wait");
    desk.eye.add(&json!({
        "name": "once", "in": "0s", "shell": desk.effects.shell("true"), "delivery": "at-most-once",
        "done_check": {"shell": answer, "on": "always"},
    }));
    let question = desk.pid("asking");
    first.term();
    assert!(first.wait_exit().success());
    gone(question);
    assert!(desk.eye.history("once").is_empty(), "it never started, so it is not lost");
    std::fs::write(&answered, "").unwrap();
    let _second = Schedd::on(&desk.redis).node("second").start();
    let run = desk.end_of("once");
    assert_eq!(
        (run.state, run.attempt, desk.effects.of("once").len()),
        (RunState::Succeeded, 1, 1)
    );
}

#[test]
fn a_run_cancelled_while_it_is_asked_about_ends_cancelled_and_starts_nothing() {
    let desk = Desk::new();
    let _node = Schedd::on(&desk.redis).start();
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell("true"),
        "done_check": {"shell": format!("echo $$ > {}; sleep 60 & wait", desk.path("asking")), "on": "always"},
    }));
    let question = desk.pid("asking");
    Schedctl::on(&desk.redis).run(&["cancel", "work"]).good();
    assert_eq!(desk.end_of("work").state, RunState::Cancelled);
    gone(question);
    assert!(desk.effects.all().is_empty());
}

#[test]
fn a_question_that_takes_too_long_is_killed_with_its_whole_tree_and_is_no_answer() {
    let desk = Desk::new();
    let _node = Schedd::on(&desk.redis).start();
    let tree = format!(
        "sh -c 'echo $$ > {}; sleep 60' & echo $$ > {}; sleep 60",
        desk.path("child"),
        desk.path("parent")
    );
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell("true"), "retry": {"limit": 0, "delay": "1d"},
        "done_check": {"shell": tree, "on": "always", "timeout": "3s"},
    }));
    let (child, parent) = (desk.pid("child"), desk.pid("parent"));
    let id = desk
        .eye
        .ask(desk.eye.store().list_open(&"work".parse().unwrap()))
        .unwrap()
        .remove(0)
        .to_string();
    let waiting = |run: &RunRecord| run.state == RunState::Scheduled && run.attempt == 0;
    let run = until("it is to be asked again", LONG, || desk.eye.run(&id).filter(waiting));
    assert!(
        run.reason
            .as_deref()
            .unwrap()
            .starts_with("done_check gave no clear answer: the attempt exceeded its timeout"),
        "{run:?}"
    );
    assert_eq!((run.unclear, run.failures), (1, 0));
    gone(child);
    gone(parent);
    assert!(desk.effects.all().is_empty());
}

#[test]
fn a_run_whose_keeper_is_killed_while_it_is_asked_about_is_asked_about_again() {
    let desk = Desk::new();
    let node = Schedd::on(&desk.redis).jobs(QUICK).start();
    let answer = desk.question(&format!(
        "echo $$ > {}; test $SCHEDD_ATTEMPT -ge 2 && exit 1; sleep 60 & wait",
        desk.path("asking")
    ));
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell("true"), "done_check": {"shell": answer, "on": "always"},
    }));
    let question = desk.pid("asking");
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", node.pid())).unwrap();
    let keeper =
        Pid::from_raw(children.split_whitespace().next().unwrap().parse().unwrap()).unwrap();
    kill_process(keeper, Signal::KILL).unwrap();
    let run = desk.end_of("work");
    assert_eq!((run.state, run.attempt, run.recoveries), (RunState::Succeeded, 2, 1));
    gone(question);
    assert_eq!(
        (desk.effects.of("work").len(), desk.asked()),
        (1, vec!["1".to_owned(), "2".to_owned()])
    );
}

#[test]
fn a_server_that_is_asked_gets_the_run_s_key_and_is_believed_only_when_it_is_clear() {
    let desk = Desk::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let sink = runtime.block_on(HttpSink::start([
        Answer::status(500),
        Answer::status(410),
        Answer::status(204).body(""),
    ]));
    let _node = Schedd::on(&desk.redis).start();
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell("false"), "retry": {"limit": 3, "delay": "0s"},
        "done_check": {"http": {"url": sink.url("/done"), "headers": {"X-Own": "1"}}, "timeout": "20s"},
    }));
    let run = desk.end_of("work");
    assert_eq!(
        (run.state, run.reason.as_deref()),
        (RunState::Succeeded, Some("done_check: already done"))
    );
    assert_eq!(
        (run.attempt, run.failures, run.http_status, desk.effects.of("work").len()),
        (3, 2, None, 2)
    );
    let requests = sink.requests();
    let attempts: Vec<_> =
        requests.iter().map(|request| request.header("schedd-attempt").unwrap()).collect();
    assert_eq!(attempts, ["2", "2", "3"]);
    let id = run.run.to_string();
    assert!(requests.iter().all(|request| request.header("idempotency-key") == Some(&*id)
        && request.header("x-own") == Some("1")));
}

#[test]
fn a_question_is_asked_again_after_the_waits_of_the_job_s_retries() {
    let desk = Desk::new();
    let _node = Schedd::on(&desk.redis).start();
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": desk.effects.shell("true"),
        "retry": {"limit": 0, "delay": "1h", "backoff": "fixed", "jitter": false},
        "done_check": {"shell": "exit 9", "on": "always"},
    }));
    let open = || {
        desk.eye
            .ask(desk.eye.store().list_open(&"work".parse().unwrap()))
            .unwrap()
            .into_iter()
            .next()
    };
    let id = until("it is open", LONG, open).to_string();
    let run = until("it waits", LONG, || {
        desk.eye.run(&id).filter(|run| run.state == RunState::Scheduled)
    });
    let waits = run.ready.unwrap().since(run.started_at.unwrap());
    assert!(waits >= Duration::from_secs(3_600) && waits < Duration::from_secs(3_660), "{waits:?}");
    assert_eq!(run.reason.as_deref(), Some("done_check gave no clear answer: exit code 9"));
    // Until then it is open, and a person can end it.
    Schedctl::on(&desk.redis).run(&["cancel", &id]).good();
    assert_eq!(desk.end_of("work").state, RunState::Cancelled);
}
