//! The round trips to Redis that a page makes one after the other.

use crate::api::round_trips::{CountedApi, assert_cheap};
use crate::dashboard::BROWSER;
use crate::support::wait::{LONG, until};

/// The pages. That of `doctor` shows the last report. Previews of backfills, and questions about all
/// that a filter selects, read on by what they have read.
const PAGES: [&str; 22] = [
    "/doctor",
    "/",
    "/jobs",
    "/jobs?queue=mail&q=later",
    "/jobs?q=later-7",
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
    "/act/run?name=one",
    "/act/backfill?name=tick",
    "/act/set-queue?name=mail",
    "/act/pause?name=one&name=tick&name=each",
    "/act/retry?of=filter&job=tick&dead=1",
];

#[test]
fn no_page_takes_more_than_eight_round_trips_to_redis() {
    let counted = CountedApi::start();
    // The first check reads on by what it has read, in the background.
    until("a report", LONG, || {
        let answer = counted.scene.probe.send("viewer", "GET", "/doctor", &[BROWSER], b"");
        Some(()).filter(|()| answer.text().contains("Checked <time"))
    });
    assert_cheap(PAGES, |page, number| {
        // A change by the API makes all snapshots old, and another zone is another snapshot.
        counted.scene.post("operator", "/v1/jobs/one/resume", "").of(200);
        let cookie = format!("schedd_own_zone=Etc/GMT+{}", number % 12);
        let headers = [BROWSER, ("Cookie", cookie.as_str())];
        let caller = if page.starts_with("/act/") { "operator" } else { "viewer" };
        counted.trips(|| {
            let answer = counted.scene.probe.send(caller, "GET", page, &headers, b"");
            assert_eq!(answer.status, 200, "{page}: {}", answer.text());
        })
    });
}
