//! A request of a page, and what its page is made from.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::api_guide::ApiGuide;
use super::documents::verb_document::document_of;
use super::layout::Layout;
use super::page_clock::PageClock;
use super::page_kind::PageKind;
use super::report_keeper::ReportKeeper;
use super::snapshots::SeenState;
use super::view_choices::ViewChoices;
use crate::cli::embedded::{CliFailure, run_in_zone};
use crate::secrets::tokens::TokenRole;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::Store;

/// A request of a page.
#[derive(Debug, Clone)]
pub(crate) struct PageRequest {
    pub(crate) kind: PageKind,
    /// The path before all routes, as the browser sees it.
    pub(crate) base: String,
    /// The path and the query, without the path before all routes.
    pub(crate) address: String,
    /// The job or the run in the path.
    pub(crate) target: Option<String>,
    /// The parameters in the query, by name. None is empty.
    pub(crate) parameters: Vec<(String, String)>,
    /// The flags of the verb for which these parameters stand.
    pub(crate) flags: Vec<String>,
    pub(crate) role: TokenRole,
    pub(crate) choices: ViewChoices,
    /// True if an open page asks for news, and false if a reader opens the page.
    pub(crate) is_poll: bool,
    /// The words with which `curl` reaches the API. `None` for pages that do not show them.
    pub(crate) server: Option<String>,
}

impl PageRequest {
    /// Returns a parameter, or an empty text if it is missing.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Returns all values of a parameter.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let values = self.parameters.iter().filter(|(known, _)| known == name);
        values.map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the pattern for names in the parameter `q`: `q` anywhere in the name, or `q` itself if
    /// it has a `*` or `?`.
    pub(super) fn name_pattern(&self) -> Option<String> {
        let q = self.parameter("q");
        let is_pattern = q.contains(['*', '?']);
        let pattern = if is_pattern { q.to_owned() } else { format!("*{q}*") };
        Some(pattern).filter(|_| !q.is_empty())
    }
}

/// Returns a duration in whole milliseconds.
pub(super) fn as_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The reading of one page: the request, and the store from which the documents come.
pub(super) struct PageReading<'r> {
    pub(super) store: &'r Store,
    pub(super) request: &'r PageRequest,
    /// The path before all routes.
    pub(super) base: &'r str,
    pub(super) guide: &'r ApiGuide,
    pub(super) clock: PageClock,
    /// The state of the namespace when the reading began.
    pub(super) seen: SeenState,
    pub(super) reports: &'r ReportKeeper,
    /// The time for which the page stays right while nothing changes in the namespace, ms.
    pub(super) lifetime: AtomicU64,
}

impl<'r> PageReading<'r> {
    /// Returns the frame of a page in the section with this path.
    pub(super) fn layout(&self, section: &'static str) -> Layout<'r> {
        Layout {
            base: self.base,
            address: &self.request.address,
            section,
            role: Some(self.request.role),
            choices: &self.request.choices,
            now: Some(self.clock.now()),
        }
    }

    /// Does `read` as for a user in the zone that the forms of the page name. A typed time without a
    /// zone is one of this zone.
    pub(super) async fn in_zone<F: Future>(&self, read: F) -> F::Output {
        run_in_zone(self.clock.zone().name().as_str(), read).await
    }

    /// Notes that the page has a part that changes by itself, such as output that grows.
    pub(super) fn note_moving(&self) {
        /// The time between two requests of an open page.
        const POLL: Duration = Duration::from_secs(2);
        self.lifetime.fetch_min(as_millis(POLL), Ordering::Relaxed);
    }

    /// Notes that nothing on the page changes by itself before the time `at`; `None` if never.
    pub(super) fn note_right_until(&self, at: Option<UnixMillis>) {
        /// The longest lifetime. Facts that nodes write about themselves may then be that old.
        const LONGEST: Duration = Duration::from_secs(600);
        let left = at.map_or(LONGEST, |at| at.since(self.clock.instant()).min(LONGEST));
        self.lifetime.fetch_max(as_millis(left), Ordering::Relaxed);
    }

    /// Returns the time for which the page stays right while nothing changes in the namespace.
    pub(super) fn lifetime(&self) -> Duration {
        Duration::from_millis(self.lifetime.load(Ordering::Relaxed))
    }

    /// Returns the document of a verb, as the API answers it to the same caller.
    pub(super) async fn document<T: DeserializeOwned>(
        &self,
        words: &[&str],
    ) -> Result<T, CliFailure> {
        document_of(self.store, words, self.request.role == TokenRole::Viewer).await
    }
}
