//! The report of `doctor`.

use askama::Template;

use crate::cli::embedded::CliFailure;
use crate::dashboard::badge::Badge;
use crate::dashboard::documents::ReportDocument;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;

#[derive(Template)]
#[template(path = "doctor.html")]
struct DoctorPage<'r> {
    layout: Layout<'r>,
    report: ReportDocument,
}

/// Returns the page of the report of `doctor`.
pub(in crate::dashboard) async fn doctor_page(
    reading: &PageReading<'_>,
) -> Result<String, CliFailure> {
    let report = reading.document(&["doctor"]).await?;
    page_text(&DoctorPage { layout: reading.layout("doctor"), report })
}
