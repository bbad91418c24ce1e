//! The groups, and whose turn it is.

use askama::Template;

use crate::cli::embedded::CliFailure;
use crate::dashboard::documents::GroupDocument;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;

#[derive(Template)]
#[template(path = "groups.html")]
struct GroupsPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    groups: Vec<GroupDocument>,
}

/// Returns the page of the groups, and whose turn it is.
pub(in crate::dashboard) async fn groups_page(
    reading: &PageReading<'_>,
) -> Result<String, CliFailure> {
    let groups = reading.document(&["groups"]).await?;
    page_text(&GroupsPage { layout: reading.layout("groups"), clock: &reading.clock, groups })
}
