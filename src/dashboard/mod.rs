//! Layer 4: the dashboard, pages for a browser.
//!
//! A page reads the documents of the API, the same as `schedctl --json` prints them, and writes them
//! into a template. So a page shows nothing that the API does not answer to the same caller. The
//! API serves the pages: each page is one row of its table of routes.
//!
//! A page is one file in `pages`, one template in `templates`, one [`PageKind`] and one row of the
//! table of routes (`api/route/route_table.rs`).
//!
//! - `dashboard_view`: the answer to a request, from a snapshot or from a new reading
//! - `snapshots`: the pages that were made a moment ago, shared by all tabs until something changes
//! - `page_request`, `view_choices`: the request, and the choices of its reader
//! - `actions`: what operators may do, with the page that asks before
//! - `pages`: one file for each page; `documents`: the fields that pages read; `charts`: drawings
//! - `report_keeper`: the last report of `doctor`, because a check takes long
//! - `gzip`: pages and assets in compressed form
//! - `api_guide`: the routes of the API, as a page shows them
//! - `layout`, `page_text`, `page_clock`, `badge`, `shown_text`, `shown_output`,
//!   `page_link`: the parts of all pages
//! - `assets`: the stylesheet, the scripts and the icon
//!
//! # Security
//!
//! Templates escape each value. Each text of a document is a [`shown_text::ShownText`], in which no
//! character controls the browser. No page has a script or a style of its own, so the content
//! security policy forbids both.

mod actions;
mod api_guide;
mod assets;
mod badge;
mod charts;
mod dashboard_view;
mod documents;
mod gzip;
mod layout;
mod page_clock;
mod page_kind;
mod page_link;
mod page_request;
mod page_text;
mod pages;
mod report_keeper;
mod shown_output;
mod shown_text;
mod snapshots;
mod view_choices;

pub(crate) use actions::carry_out;
pub(crate) use api_guide::{ApiGuide, GuideParameter, GuideRoute};
pub(crate) use assets::asset_named;
pub(crate) use dashboard_view::{DashboardView, PageAnswer};
pub(crate) use page_kind::PageKind;
pub(crate) use page_request::PageRequest;
pub(crate) use snapshots::PageSnapshot;
pub(crate) use view_choices::{ViewChoices, local_address};
