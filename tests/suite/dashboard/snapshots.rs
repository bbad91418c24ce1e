//! Pages that are asked for again and again.

use std::time::Instant;

use super::{BROWSER, open, page};
use crate::api::ApiScene;
use crate::support::wait::{LONG, until};

fn etag(head: &str) -> &str {
    head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap()
}

#[test]
fn a_page_without_news_is_answered_with_304_until_a_job_changes() {
    let scene = ApiScene::start("", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n");
    let first = open(&scene, "operator", "/jobs");
    let again = |known: &str| {
        let headers = [BROWSER, ("If-None-Match", known)];
        scene.probe.send("operator", "GET", "/jobs", &headers, b"")
    };
    let known = etag(&first.head);
    let answer = again(known);
    assert_eq!((answer.status, answer.body.len()), (304, 0), "{answer:?}");
    assert_eq!(again("\"0\"").status, 200);
    scene.post("operator", "/v1/jobs/a/pause", "").of(200);
    until("the page shows the pause", LONG, || (again(known).status == 200).then_some(()));
    assert!(page(&scene, "operator", "/jobs").contains("badge paused"));
}

#[test]
fn each_role_and_each_zone_has_a_page_of_its_own() {
    let scene = ApiScene::start("", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n");
    let tags: Vec<String> = [
        ("viewer", "schedd_zone=utc"),
        ("admin", "schedd_zone=utc"),
        ("viewer", "schedd_zone=job"),
    ]
    .iter()
    .map(|(caller, cookie)| {
        let headers = [BROWSER, ("Cookie", *cookie)];
        let answer = scene.probe.send(caller, "GET", "/jobs", &headers, b"");
        etag(&answer.head).to_owned()
    })
    .collect();
    assert!(tags[0] != tags[1] && tags[0] != tags[2] && tags[1] != tags[2], "{tags:?}");
}

#[test]
fn many_tabs_of_one_view_cost_one_reading_a_second() {
    let scene = ApiScene::start("", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n");
    page(&scene, "viewer", "/jobs");
    let before = scripts_called(&scene);
    let started = Instant::now();
    for _ in 0..200 {
        page(&scene, "viewer", "/jobs");
    }
    // The node itself calls scripts too: its heartbeat, and searches of the background.
    let most = 20 * (started.elapsed().as_secs() + 2);
    let more = scripts_called(&scene) - before;
    assert!(more <= most, "{more} calls of scripts, wanted at most {most}");
}

/// Returns the number of scripts that Redis has executed.
fn scripts_called(scene: &ApiScene) -> u64 {
    let mut connection = scene.redis.connection();
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
    line.split(',').next().unwrap().parse().unwrap()
}
