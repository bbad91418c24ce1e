//! The answer to the request of a page.

use std::sync::Arc;

use super::actions::{action_page, result_page};
use super::api_guide::ApiGuide;
use super::layout::Layout;
use super::page_clock::PageClock;
use super::page_request::{PageReading, PageRequest};
use super::pages;
use super::snapshots::{PageSnapshot, Snapshots};
use super::view_choices::ViewChoices;
use crate::cli::embedded::CliFailure;
use crate::domain::time::unix_millis::UnixMillis;
use crate::secrets::tokens::TokenRole;
use crate::store::Store;

/// The dashboard of a node.
#[derive(Debug)]
pub(crate) struct DashboardView {
    /// The path before all routes.
    base: String,
    guide: ApiGuide,
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
    pub(crate) fn new(base: &str, guide: ApiGuide) -> Self {
        Self { base: base.to_owned(), guide, snapshots: Snapshots::default() }
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
        pages::page(&PageReading { store, request, base: &self.base, guide: &self.guide, clock })
            .await
    }

    /// Returns the page that asks for an action again, because the form was refused with `why`. The
    /// page has what the form had, also while Redis is out of reach.
    pub(crate) async fn ask_again(
        &self,
        store: &Store,
        request: &PageRequest,
        why: &str,
    ) -> Result<String, CliFailure> {
        let here =
            || UnixMillis::from_timestamp(jiff::Timestamp::now()).unwrap_or(UnixMillis::EPOCH);
        let now = store.now().await.unwrap_or_else(|_| here());
        let clock = PageClock::new(now, &request.choices);
        let reading = PageReading { store, request, base: &self.base, guide: &self.guide, clock };
        action_page(&reading, Some(why)).await
    }

    /// Returns the page of the result of an action, or of an action that is under way.
    pub(crate) fn result(
        &self,
        address: &str,
        role: TokenRole,
        choices: &ViewChoices,
        kept: Option<&str>,
    ) -> Result<String, CliFailure> {
        let base = &self.base;
        let layout =
            Layout { base, address, section: "result", role: Some(role), choices, now: None };
        result_page(layout, kept)
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
