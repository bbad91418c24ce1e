//! The number of round trips to Redis that a request makes.

use super::{ApiScene, DEFINING};
use crate::support::host::proxy::Proxy;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// The most round trips to Redis for a request.
const MOST: usize = 8;
/// The most requests of each path. The request with the fewest round trips counts, because a busy host
/// may send commands one by one that belong into one round trip.
const REQUESTS: usize = 20;
/// The delay of each answer of Redis, ms. Commands that do not wait for each other's answers are then
/// sent together, and count once.
const DELAY: u64 = 5;

/// A node with a counter of the round trips that its API makes to Redis. The connection of the node's
/// own loops is not counted.
pub(crate) struct CountedApi {
    proxy: Proxy,
    pub(crate) scene: ApiScene,
}

impl CountedApi {
    /// Starts a node with jobs of each kind, of which `tick` has runs that failed.
    pub(crate) fn start() -> Self {
        let redis = TestRedis::start();
        let proxy = Proxy::to(&redis);
        let jobs = "[queues.mail]\n\
            [jobs.tick]\nevery = \"1h\"\nshell = \"echo hello; exit 1\"\n\
            [jobs.child]\nafter = [\"tick\"]\nshell = \"true\"\n\
            [jobs.each]\nevery = \"2h\"\non = \"each-node\"\nshell = \"true\"\n\
            [jobs.one]\nevery = \"1h\"\ngroup = \"turns\"\nqueue = \"mail\"\nshell = \"true\"\n\
            [groups.turns]\nmode = \"exclusive\"\n";
        let scene = ApiScene::start_at(redis, &proxy.url(), DEFINING, jobs);
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
                Some(()).filter(|()| scene.get("viewer", &path).of(200)["state"] == "failed")
            });
        }
        // Only the connection of the API carries this name: the node itself makes round trips too.
        proxy.count_carriers_of("later-7");
        scene.get("viewer", "/v1/jobs/later-7").of(200);
        assert!(proxy.round_trips() > 0, "the connection of the API is not counted");
        proxy.delay_answers(DELAY);
        Self { proxy, scene }
    }

    /// Returns the round trips that `ask` makes.
    pub(crate) fn trips(&self, ask: impl FnOnce()) -> usize {
        let before = self.proxy.round_trips();
        ask();
        self.proxy.round_trips() - before
    }
}

/// Fails if each of many requests of a path takes too many round trips. `trips` sends the request of
/// this number and returns its round trips.
pub(crate) fn assert_cheap(
    paths: impl IntoIterator<Item = impl AsRef<str>>,
    trips: impl Fn(&str, usize) -> usize,
) {
    let mut dear = Vec::new();
    for path in paths {
        let path = path.as_ref();
        let mut fewest = usize::MAX;
        for number in 0..REQUESTS {
            fewest = fewest.min(trips(path, number));
            if fewest <= MOST {
                break;
            }
        }
        println!("{path}: {fewest}");
        if fewest > MOST {
            dear.push(format!("{path}: {fewest}"));
        }
    }
    assert!(dear.is_empty(), "more than {MOST} round trips for a request: {dear:?}");
}

#[test]
fn no_read_takes_more_than_eight_round_trips_to_redis() {
    let counted = CountedApi::start();
    let document = counted.scene.get("viewer", "/v1/openapi.json").of(200);
    let paths: Vec<_> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        // The route of events sends until its reader leaves.
        .filter(|(path, methods)| methods.get("get").is_some() && *path != "/v1/events")
        .map(|(path, _)| {
            path.replace("{job}", "tick").replace("{run}", "tick@last").replace("{group}", "turns")
        })
        .collect();
    assert!(paths.len() > 10, "{paths:?}");
    assert_cheap(&paths, |path, _| {
        counted.trips(|| {
            let answer = counted.scene.get("viewer", path);
            assert!([200, 401].contains(&answer.status), "{path}: {answer:?}");
        })
    });
}
