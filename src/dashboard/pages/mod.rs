//! The pages, one file for each.

mod choices_page;
mod jobs_page;
mod refusal_page;

use super::page_kind::PageKind;
use super::page_request::PageReading;
use crate::cli::embedded::CliFailure;

pub(super) use refusal_page::refusal;

/// Reads the documents of a page, and returns the page.
pub(super) async fn page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    match reading.request.kind {
        PageKind::Jobs => jobs_page::jobs_page(reading).await,
        PageKind::Choices => choices_page::choices_page(reading),
    }
}
