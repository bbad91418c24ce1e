//! The text of a page, made from its template.

use askama::Template;

use crate::cli::embedded::CliFailure;

/// Returns the text of a page.
pub(super) fn page_text(page: &impl Template) -> Result<String, CliFailure> {
    page.render()
        .map_err(|error| CliFailure::Failed(format!("the page cannot be written: {error}")))
}
