//! The round trips to Redis that a page makes one after the other.

use crate::api::round_trips::{CountedApi, assert_cheap};
use crate::dashboard::BROWSER;

/// The pages, but for the report of `doctor`, which reads on by what it has read.
const PAGES: [&str; 15] = [
    "/",
    "/jobs",
    "/jobs?queue=mail&q=later",
    "/jobs/tick",
    "/jobs/tick?at=2020-01-01T02%3A30",
    "/runs",
    "/runs/tick%40last",
    "/timeline",
    "/timeline?view=heat",
    "/chains",
    "/queues",
    "/groups",
    "/nodes",
    "/losses",
    "/api",
];

#[test]
fn no_page_takes_more_than_eight_round_trips_to_redis() {
    let counted = CountedApi::start();
    assert_cheap(PAGES, |page, number| {
        // A change by the API makes all snapshots old, and another zone is another snapshot.
        counted.scene.post("operator", "/v1/jobs/one/resume", "").of(200);
        let cookie = format!("schedd_own_zone=Etc/GMT+{}", number % 12);
        let headers = [BROWSER, ("Cookie", cookie.as_str())];
        counted.trips(|| {
            let answer = counted.scene.probe.send("viewer", "GET", page, &headers, b"");
            assert_eq!(answer.status, 200, "{page}: {}", answer.text());
        })
    });
}
