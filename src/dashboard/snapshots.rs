//! The pages that were made a moment ago, so that many tabs of one view cost one reading.
//!
//! Invariant: the documents of one view are read at most once in [`FRESH_FOR`], whatever the number
//! of requests, and only for a request.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha1_smol::Sha1;

use super::page_kind::PageKind;
use super::page_request::PageRequest;
use super::view_choices::ViewChoices;
use crate::cli::embedded::CliFailure;
use crate::secrets::tokens::TokenRole;

/// The time for which a snapshot is answered again.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// The maximum number of snapshots. The snapshot that was used longest ago makes room for a new one.
const MOST_SNAPSHOTS: usize = 64;
/// The beginning of the texts that change by themselves: distances from now.
const DISTANCE: &str = "<span class=\"rel\"";

/// A page, as it is sent.
#[derive(Debug)]
pub(crate) struct PageSnapshot {
    pub(crate) html: Arc<str>,
    /// The entity tag (RFC 9110). Pages that differ only in distances from now have one tag.
    pub(crate) etag: String,
    made_at: Instant,
}

impl PageSnapshot {
    fn new(html: String, made_at: Instant) -> Self {
        let mut hash = Sha1::new();
        let mut rest = html.as_str();
        while let Some(at) = rest.find(DISTANCE) {
            hash.update(&rest.as_bytes()[..at]);
            rest = &rest[at..];
            rest = &rest[rest.find("</span>").unwrap_or(rest.len())..];
        }
        hash.update(rest.as_bytes());
        Self { etag: format!("\"{}\"", hash.digest()), html: html.into(), made_at }
    }
}

/// The view of a page: two requests with equal views get one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ViewKey {
    kind: PageKind,
    address: String,
    role: TokenRole,
    choices: ViewChoices,
    server: Option<String>,
}

/// The place of the snapshot of a view. While a request makes the snapshot, the others wait.
type SnapshotPlace = Arc<tokio::sync::Mutex<Option<Arc<PageSnapshot>>>>;

/// The latest snapshots.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    places: Mutex<SnapshotPlaces>,
}

#[derive(Debug, Default)]
struct SnapshotPlaces {
    /// Each place with the number of its last use.
    by_view: HashMap<ViewKey, (u64, SnapshotPlace)>,
    uses: u64,
}

impl Snapshots {
    /// Returns the snapshot of a view, or makes it with `make`. A page that is not shared is made anew.
    pub(super) async fn of(
        &self,
        request: &PageRequest,
        make: impl Future<Output = Result<String, CliFailure>>,
    ) -> Result<Arc<PageSnapshot>, CliFailure> {
        if !request.kind.is_shared() {
            return Ok(Arc::new(PageSnapshot::new(make.await?, Instant::now())));
        }
        let place = self.place(request);
        let mut place = place.lock().await;
        if let Some(snapshot) = place.as_ref().filter(|known| known.made_at.elapsed() < FRESH_FOR) {
            return Ok(snapshot.clone());
        }
        let made_at = Instant::now();
        let snapshot = Arc::new(PageSnapshot::new(make.await?, made_at));
        *place = Some(snapshot.clone());
        Ok(snapshot)
    }

    fn place(&self, request: &PageRequest) -> SnapshotPlace {
        let key = ViewKey {
            kind: request.kind,
            address: request.address.clone(),
            role: request.role,
            choices: request.choices.clone(),
            server: request.server.clone(),
        };
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.uses += 1;
        let uses = places.uses;
        let is_full = places.by_view.len() >= MOST_SNAPSHOTS && !places.by_view.contains_key(&key);
        let oldest = places.by_view.iter().min_by_key(|(_, (used, _))| *used);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()).filter(|_| is_full) {
            places.by_view.remove(&oldest);
        }
        let entry = places.by_view.entry(key).or_default();
        entry.0 = uses;
        entry.1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etag(html: &str) -> String {
        PageSnapshot::new(html.to_owned(), Instant::now()).etag
    }

    #[test]
    fn only_a_distance_from_now_leaves_the_tag_as_it_is() {
        let page = |at: &str, distance: &str| {
            format!("<p>{at} <span class=\"rel\" data-at=\"1\">{distance}</span></p>")
        };
        assert_eq!(etag(&page("10:00", "in 5m")), etag(&page("10:00", "in 4m 59s")));
        assert_ne!(etag(&page("10:00", "in 5m")), etag(&page("10:01", "in 5m")));
    }
}
