//! The routes of the HTTP API, each with an example for `curl`.

use askama::Template;

use crate::cli::embedded::CliFailure;
use crate::dashboard::api_guide::{ApiGuide, GuideRoute};
use crate::dashboard::layout::Layout;
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;
use crate::dashboard::shown_text::ShownText;

#[derive(Template)]
#[template(path = "api.html")]
struct ApiPage<'r> {
    layout: Layout<'r>,
    guide: &'r ApiGuide,
    /// The words with which `curl` reaches the API.
    server: &'r str,
}

impl ApiPage<'_> {
    fn example(&self, route: &GuideRoute) -> ShownText {
        ShownText::new(&route.command(self.server, self.layout.base))
    }
}

/// Returns the page of the routes of the API.
pub(super) fn api_page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    let server = reading.request.server.as_deref().unwrap_or_default();
    page_text(&ApiPage { layout: reading.layout("api"), guide: reading.guide, server })
}
