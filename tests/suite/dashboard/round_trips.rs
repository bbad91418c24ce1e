//! The round trips to Redis that a page makes one after the other.

use super::open;
use crate::api::ApiScene;
use crate::support::host::proxy::Proxy;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// The most round trips for a page.
const MOST: usize = 8;
/// The number of requests of each page, of which the one with the fewest round trips counts. The
/// node itself makes some meanwhile.
const REQUESTS: usize = 5;
/// The pages, but for the report of `doctor`, which reads on by what it has read.
const PAGES: [&str; 9] = [
    "/jobs",
    "/jobs?queue=mail&q=later",
    "/jobs/tick",
    "/jobs/tick?at=2020-01-01T02%3A30",
    "/runs",
    "/runs/tick%40last",
    "/queues",
    "/groups",
    "/nodes",
];

#[test]
fn no_page_takes_more_than_eight_round_trips_to_redis() {
    let redis = TestRedis::start();
    let proxy = Proxy::to(&redis);
    let jobs = "[queues.mail]\n[jobs.tick]\nevery = \"1h\"\nshell = \"echo hello\"\n\
        [jobs.child]\nafter = [\"tick\"]\nshell = \"true\"\n\
        [jobs.later]\nevery = \"1h\"\ngroup = \"turns\"\nqueue = \"mail\"\nshell = \"true\"\n\
        [groups.turns]\nmode = \"exclusive\"\n";
    let scene = ApiScene::start_at(redis, &proxy.url(), "", jobs);
    for _ in 0..3 {
        let run = scene.post("operator", "/v1/jobs/tick/run", "").of(200)["run_id"].clone();
        until("the run ends", LONG, || {
            let path = format!("/v1/runs/{}", run.as_str().unwrap());
            Some(()).filter(|()| scene.get("viewer", &path).of(200)["state"] == "succeeded")
        });
    }
    // Commands that do not wait for each other's answers are then sent together, and count once.
    proxy.delay_answers(5);
    let mut dear = Vec::new();
    for page in PAGES {
        let trips = (0..REQUESTS).map(|_| {
            // A change by the API makes all snapshots old.
            scene.post("operator", "/v1/jobs/later/resume", "").of(200);
            let before = proxy.round_trips();
            let answer = open(&scene, "viewer", page);
            assert_eq!(answer.status, 200, "{page}: {}", answer.text());
            proxy.round_trips() - before
        });
        let trips = trips.min().unwrap();
        println!("{page}: {trips}");
        if trips > MOST {
            dear.push(format!("{page}: {trips}"));
        }
    }
    assert!(dear.is_empty(), "more than {MOST} round trips for a page: {dear:?}");
}
