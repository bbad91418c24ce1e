//! The data losses of Redis.

use askama::Template;

use crate::cli::embedded::CliFailure;
use crate::dashboard::documents::LossDocument;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;

#[derive(Template)]
#[template(path = "losses.html")]
struct LossesPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    losses: Vec<LossDocument>,
}

/// Returns the page of the data losses of Redis.
pub(in crate::dashboard) async fn losses_page(
    reading: &PageReading<'_>,
) -> Result<String, CliFailure> {
    let losses = reading.document(&["data-loss"]).await?;
    page_text(&LossesPage { layout: reading.layout("losses"), clock: &reading.clock, losses })
}
