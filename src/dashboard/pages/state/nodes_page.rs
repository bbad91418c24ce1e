//! The nodes.

use askama::Template;

use crate::cli::embedded::CliFailure;
use crate::dashboard::badge::Badge;
use crate::dashboard::documents::NodeDocument;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    nodes: Vec<NodeDocument>,
}

/// Returns the page of the nodes.
pub(in crate::dashboard) async fn nodes_page(
    reading: &PageReading<'_>,
) -> Result<String, CliFailure> {
    let nodes = reading.document(&["nodes"]).await?;
    page_text(&NodesPage { layout: reading.layout("nodes"), clock: &reading.clock, nodes })
}
