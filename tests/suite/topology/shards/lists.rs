//! Lists, counts and pages have the jobs and runs of all shards.

use std::io::{BufRead as _, BufReader, Write as _};

use serde_json::Value;

use super::{FILE, add, add_eight, await_shards, start};
use crate::api::ApiScene;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};
use crate::topology::place::Place;
use crate::topology::tcp_server::TcpServer;

fn texts(items: &Value, field: &str) -> Vec<String> {
    let items = items.as_array().unwrap().iter();
    items.map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

#[test]
fn lists_and_counts_have_the_jobs_and_runs_of_all_shards() {
    let redis = TestRedis::start();
    let _node = start(&redis);
    let ctl = Schedctl::on(&redis);
    let names = add_eight(&redis, &ctl, |number| format!("{}m", 60 + number));
    assert_eq!(texts(&ctl.run(&["list", "--json"]).good().json(), "name"), names);
    let part = ctl.run(&["list", "--offset", "2", "--limit", "3", "--json"]).good().json();
    assert_eq!(texts(&part, "name"), names[2..5]);
    let found = ctl.run(&["list", "*-5", "--json"]).good().json();
    assert_eq!(texts(&found, "name"), names[5..6]);
    assert_eq!(ctl.run(&["stats", "--json"]).good().json()["jobs"], 8);
    let queues = ctl.run(&["queues", "--json"]).good().json();
    let mail = queues.as_array().unwrap().iter().find(|queue| queue["name"] == "mail").unwrap();
    assert_eq!((&mail["scheduled"], &mail["state"]), (&8.into(), &"open".into()), "{mail}");
    for name in &names {
        ctl.run(&["run", name, "--wait"]).good();
    }
    let ended = ctl.run(&["history", "--json"]).good().json();
    let newest: Vec<&String> = names.iter().rev().collect();
    assert_eq!(texts(&ended, "job").iter().collect::<Vec<_>>(), newest);
    let part = ctl.run(&["history", "--offset", "3", "--limit", "2", "--json"]).good().json();
    assert_eq!(texts(&part, "job").iter().collect::<Vec<_>>(), newest[3..5]);
}

#[test]
fn small_pages_of_the_api_have_each_job_and_run_once() {
    let scene = ApiScene::start("", FILE);
    await_shards(&scene.daemon, 4);
    let ctl = Schedctl::on(&scene.redis);
    let names = add_eight(&scene.redis, &ctl, |number| format!("{}m", 60 + number));
    let pages = |path: &str, field: &str| {
        let (mut found, mut next) = (Vec::new(), String::new());
        loop {
            let page = scene.get("viewer", &format!("{path}{next}")).of(200);
            found.extend(texts(&page["items"], field));
            match &page["next"] {
                Value::String(cursor) => next = format!("&cursor={cursor}"),
                _ => return found,
            }
        }
    };
    for limit in [1, 3, 8] {
        assert_eq!(pages(&format!("/v1/jobs?limit={limit}"), "name"), names, "{limit}");
        let of_queue = pages(&format!("/v1/jobs?limit={limit}&queue=mail"), "name");
        assert_eq!(of_queue, names, "{limit}");
    }
    let run = scene.post("operator", "/v1/jobs/mail-5/run", "").of(200);
    until("the run has ended", LONG, || {
        let path = format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
        (scene.get("viewer", &path).of(200)["state"] == "succeeded").then_some(())
    });
    for name in &names {
        ctl.run(&["run", name, "--wait"]).good();
    }
    let ended = texts(&ctl.run(&["history", "--json"]).good().json(), "run_id");
    assert_eq!(ended.len(), 9);
    for limit in [1, 2, 4] {
        assert_eq!(pages(&format!("/v1/runs?limit={limit}"), "run_id"), ended, "{limit}");
    }
    assert_eq!(pages("/v1/runs?limit=1&job=mail-5", "job").len(), 2);
}

/// Follows the events behind the event `last` until this number of runs has ended. Returns the ids of
/// the events, and their jobs. `begun` is called when the stream has begun.
fn ended_events(
    scene: &ApiScene,
    last: &[(&str, &str)],
    count: usize,
    begun: impl FnOnce(),
) -> Vec<(String, String)> {
    let mut stream = scene.probe.connect();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let head = scene.probe.head("viewer", "GET", "/v1/events", last);
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.starts_with(": the events")));
    begun();
    let (mut id, mut found) = (String::new(), Vec::new());
    while found.len() < count {
        let line = lines.next().unwrap();
        if let Some(text) = line.strip_prefix("id: ") {
            text.clone_into(&mut id);
        } else if let Some(data) = line.strip_prefix("data: ").filter(|_| !id.is_empty()) {
            let data: Value = serde_json::from_str(data).unwrap();
            found.push((std::mem::take(&mut id), data["job"].as_str().unwrap().to_owned()));
        }
    }
    found
}

#[test]
fn events_are_those_of_all_shards_and_go_on_behind_an_id() {
    let scene = ApiScene::start("", FILE);
    await_shards(&scene.daemon, 4);
    let ctl = Schedctl::on(&scene.redis);
    let mut names = Vec::new();
    let all = ended_events(&scene, &[], 8, || {
        names = add_eight(&scene.redis, &ctl, |_| "1s".to_owned());
    });
    let mut jobs: Vec<&String> = all.iter().map(|(_, job)| job).collect();
    jobs.sort();
    assert_eq!(jobs, names.iter().collect::<Vec<_>>());
    let again = ended_events(&scene, &[("Last-Event-ID", &all[2].0)], 5, || ());
    assert_eq!(again, all[3..]);
}

#[test]
fn metrics_top_and_pages_count_all_shards() {
    let scene = ApiScene::start("", FILE);
    await_shards(&scene.daemon, 4);
    let ctl = Schedctl::on(&scene.redis);
    let names = add_eight(&scene.redis, &ctl, |number| format!("{}m", 60 + number));
    let metrics = scene.get("viewer", "/metrics").text();
    assert!(metrics.contains("\nschedd_namespace_jobs 8.0\n"), "{metrics}");
    let top = ctl.run(&["top", "--data={\"kept\": [\"mail-5\"], \"detail\": null}"]).good().json();
    assert_eq!(top["lists"][0]["rows"].as_array().unwrap().len(), 8, "{top}");
    for path in ["/jobs", "/timeline", "/"] {
        let page = scene.get("viewer", path).text();
        assert!(names.iter().all(|name| page.contains(name)), "{path}: {page}");
    }
    for path in ["/jobs/mail-5", "/queues", "/doctor"] {
        assert_eq!(scene.get("viewer", path).status, 200, "{path}");
    }
}

#[test]
fn doctor_names_each_shard_and_what_is_wrong_there() {
    let redis = TestRedis::start();
    let _node = start(&redis);
    let ctl = Schedctl::on(&redis);
    add_eight(&redis, &ctl, |_| "1h".to_owned());
    let report = ctl.run(&["doctor", "--json"]).json();
    let of_shard = |report: &Value, shard: usize| {
        let name = format!("shard {shard}");
        let lines = report["shards"].as_array().unwrap().iter();
        lines.filter(|line| line["name"] == *name).cloned().collect::<Vec<_>>()
    };
    for shard in 0..4 {
        assert!(of_shard(&report, shard).len() >= 3, "{report}");
    }
    let levels: Vec<&Value> =
        report["shards"].as_array().unwrap().iter().map(|line| &line["level"]).collect();
    assert!(levels.iter().all(|level| *level != "fail"), "{report}");
    let mut connection = redis.connection();
    let () =
        redis::cmd("SET").arg("{schedd.2}:job:broken").arg("x").query(&mut connection).unwrap();
    let broken = ctl.run(&["doctor", "--json"]);
    assert_eq!(broken.code, 1, "{broken:?}");
    let lines = of_shard(&broken.json(), 2);
    assert!(lines.iter().any(|line| line["level"] == "fail"), "{broken:?}");
}

#[test]
fn a_shard_that_is_down_is_named_and_the_rest_is_shown() {
    let place = Place::here();
    let (first, mut second) = (TcpServer::of_data(&place, &[]), TcpServer::of_data(&place, &[]));
    let url = format!("redis://{}/0", first.address());
    let file = format!(
        "[redis]\nurl = \"{url}\"\nshards = [\"{}\", \"{}\"]\n[queues.mail]\nspread = true\n",
        first.address(),
        second.address()
    );
    let node = Schedd::at(&url).jobs(&file).start();
    await_shards(&node, 2);
    let ctl = Schedctl::alone().env("SCHEDD_REDIS_URL", &url);
    (0..8).for_each(|number| drop(add(&ctl, number, "1h")));
    assert_eq!(ctl.run(&["list", "--json"]).good().json().as_array().unwrap().len(), 8);
    second.kill9();
    let list = ctl.run(&["list", "--json"]).good();
    let left = list.json().as_array().unwrap().len();
    assert!((1..8).contains(&left), "{list:?}");
    let warning = format!("warning: shard 1 (redis://{}/0) does not answer: ", second.address());
    assert!(list.stderr.contains(&warning), "{list:?}");
    assert!(list.stderr.contains("; its jobs are left out\n"), "{list:?}");
    assert_eq!(list.stderr.lines().count(), 1, "{list:?}");
    assert_eq!(ctl.run(&["stats", "--json"]).good().json()["jobs"], left);
    let doctor = ctl.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let shards = doctor.json()["shards"].clone();
    let is_named = |line: &Value| {
        line["level"] == "fail" && line["text"].as_str().unwrap().contains("shard 1 ")
    };
    assert!(shards.as_array().unwrap().iter().any(is_named), "{shards}");
    ctl.run(&["show", "mail-77"]).refused(69, &[&second.address()]);
}
