//! The last report of `doctor`. A check reads all data, which takes long with many jobs. So one check
//! serves all readers, and all checks together take a small part of the time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::documents::ReportDocument;
use super::documents::verb_document::document_of;
use super::page_clock::DocumentTime;
use super::shown_text::ShownText;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::Store;

/// The time for which a page waits for the report of a check. A longer check goes on without it.
const WAIT: Duration = Duration::from_millis(50);
/// The age at which a report is old, whatever its check took.
const LEAST_AGE: Duration = Duration::from_secs(10);
/// The age at which a report is old, as a multiple of the duration of its check.
const REST: u32 = 20;

/// A report, or why there is none.
#[derive(Debug)]
pub(super) struct KeptReport {
    pub(super) report: Result<ReportDocument, ShownText>,
    /// The time at which the check began.
    pub(super) at: DocumentTime,
    ended: Instant,
    took: Duration,
}

impl KeptReport {
    fn is_old(&self, now: Instant) -> bool {
        now.duration_since(self.ended) > LEAST_AGE.max(self.took * REST)
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
pub(super) struct ReportKeeper {
    last: Arc<watch::Sender<LastCheck>>,
}

impl ReportKeeper {
    /// Returns the last report, or `None` if the first check is under way, and true if a check is under
    /// way. Begins a check at `now` if the report is old.
    pub(super) async fn report(
        &self,
        store: &Store,
        now: UnixMillis,
    ) -> (Option<Arc<KeptReport>>, bool) {
        let mut changes = self.last.subscribe();
        let begins = self.last.send_if_modified(|last| {
            let is_old = last.report.as_ref().is_none_or(|kept| kept.is_old(Instant::now()));
            let begins = is_old && !last.is_under_way;
            last.is_under_way |= begins;
            begins
        });
        if begins {
            let check = check(store.clone(), now, self.last.clone());
            tokio::spawn(check);
        }
        // An error means that the check goes on.
        let ended = tokio::time::timeout(WAIT, changes.wait_for(|last| !last.is_under_way)).await;
        (self.last.borrow().report.clone(), ended.is_err())
    }
}

/// Checks all data, and keeps the report.
async fn check(store: Store, now: UnixMillis, last: Arc<watch::Sender<LastCheck>>) {
    let began = Instant::now();
    // All readers get the report of a viewer.
    let report = match store.gently() {
        Ok(store) => Box::pin(document_of(&store, &["doctor"], true)).await,
        Err(error) => Err(error.into()),
    };
    let report = report.map_err(|failure| ShownText::new(&failure.lines().join("; ")));
    let kept = KeptReport {
        report,
        at: DocumentTime::of(now),
        ended: Instant::now(),
        took: began.elapsed(),
    };
    last.send_replace(LastCheck { report: Some(Arc::new(kept)), is_under_way: false });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_old_later_if_its_check_took_long() {
        let now = Instant::now();
        let is_old = |took: u64, age: u64| {
            let report = Err(ShownText::new("none"));
            let at = DocumentTime::of(UnixMillis::EPOCH);
            let took = Duration::from_secs(took);
            KeptReport { report, at, ended: now, took }.is_old(now + Duration::from_secs(age))
        };
        assert!(!is_old(0, 9) && is_old(0, 11));
        assert!(!is_old(30, 599) && is_old(30, 601));
    }
}
