//! Events and followed logs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;

use super::{ApiScene, DEFINING};
use crate::support::wait::{LONG, until};

/// A connection that follows events.
struct Follower(BufReader<TcpStream>);

/// An event: its name, its id and its data.
#[derive(Debug)]
struct SentEvent {
    name: String,
    id: Option<String>,
    data: Value,
}

impl Follower {
    fn of(scene: &ApiScene, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = scene.probe.connect();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let head = scene.probe.head("viewer", "GET", path, headers);
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {
            assert!(!line.starts_with("HTTP/1.1") || line.contains("200"), "{line}");
            line.clear();
        }
        Self(reader)
    }

    /// Returns the next event, or `None` at the end of the stream.
    fn next(&mut self) -> Option<SentEvent> {
        let began = Instant::now();
        let (mut name, mut id, mut data) = (String::new(), None, Value::Null);
        loop {
            assert!(began.elapsed() < LONG, "no event came");
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(text) = line.strip_prefix("event: ") {
                text.clone_into(&mut name);
            } else if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.to_owned());
            } else if let Some(text) = line.strip_prefix("data: ") {
                data = serde_json::from_str(text).unwrap();
            } else if line.is_empty() && !name.is_empty() {
                return Some(SentEvent { name, id, data });
            } else if line == "0" {
                return None;
            }
        }
    }

    /// Returns the next event of this name.
    #[track_caller]
    fn event(&mut self, name: &str) -> SentEvent {
        loop {
            let event = self.next().unwrap_or_else(|| panic!("no {name} before the end"));
            if event.name == name {
                return event;
            }
        }
    }
}

#[test]
fn what_happens_is_followed_and_ended_runs_are_sent_again() {
    let scene =
        ApiScene::start("", "[jobs.a]\nshell = \"true\"\n[jobs.slow]\nshell = \"sleep 600\"\n");
    let mut follower = Follower::of(&scene, "/v1/events", &[]);
    scene.post("operator", "/v1/jobs/a/pause", "").of(200);
    let changed = follower.event("job_changed").data;
    assert_eq!(
        (&changed["job"], &changed["what"], &changed["by"]),
        (&"a".into(), &"paused".into(), &"token:operator".into())
    );
    scene.post("operator", "/v1/jobs/slow/run", "").of(200);
    let started = follower.event("run_started").data;
    assert_eq!((&started["job"], &started["state"]), (&"slow".into(), &"running".into()));
    let run = scene.post("operator", "/v1/jobs/a/run", "").of(200);
    let ended = follower.event("run_ended");
    assert_eq!(
        (&ended.data["run_id"], &ended.data["state"]),
        (&run["run_id"], &"succeeded".into())
    );
    let second = scene.post("operator", "/v1/jobs/a/run", "").of(200);
    assert_eq!(follower.event("run_ended").data["run_id"], second["run_id"]);
    // Whoever connects again with the id of an event misses nothing after it.
    let id = ended.id.unwrap();
    let mut again = Follower::of(&scene, "/v1/events", &[("Last-Event-ID", &id)]);
    assert_eq!(again.event("run_ended").data["run_id"], second["run_id"]);
    let other = crate::support::daemon::Schedd::on(&scene.redis).node("n2").jobs("").start();
    assert_eq!(again.event("node_came").data["node"], "n2");
    other.term();
    assert_eq!(again.event("node_went").data["node"], "n2");
}

#[test]
fn an_event_is_not_sent_again_to_a_follower_that_comes_back_with_its_id() {
    let scene = ApiScene::start("", "[jobs.a]\nshell = \"true\"\n");
    let mut first = Follower::of(&scene, "/v1/events", &[]);
    let run = || {
        let run = scene.post("operator", "/v1/jobs/a/run", "").of(200)["run_id"].clone();
        until("the run ends", LONG, || {
            let shown = scene.get("viewer", &format!("/v1/runs/{}", run.as_str().unwrap())).of(200);
            (!shown["finished_at"].is_null()).then_some(())
        });
        run
    };
    run();
    let mut id = first.event("run_ended").id.unwrap();
    // The source of events looks once a second, so some of these runs are sent before it saw them.
    for _ in 0..3 {
        let ended = run();
        let mut again = Follower::of(&scene, "/v1/events", &[("Last-Event-ID", &id)]);
        let event = again.event("run_ended");
        assert_eq!(event.data["run_id"], ended);
        id = event.id.unwrap();
        let mut back = Follower::of(&scene, "/v1/events", &[("Last-Event-ID", &id)]);
        let next = run();
        let event = back.event("run_ended");
        assert_eq!(event.data["run_id"], next, "{ended} was sent again");
        id = event.id.unwrap();
    }
}

#[test]
fn a_stream_ends_when_its_token_is_revoked() {
    let scene = ApiScene::start("", "");
    let mut follower = Follower::of(&scene, "/v1/events", &[]);
    scene.tokens.remove(|token| token.name == "viewer").unwrap();
    let end = follower.event("dropped").data;
    assert_eq!(end["reason"], "the token was revoked or has expired");
    assert!(follower.next().is_none());
}

#[test]
fn output_is_followed_while_it_is_written_and_ends_with_its_run() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let go = dir.path().join("go");
    let line = format!(
        "echo one; echo two >&2; while [ ! -e {} ]; do sleep 0.05; done; printf '\\\\033[31mthree\\\\n'",
        go.display()
    );
    let scene = ApiScene::start(DEFINING, &format!("[jobs.talk]\nshell = \"{line}\"\n"));
    let run = scene.post("operator", "/v1/jobs/talk/run", "").of(200);
    let run = run["run_id"].as_str().unwrap();
    let mut follower = Follower::of(&scene, &format!("/v1/runs/{run}/logs?follow=1"), &[]);
    let (mut text, mut last) = (String::new(), None);
    while !(text.contains("one") && text.contains("two")) {
        let SentEvent { id, data, .. } = follower.event("output");
        last = id;
        text.push_str(data["stdout"].as_str().unwrap());
        text.push_str(data["stderr"].as_str().unwrap());
    }
    assert!(!text.contains("three"), "{text}");
    std::fs::write(&go, "").unwrap();
    let path = format!("/v1/runs/{run}/logs?follow=1");
    let mut again = Follower::of(&scene, &path, &[("Last-Event-ID", &last.unwrap())]);
    let mut rest = String::new();
    while let Some(event) = again.next() {
        rest.push_str(event.data["stdout"].as_str().unwrap_or_default());
        rest.push_str(event.data["stderr"].as_str().unwrap_or_default());
    }
    assert_eq!(rest, "\u{1b}[31mthree\n", "a follower that comes back gets the rest");
    let odd = [("Last-Event-ID", "odd")];
    scene.probe.send("viewer", "GET", &path, &odd, b"").problem(400, "bad_request");
    let mut state = Value::Null;
    while let Some(event) = follower.next() {
        text.push_str(event.data["stdout"].as_str().unwrap_or_default());
        state = event.data["state"].clone();
    }
    assert!(text.contains("\u{1b}[31mthree"), "{text:?}");
    assert_eq!(state, "succeeded");
    let whole = scene.get("viewer", &format!("/v1/runs/{run}/logs"));
    assert!(whole.head.contains("content-type: text/plain"), "{}", whole.head);
    assert!(
        whole.text().contains("one")
            && whole.text().contains("two")
            && whole.text().contains("three")
    );
}

#[test]
fn a_stop_ends_the_streams_and_lets_an_answer_under_way_end() {
    let mut scene = ApiScene::start("", "");
    let mut follower = Follower::of(&scene, "/v1/events", &[]);
    scene.daemon.term();
    assert!(scene.daemon.wait_exit().success());
    let mut rest = Vec::new();
    follower.0.read_to_end(&mut rest).unwrap();
    // A stream that is cut off has no last chunk.
    assert!(rest.ends_with(b"0\r\n\r\n"), "{:?}", String::from_utf8_lossy(&rest));
}
