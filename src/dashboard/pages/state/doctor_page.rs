//! The report of `doctor`.

use std::sync::Arc;

use askama::Template;

use crate::cli::embedded::CliFailure;
use crate::dashboard::badge::Badge;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;
use crate::dashboard::report_keeper::KeptReport;

#[derive(Template)]
#[template(path = "doctor.html")]
struct DoctorPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    /// `None` while the first check is under way.
    kept: Option<Arc<KeptReport>>,
}

/// Returns the page of the report of `doctor`.
pub(in crate::dashboard) async fn doctor_page(
    reading: &PageReading<'_>,
) -> Result<String, CliFailure> {
    let (kept, is_under_way) = {
        let is_poll = reading.request.is_poll;
        reading.reports.report(reading.store, reading.seen, is_poll).await
    };
    if is_under_way {
        reading.note_moving();
    }
    page_text(&DoctorPage { layout: reading.layout("doctor"), clock: &reading.clock, kept })
}
