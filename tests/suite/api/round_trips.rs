//! The number of round trips to Redis that a request makes.

use super::{ApiScene, DEFINING};
use crate::support::host::proxy::Proxy;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// The most round trips to Redis for a request.
const MOST: usize = 8;
/// The number of requests of each path, of which the one with the fewest round trips counts. The
/// node itself makes some meanwhile, and a busy host parts commands that are sent together.
const REQUESTS: usize = 20;
/// Reports and searches that read on by what they have read.
const EXEMPT: [&str; 1] = ["/v1/doctor"];

#[test]
fn no_read_takes_more_than_eight_round_trips_to_redis() {
    let redis = TestRedis::start();
    let proxy = Proxy::to(&redis);
    let scene = ApiScene::start_at(
        redis,
        &proxy.url(),
        DEFINING,
        "[queues.mail]\n[jobs.tick]\nevery = \"1h\"\nshell = \"echo hello\"\n\
         [jobs.child]\nafter = [\"tick\"]\nshell = \"true\"\n\
         [jobs.one]\nevery = \"1h\"\ngroup = \"turns\"\nshell = \"true\"\n[groups.turns]\nmode = \"exclusive\"\n",
    );
    for number in 0..120 {
        let body = format!(
            r#"{{"name": "later-{number}", "in": "1h", "queue": "mail", "http": "http://127.0.0.1:1/"}}"#
        );
        scene.post("admin", "/v1/jobs", &body).of(201);
    }
    for _ in 0..3 {
        let run = scene.post("operator", "/v1/jobs/tick/run", "").of(200)["run_id"].clone();
        until("the run ends", LONG, || {
            let path = format!("/v1/runs/{}", run.as_str().unwrap());
            Some(()).filter(|()| scene.get("viewer", &path).of(200)["state"] == "succeeded")
        });
    }
    let document = scene.get("viewer", "/v1/openapi.json").of(200);
    let paths = document["paths"].as_object().unwrap();
    let mut dear = Vec::new();
    for (path, methods) in paths {
        // The route sends events until its reader leaves.
        if methods.get("get").is_none() || path == "/v1/events" || EXEMPT.contains(&path.as_str()) {
            continue;
        }
        let path =
            path.replace("{job}", "tick").replace("{run}", "tick@last").replace("{group}", "turns");
        let trips = (0..REQUESTS).map(|_| {
            let before = proxy.round_trips();
            let answer = scene.get("viewer", &path);
            assert!([200, 401].contains(&answer.status), "{path}: {answer:?}");
            proxy.round_trips() - before
        });
        let trips = trips.min().unwrap();
        println!("{path}: {trips}");
        if trips > MOST {
            dear.push(format!("{path}: {trips}"));
        }
    }
    assert!(dear.is_empty(), "more than {MOST} round trips for a request: {dear:?}");
}
