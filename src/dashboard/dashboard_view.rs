//! The answer to the request of a page.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::actions::{action_page, result_page};
use super::api_guide::ApiGuide;
use super::layout::Layout;
use super::page_clock::PageClock;
use super::page_request::{PageReading, PageRequest, as_millis};
use super::pages;
use super::report_keeper::ReportKeeper;
use super::snapshots::{MadePage, PageSnapshot, SeenState, Snapshots};
use super::view_choices::ViewChoices;
use crate::cli::embedded::CliFailure;
use crate::secrets::tokens::TokenRole;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::Store;

/// The dashboard of a node.
#[derive(Debug)]
pub(crate) struct DashboardView {
    guide: ApiGuide,
    snapshots: Snapshots,
    reports: ReportKeeper,
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
    /// Returns the dashboard of an API with these routes.
    pub(crate) fn new(guide: ApiGuide) -> Self {
        Self { guide, snapshots: Snapshots::default(), reports: ReportKeeper::default() }
    }

    /// Answers a request. `known` is the entity tag of the page that the reader has.
    pub(crate) async fn answer(
        &self,
        store: &Store,
        request: &PageRequest,
        known: Option<&str>,
    ) -> Result<PageAnswer, CliFailure> {
        let make = |seen| Box::pin(self.make(store, request, seen));
        let snapshot = self.snapshots.of(store, request, make).await?;
        let is_known = known.is_some_and(|known| snapshot.is_known(known));
        Ok(if is_known { PageAnswer::Unchanged(snapshot) } else { PageAnswer::Page(snapshot) })
    }

    async fn make(
        &self,
        store: &Store,
        request: &PageRequest,
        seen: SeenState,
    ) -> Result<MadePage, CliFailure> {
        let reading = self.reading(store, request, seen);
        let html = pages::page(&reading).await?;
        Ok(MadePage { html, lifetime: reading.lifetime() })
    }

    fn reading<'r>(
        &'r self,
        store: &'r Store,
        request: &'r PageRequest,
        seen: SeenState,
    ) -> PageReading<'r> {
        PageReading {
            store,
            request,
            base: &request.base,
            guide: &self.guide,
            clock: PageClock::new(seen.now, &request.choices),
            seen,
            reports: &self.reports,
            lifetime: AtomicU64::new(as_millis(request.kind.lifetime())),
        }
    }

    /// Returns the keeper of the last report of `doctor`.
    pub(crate) fn reports(&self) -> &ReportKeeper {
        &self.reports
    }

    /// Notes that somebody has changed something by the API, so that the next page shows it.
    pub(crate) fn note_change(&self) {
        self.snapshots.note_change();
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
        let reading = self.reading(store, request, SeenState { changes: 0, now });
        action_page(&reading, Some(why)).await
    }

    /// Returns the page of the result of an action, or of an action that is under way.
    pub(crate) fn result(
        base: &str,
        address: &str,
        role: TokenRole,
        choices: &ViewChoices,
        kept: Option<&str>,
    ) -> Result<String, CliFailure> {
        let layout =
            Layout { base, address, section: "result", role: Some(role), choices, now: None };
        result_page(layout, kept)
    }

    /// Returns the page for a request that was refused with this status. `address` is that of the
    /// refused page, and `base` the path before all routes.
    pub(crate) fn refusal(
        base: &str,
        status: u16,
        title: &str,
        detail: &str,
        address: &str,
        choices: &ViewChoices,
    ) -> Result<String, CliFailure> {
        pages::refusal(base, status, title, detail, address, choices)
    }
}
