//! Pages that are asked for again and again.

use std::time::{Duration, Instant};

use super::{BROWSER, open, page};
use crate::api::ApiScene;
use crate::support::wait::{LONG, until};

/// Returns the tag of a page. The head was read in lower case.
fn etag(head: &str) -> String {
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: w/")).unwrap();
    format!("W/{tag}")
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
    let answer = again(&known);
    assert_eq!((answer.status, answer.body.len()), (304, 0), "{answer:?}");
    assert_eq!(again("\"0\"").status, 200);
    scene.post("operator", "/v1/jobs/a/pause", "").of(200);
    until("the page shows the pause", LONG, || (again(&known).status == 200).then_some(()));
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
        etag(&answer.head)
    })
    .collect();
    assert!(tags[0] != tags[1] && tags[0] != tags[2] && tags[1] != tags[2], "{tags:?}");
}

#[test]
fn a_page_is_read_again_only_after_a_change_or_for_its_own_change() {
    let jobs = "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n";
    let scene = ApiScene::start("", jobs);
    let known = etag(&open(&scene, "operator", "/jobs").head);
    let poll = || {
        let headers = [BROWSER, ("If-None-Match", known.as_str()), ("Sec-Fetch-Mode", "cors")];
        scene.probe.send("operator", "GET", "/jobs", &headers, b"").status
    };
    // The reading of a list takes scripts; a look for changes takes none.
    let before = reads_of_jobs(&scene);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(4) {
        assert_eq!(poll(), 304);
    }
    assert_eq!(reads_of_jobs(&scene), before, "a page was read without a change");
    // The next page has the change of its own reader at once.
    scene.post("operator", "/v1/jobs/a/pause", "").of(200);
    assert!(page(&scene, "operator", "/jobs").contains("badge paused"));
    // A change by another comes with a later poll.
    let ctl = crate::support::ctl::Schedctl::on(&scene.redis);
    ctl.run(&["resume", "a"]).good();
    until("the page shows the change", LONG, || {
        (!page(&scene, "operator", "/jobs").contains("badge paused")).then_some(())
    });
}

#[test]
fn an_open_page_shows_a_lost_node_although_nothing_else_changes() {
    let scene = ApiScene::start("", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n");
    let mut connection = scene.redis.connection();
    let (seconds, _): (i64, i64) = redis::cmd("TIME").query(&mut connection).unwrap();
    // The node counts as gone 15 seconds after it was seen.
    let seen = (seconds - 10) * 1_000;
    let _: () = redis::cmd("ZADD")
        .arg("{schedd}:nodes")
        .arg(seen)
        .arg("n9")
        .query(&mut connection)
        .unwrap();
    let first = open(&scene, "viewer", "/");
    assert!(!first.text().contains("Node n9 is gone"), "{first:?}");
    let mut known = etag(&first.head);
    until("the page shows the lost node", LONG, || {
        let headers = [BROWSER, ("If-None-Match", known.as_str()), ("Sec-Fetch-Mode", "cors")];
        let news = scene.probe.send("viewer", "GET", "/", &headers, b"");
        if news.status == 304 {
            return None;
        }
        known = etag(&news.head);
        news.text().contains("Node n9 is gone").then_some(())
    });
}

#[test]
fn many_tabs_of_many_views_cost_few_readings_while_something_always_changes() {
    let scene = ApiScene::start("", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n");
    let ctl = crate::support::ctl::Schedctl::on(&scene.redis);
    let view = |number: usize| format!("/jobs?tag=t{number}");
    let tags: Vec<String> =
        (0..20).map(|number| etag(&open(&scene, "viewer", &view(number)).head)).collect();
    let before = reads_of_jobs(&scene);
    let started = Instant::now();
    for round in 0..6 {
        ctl.run(&[if round % 2 == 0 { "pause" } else { "resume" }, "a"]).good();
        for (number, tag) in tags.iter().enumerate() {
            let headers = [BROWSER, ("If-None-Match", tag.as_str())];
            scene.probe.send("viewer", "GET", &view(number), &headers, b"");
        }
    }
    // Two readings a second, and at most a few more before all views have asked once.
    let most = 6 + 2 * started.elapsed().as_secs();
    let more = reads_of_jobs(&scene) - before;
    assert!(more <= most, "{more} readings of 120 requests, wanted at most {most}");
}

/// Returns the number of times that the node has read a page of an index, as its figures say.
fn reads_of_jobs(scene: &ApiScene) -> u64 {
    let figures = scene.get("viewer", "/metrics").text();
    let line = "schedd_redis_script_seconds_count{script=\"read_page\"} ";
    let count = figures.lines().find_map(|known| known.strip_prefix(line));
    count.map_or(0, |count| count.parse().unwrap())
}
