//! The first page: what needs attention, the next starts, the running runs, and the hours around now.

use std::time::Duration;

use askama::Template;

use super::attention::{AttentionItem, attention};
use crate::cli::embedded::CliFailure;
use crate::cli::embedded::views::{NamespaceView, read_namespace};
use crate::dashboard::badge::Badge;
use crate::dashboard::charts::DayStrip;
use crate::dashboard::documents::verb_document::all_parsed;
use crate::dashboard::documents::{JobDocument, RunDocument};
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::{DocumentTime, PageClock};
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::NamespaceCounts;

/// The length of a span of the strip.
const SPAN: Duration = Duration::from_secs(1_800);
/// The number of spans before now, and from now on.
const SPANS: u32 = 24;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    counts: NamespaceCounts,
    attention: Vec<AttentionItem>,
    next: Vec<JobDocument>,
    running: Vec<RunDocument>,
    strip: DayStrip,
    /// The time from which on only the next run of each job counts.
    cut_at: Option<DocumentTime>,
}

impl OverviewPage<'_> {
    fn is_empty(&self) -> bool {
        self.counts.jobs == 0 && self.counts.history == 0
    }
}

/// Returns the first page.
pub(super) async fn overview_page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    let clock = &reading.clock;
    let edges = edges(clock.instant());
    let mut view: NamespaceView =
        Box::pin(read_namespace(reading.store, clock.instant(), &edges)).await?;
    let depths = view.queues.iter().map(|queue| queue.depth);
    if depths.clone().all(|depth| depth.ready == 0) {
        let next = depths.filter_map(|depth| depth.next).min();
        reading.note_right_until(next);
    }
    let failing: Vec<JobDocument> = all_parsed(std::mem::take(&mut view.failing))?;
    let starts: Vec<UnixMillis> = view.coming.starts.iter().map(|(at, _)| *at).collect();
    page_text(&OverviewPage {
        layout: reading.layout(""),
        clock,
        attention: attention(&view, &failing, clock),
        strip: DayStrip::of(&edges, &view.counts.spans, &starts, clock),
        cut_at: view.coming.cut_at.map(DocumentTime::of),
        next: all_parsed(view.next)?,
        running: all_parsed(view.running)?,
        counts: view.counts,
    })
}

/// Returns the times that part the spans of the strip: full half hours, except now.
fn edges(now: UnixMillis) -> Vec<UnixMillis> {
    let span = i64::try_from(SPAN.as_millis()).unwrap_or(i64::MAX);
    let floor = UnixMillis::new(now.as_i64() / span * span).unwrap_or(now);
    let before = (1..=SPANS).rev().map(|count| floor.saturating_sub(SPAN * count));
    let after = (1..=SPANS).map(|count| floor.saturating_add(SPAN * count));
    before.chain([floor]).chain([now].into_iter().filter(|at| *at > floor)).chain(after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strip_parts_the_past_from_the_future_at_now() {
        let now = UnixMillis::new(1_800_000_000_000 + 700_000).unwrap();
        let edges = edges(now);
        assert!(edges.contains(&now) && edges.is_sorted());
        assert_eq!(edges.len(), 50);
        let round = UnixMillis::new(1_800_000_000_000).unwrap();
        assert_eq!(super::edges(round).len(), 49);
    }
}
