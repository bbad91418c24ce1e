//! The last report of `doctor`. A check reads all data, which takes long with many jobs. So one check
//! serves all readers, and checks take a small part of the time. An open page begins no check while
//! nothing has changed in the namespace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;

use super::documents::ReportDocument;
use super::documents::verb_document::{document_of, parsed};
use super::page_clock::DocumentTime;
use super::shown_text::ShownText;
use super::snapshots::SeenState;
use crate::cli::embedded::CliFailure;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::Store;

/// The time for which a page waits for the report of a check. A longer check goes on without it.
const WAIT: Duration = Duration::from_millis(20);
/// The age at which a report is old, whatever its check took.
const LEAST_AGE: Duration = Duration::from_secs(10);
/// The age at which a report is old, as a multiple of the duration of its check.
const REST: u32 = 4;
/// The same for an open page that asks for news.
const REST_OF_POLLS: u32 = 100;

/// A report, or why there is none.
#[derive(Debug)]
pub(super) struct KeptReport {
    /// The report, as a page shows it.
    pub(super) report: Result<ReportDocument, ShownText>,
    /// The document `report`, or that of the error.
    document: Result<Value, Value>,
    /// The time at which the check began.
    pub(super) at: DocumentTime,
    began: Instant,
    took: Duration,
    /// The number of changes that were known when the check began. `None` if nobody asked for it.
    changes: Option<u64>,
}

impl KeptReport {
    /// Returns true if the report is older than [`LEAST_AGE`], and older than `rest` times the duration
    /// of its check.
    fn is_old(&self, now: Instant, rest: u32) -> bool {
        let ended = self.began + self.took;
        now.duration_since(ended) > LEAST_AGE.max(self.took * rest)
    }

    /// Returns true if an open page needs no new check at `now`. `changes` is the number of changes that
    /// are known by then.
    fn suffices_open_page(&self, now: Instant, changes: u64) -> bool {
        let is_unchanged = self.document.is_ok() && self.changes == Some(changes);
        is_unchanged || !self.is_old(now, REST_OF_POLLS)
    }
}

/// The last report, and whether a check is under way.
#[derive(Debug, Clone, Default)]
struct LastCheck {
    report: Option<Arc<KeptReport>>,
    is_under_way: bool,
}

/// The keeper of the last report.
#[derive(Debug, Default)]
pub(crate) struct ReportKeeper {
    last: Arc<watch::Sender<LastCheck>>,
}

impl ReportKeeper {
    /// Returns the last report, or `None` if the first check is under way, and true if a check is under
    /// way. Begins a check if the report is old at the state `seen`. `is_poll` is true if an open page
    /// asks for news.
    pub(super) async fn report(
        &self,
        store: &Store,
        seen: SeenState,
        is_poll: bool,
    ) -> (Option<Arc<KeptReport>>, bool) {
        let mut changes = self.last.subscribe();
        let is_right = |kept: &KeptReport| {
            let asked = Instant::now();
            if is_poll {
                kept.suffices_open_page(asked, seen.changes)
            } else {
                !kept.is_old(asked, REST)
            }
        };
        self.check_unless(is_right, store, seen.now, Some(seen.changes));
        // If the check takes longer than the page waits, it goes on without the page.
        let ended = tokio::time::timeout(WAIT, changes.wait_for(|last| !last.is_under_way)).await;
        (self.last.borrow().report.clone(), ended.is_err())
    }

    /// Returns the document of the last report, or that of a new check if the last report is old or has
    /// failed. Fails with the document of the error. With `is_fresh`, returns the report of a check that
    /// begins from now on.
    pub(crate) async fn document(&self, store: &Store, is_fresh: bool) -> Result<Value, Value> {
        let asked = Instant::now();
        let is_right = |kept: &KeptReport| {
            let is_good = !is_fresh && kept.document.is_ok() && !kept.is_old(asked, REST);
            kept.began >= asked || is_good
        };
        let mut changes = self.last.subscribe();
        loop {
            let kept = self.last.borrow().report.clone();
            if let Some(kept) = kept.filter(|kept| is_right(kept)) {
                return kept.document.clone();
            }
            let now = store.now().await.map_err(|error| CliFailure::from(error).json())?;
            self.check_unless(is_right, store, now, None);
            let _ended = changes.wait_for(|last| !last.is_under_way).await;
        }
    }

    /// Begins a check at `now`, unless the last report is right or a check is under way.
    fn check_unless(
        &self,
        is_right: impl Fn(&KeptReport) -> bool,
        store: &Store,
        now: UnixMillis,
        changes: Option<u64>,
    ) {
        let begins = self.last.send_if_modified(|last| {
            let has_right = last.report.as_ref().is_some_and(|kept| is_right(kept));
            let begins = !has_right && !last.is_under_way;
            last.is_under_way |= begins;
            begins
        });
        if begins {
            tokio::spawn(check(store.clone(), now, changes, self.last.clone()));
        }
    }
}

/// Checks all data, and keeps the report.
async fn check(
    store: Store,
    now: UnixMillis,
    changes: Option<u64>,
    last: Arc<watch::Sender<LastCheck>>,
) {
    let began = Instant::now();
    // All readers get the report of a viewer.
    let document = match store.gently() {
        Ok(store) => Box::pin(document_of::<Value>(&store, &["doctor"], true)).await,
        Err(error) => Err(error.into()),
    };
    let report = document.as_ref().map_err(|failure| failure.lines().join("; "));
    let report = report.and_then(|document| {
        parsed(document.clone()).map_err(|failure| failure.lines().join("; "))
    });
    let kept = KeptReport {
        report: report.map_err(|why| ShownText::new(&why)),
        document: document.map_err(|failure| failure.json()),
        at: DocumentTime::of(now),
        began,
        took: began.elapsed(),
        changes,
    };
    last.send_replace(LastCheck { report: Some(Arc::new(kept)), is_under_way: false });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(began: Instant, took: Duration, document: Result<Value, Value>) -> KeptReport {
        let report = Err(ShownText::new("none"));
        let at = DocumentTime::of(UnixMillis::EPOCH);
        KeptReport { report, document, at, began, took, changes: Some(7) }
    }

    #[test]
    fn an_open_page_waits_for_a_change_and_then_for_a_hundred_times_the_check() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let good = kept(began, second, Ok(Value::Null));
        assert!(good.suffices_open_page(began + second * 9_999, 7), "nothing has changed");
        assert!(
            good.suffices_open_page(began + second * 100, 8)
                && !good.suffices_open_page(began + second * 102, 8)
        );
        let failed = kept(began, second, Err(Value::Null));
        assert!(
            !failed.suffices_open_page(began + second * 102, 7),
            "a check that failed is repeated"
        );
    }

    #[test]
    fn a_report_is_old_later_if_its_check_took_long() {
        let began = Instant::now();
        let is_old = |took: u64, age: u64| {
            let kept = kept(began, Duration::from_secs(took), Err(Value::Null));
            kept.is_old(kept.began + kept.took + Duration::from_secs(age), REST)
        };
        assert!(!is_old(0, 9) && is_old(0, 11));
        assert!(!is_old(30, 119) && is_old(30, 121));
    }
}
