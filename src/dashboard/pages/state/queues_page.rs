//! The queues with their load.

use askama::Template;

use crate::cli::embedded::CliFailure;
use crate::dashboard::badge::Badge;
use crate::dashboard::documents::QueueDocument;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    queues: Vec<QueueDocument>,
}

/// Returns the page of the queues with their load.
pub(in crate::dashboard) async fn queues_page(
    reading: &PageReading<'_>,
) -> Result<String, CliFailure> {
    let queues: Vec<QueueDocument> = reading.document(&["queues"]).await?;
    if queues.iter().all(|queue| queue.depth == 0) {
        let next = queues.iter().filter_map(|queue| queue.next_ready).map(|time| time.at).min();
        reading.note_right_until(next);
    }
    page_text(&QueuesPage { layout: reading.layout("queues"), clock: &reading.clock, queues })
}
