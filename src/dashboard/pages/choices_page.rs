//! The page of the reader's choices, with the names of all zones.

use askama::Template;

use crate::cli::embedded::CliFailure;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;
use crate::dashboard::view_choices::local_address;
use schedd_schedule::time::zone;

#[derive(Template)]
#[template(path = "choices.html")]
struct ChoicesPage<'r> {
    layout: Layout<'r>,
    /// The page to which the form leads.
    back: &'r str,
    names: Vec<String>,
}

impl ChoicesPage<'_> {
    fn is_own(&self, name: &str) -> bool {
        self.layout.choices.own_zone.as_deref() == Some(name)
    }
}

/// Returns the page of the reader's choices.
pub(super) fn choices_page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    let mut names = zone::names();
    names.sort_unstable();
    let back = local_address(reading.request.parameter("back"));
    // The page leads back to the page before it, also by its own links.
    let layout = Layout { address: back, ..reading.layout("choices") };
    page_text(&ChoicesPage { layout, back, names })
}
