//! The occurrences that a backfill would run, as `backfill --dry-run` lists them.

use serde::Deserialize;

use super::action_table::OperatorAction;
use crate::cli::embedded::CliFailure;
use crate::dashboard::page_clock::DocumentTime;
use crate::dashboard::page_request::PageReading;
use crate::dashboard::shown_text::ShownText;

/// The number of times that are shown at once.
const FIRST: usize = 10;

/// The document `backfill`.
#[derive(Debug, Deserialize)]
pub(super) struct BackfillPreview {
    times: Vec<DocumentTime>,
    not_backfilled: NotBackfilled,
    pub(super) continue_from: Option<DocumentTime>,
}

/// The numbers of occurrences that get no run.
#[derive(Debug, Deserialize)]
struct NotBackfilled {
    succeeded: u64,
    already_backfilled: u64,
    open: u64,
}

impl BackfillPreview {
    /// Reads the preview for the window in the request. Returns `None` if the request has no window.
    pub(super) async fn of(
        action: &OperatorAction,
        reading: &PageReading<'_>,
        name: &str,
    ) -> Option<Result<Self, ShownText>> {
        let request = reading.request;
        if !action.has_preview() || request.parameter("from").is_empty() {
            return None;
        }
        let is_confirmation = |flag: &&String| flag.as_str() == "--yes";
        let flags = request.flags.iter().filter(|flag| !is_confirmation(flag));
        let mut words = action.verb.to_vec();
        words.extend(flags.map(String::as_str));
        words.extend(["--dry-run", "--", name]);
        let read: Result<Self, CliFailure> = reading.in_zone(reading.document(&words)).await;
        Some(read.map_err(|failure| {
            let text = failure.lines().join("; ");
            // The flags of the verb are fields of the form.
            ShownText::new(&text.replace("--from", "From").replace("--to", "Before"))
        }))
    }

    pub(super) fn count(&self) -> usize {
        self.times.len()
    }

    pub(super) fn first(&self) -> &[DocumentTime] {
        self.times.get(..FIRST).unwrap_or(&self.times)
    }

    pub(super) fn rest(&self) -> &[DocumentTime] {
        self.times.get(FIRST..).unwrap_or_default()
    }

    /// Returns the window that has exactly these times, whenever it is read: `from` and `to`. Returns
    /// `None` if there is no time.
    pub(super) fn window(&self) -> Option<(String, String)> {
        let (first, last) = (self.times.first()?, self.times.last()?);
        let behind = last.at.saturating_add(std::time::Duration::from_millis(1));
        Some((first.at.to_string(), behind.to_string()))
    }

    /// Returns sentences about the occurrences that get no run.
    pub(super) fn left_out(&self) -> Vec<String> {
        let NotBackfilled { succeeded, already_backfilled, open } = self.not_backfilled;
        [
            (succeeded, "succeeded"),
            (already_backfilled, "are backfilled already, or wait for that"),
            (open, "are not due yet, or have not ended"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("Without a run: {count} that {why}."))
        .collect()
    }
}
