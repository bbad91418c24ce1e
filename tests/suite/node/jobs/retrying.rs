//! Which failures are tried again and when; and that own failures and lost nodes are counted apart.

use std::time::Duration;

use serde_json::{Value, json};

use crate::node::QUICK;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::eye::Eye;
use crate::support::host::http_sink::{Answer, HttpSink};
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::time::unix_millis::UnixMillis;

#[test]
fn only_the_codes_a_job_lists_are_tried_again() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let _node = Schedd::on(&redis).start();
    let cases = [
        (
            "never",
            json!({"limit": 3, "delay": "0s", "never_on": [3]}),
            "(exit 3)",
            1,
            Some("not retried, because retry.never_on lists exit code 3"),
        ),
        (
            "other",
            json!({"limit": 1, "delay": "0s", "on": [75]}),
            "(exit 3)",
            1,
            Some("not retried, because retry.on does not list exit code 3"),
        ),
        ("listed", json!({"limit": 1, "delay": "0s", "on": [3]}), "(exit 3)", 2, None),
        (
            "killed",
            json!({"limit": 1, "delay": "0s", "never_on": [137]}),
            "kill -9 $$",
            1,
            Some("not retried, because retry.never_on lists code 137, signal 9 (KILL)"),
        ),
        ("slow", json!({"limit": 1, "delay": "0s", "on": [124]}), "sleep 60", 2, None),
    ];
    for (name, retry, work, ..) in &cases {
        let timeout = if *name == "slow" { "1500ms" } else { "1m" };
        eye.add(&json!({"name": name, "in": "0s", "shell": effects.shell(work), "retry": retry, "timeout": timeout}));
    }
    for (name, _, _, attempts, reason) in cases {
        let run = eye.wait_for_history(name, 1).remove(0);
        let state = if name == "slow" { RunState::TimedOut } else { RunState::Failed };
        assert_eq!(
            (run.state, run.attempt, run.reason.as_deref()),
            (state, attempts, reason),
            "{name}"
        );
        assert_eq!(effects.of(name).len(), attempts as usize, "{name}");
    }
}

#[test]
fn a_status_decides_and_no_answer_at_all_is_tried_again_whatever_is_listed() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let sink = runtime.block_on(HttpSink::start([Answer::status(404)]));
    // A port that was free a moment ago: nobody listens there.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _node = Schedd::on(&redis).start();
    let add = |name: &str, url: String| {
        eye.add(&json!({"name": name, "in": "0s", "http": url, "retry": {"limit": 1, "delay": "0s", "on": [503]}}));
        eye.wait_for_history(name, 1).remove(0)
    };
    let answered = add("answered", sink.url("/"));
    assert_eq!((answered.state, answered.attempt), (RunState::Failed, 1));
    assert_eq!(
        answered.reason.as_deref(),
        Some("not retried, because retry.on does not list status 404")
    );
    let silent = add("silent", format!("http://{closed}/"));
    assert_eq!(
        (silent.state, silent.attempt, silent.failures, silent.reason),
        (RunState::Failed, 2, 1, None)
    );
}

#[test]
fn an_answer_that_asks_to_be_left_alone_is_and_a_shorter_wait_is_not_taken() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _node = Schedd::on(&redis).start();
    let date =
        |field: &'static str, hour: u32| (field, format!("Sun, 06 Nov 1994 {hour:02}:49:37 GMT"));
    let cases = [
        ("seconds", vec![("retry-after", "3600".to_owned())], "0s", 3_600),
        ("date", vec![date("date", 8), date("retry-after", 10)], "0s", 7_200),
        ("longer-backoff", vec![("retry-after", "3600".to_owned())], "2h", 7_200),
        ("no-end", vec![("retry-after", "999999999999".to_owned())], "0s", 86_400),
        ("garbage", vec![("retry-after", "soon".to_owned())], "30m", 1_800),
    ];
    for (name, headers, delay, secs) in cases {
        let answer = Answer { headers, ..Answer::status(503) };
        let sink = runtime.block_on(HttpSink::start([answer]));
        let retry = json!({"limit": 1, "delay": delay, "jitter": false});
        eye.add(&json!({"name": name, "in": "0s", "http": sink.url("/"), "retry": retry}));
        let open =
            || eye.ask(eye.store().list_open(&name.parse().unwrap())).unwrap().into_iter().next();
        let id = until("it is open", LONG, open).to_string();
        let run =
            until("it waits", LONG, || eye.run(&id).filter(|run| run.state == RunState::Scheduled));
        let attempt: Value = serde_json::from_str(&run.past[0].record).unwrap();
        let ended = UnixMillis::new(attempt["finished_at_ms"].as_i64().unwrap()).unwrap();
        let (waits, wanted) = (run.ready.unwrap().since(ended), Duration::from_secs(secs));
        assert!(waits >= wanted && waits < wanted + Duration::from_secs(60), "{name}: {waits:?}");
        assert_eq!(run.failures, 1, "{name}");
    }
}

#[test]
fn lost_nodes_use_up_no_retries_and_a_failure_between_them_breaks_their_row() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let mut node = ScriptedNode::on(&redis, &script).node("only").jobs(QUICK).start();
    // Lost twice, failed once, lost three times: four in a row would be poison, two failures the end.
    let (lost, code) = (Act::GoOn, |code| Act::End(exit(code)));
    let acts = [lost.clone(), lost.clone(), code(1), lost.clone(), lost.clone(), lost, code(0)];
    script.set("work", &acts);
    eye.add(
        &json!({"name": "work", "in": "0s", "shell": "work", "retry": {"limit": 1, "delay": "0s"}}),
    );
    for attempt in [1, 2, 4, 5, 6] {
        let begun = || script.of("work").into_iter().find(|effect| effect.attempt == attempt);
        until(&format!("attempt {attempt} begins"), LONG, begun);
        node.crash();
        node.start_again();
    }
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt), (RunState::Succeeded, 7), "{run:?}");
    assert_eq!((run.failures, run.recoveries), (1, 3));
    assert_eq!(script.of("work").len(), 7);
}
