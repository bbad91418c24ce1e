//! The answer to the request of a page.

use std::sync::Arc;

use super::page_clock::PageClock;
use super::page_request::{PageReading, PageRequest};
use super::pages;
use super::snapshots::{PageSnapshot, Snapshots};
use super::view_choices::ViewChoices;
use crate::cli::embedded::CliFailure;
use crate::store::Store;

/// The dashboard of a node.
#[derive(Debug)]
pub(crate) struct DashboardView {
    /// The path before all routes.
    base: String,
    snapshots: Snapshots,
}

/// The answer to the request of a page.
#[derive(Debug)]
pub(crate) enum PageAnswer {
    /// The page, or the page as it was a moment ago.
    Page(Arc<PageSnapshot>),
    /// The reader has this page.
    Unchanged(Arc<PageSnapshot>),
}

impl DashboardView {
    /// Returns the dashboard of an API with this path before all routes.
    pub(crate) fn new(base: &str) -> Self {
        Self { base: base.to_owned(), snapshots: Snapshots::default() }
    }

    /// Answers a request. `known` is the entity tag of the page that the reader has.
    pub(crate) async fn answer(
        &self,
        store: &Store,
        request: &PageRequest,
        known: Option<&str>,
    ) -> Result<PageAnswer, CliFailure> {
        let snapshot = self.snapshots.of(request, Box::pin(self.make(store, request))).await?;
        let is_known = known.is_some_and(|known| known == snapshot.etag);
        Ok(if is_known { PageAnswer::Unchanged(snapshot) } else { PageAnswer::Page(snapshot) })
    }

    async fn make(&self, store: &Store, request: &PageRequest) -> Result<String, CliFailure> {
        let clock = PageClock::new(store.now().await?, &request.choices);
        pages::page(&PageReading { store, request, base: &self.base, clock }).await
    }

    /// Returns the page for a request that was refused with this status. `address` is that of the
    /// refused page.
    pub(crate) fn refusal(
        &self,
        status: u16,
        title: &str,
        detail: &str,
        address: &str,
        choices: &ViewChoices,
    ) -> Result<String, CliFailure> {
        pages::refusal(&self.base, status, title, detail, address, choices)
    }
}
