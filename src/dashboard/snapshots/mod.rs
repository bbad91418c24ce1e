//! The pages that were made a moment ago, so that many tabs of one view cost one reading.
//!
//! A page that exists already is answered again without reading its documents:
//!
//! 1. if it was made less than [`FRESH_FOR`] ago, and nobody has changed anything by this API since;
//! 2. else, if nothing has changed in the namespace, for the lifetime of the page. A reader who opens
//!    the page gets what nodes wrote meanwhile, so its lifetime then is that of its kind;
//! 3. else, if a tab only asks for news, and the page was read less than a round ago. The tab asks
//!    again two seconds later. A round is as long as the shares of all open views together, so that
//!    each view has its turn. The share of a view is a multiple of the time that its reading takes.
//!
//! So tabs cost one look in two seconds while nothing changes. While something always changes, the
//! tabs of one view cost one reading a round, and all readings for tabs together take about a
//! fiftieth of the time. A reader who opens a page gets the present state.

mod change_watch;
mod page_snapshot;

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::page_kind::PageKind;
use super::page_request::PageRequest;
use super::view_choices::ViewChoices;
use crate::cli::embedded::CliFailure;
use crate::secrets::tokens::TokenRole;
use change_watch::ChangeWatch;
use schedd_store::Store;

pub(super) use change_watch::SeenState;
pub(super) use page_snapshot::MadePage;
pub(crate) use page_snapshot::PageSnapshot;

/// The time for which a page is answered again without a look for changes.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// The maximum age of a look for changes, for a tab that asks for news.
const LOOK_AGE: Duration = Duration::from_secs(2);
/// The time since the last question of its tabs for which a view counts as open.
const OPEN_FOR: Duration = Duration::from_secs(5);
/// The share of a view in a round, as a multiple of the time that its last reading took.
const REST: u32 = 50;
/// The longest share of a view.
const LONGEST_SHARE: Duration = Duration::from_secs(10);
/// The maximum number of snapshots. The snapshot that was used longest ago makes room for a new one.
const MOST_SNAPSHOTS: usize = 64;

/// The view of a page: two requests with equal views get one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ViewKey {
    kind: PageKind,
    base: String,
    address: String,
    role: TokenRole,
    choices: ViewChoices,
    server: Option<String>,
}

/// The place of the snapshot of a view. While a request makes the snapshot, the others wait.
#[derive(Debug, Default)]
struct SnapshotPlace {
    snapshot: tokio::sync::Mutex<Option<Arc<PageSnapshot>>>,
    /// The share of the view in a round, ms.
    share: AtomicU64,
}

impl SnapshotPlace {
    fn share(&self) -> Duration {
        Duration::from_millis(self.share.load(Ordering::Relaxed))
    }

    /// Sets the share after a reading of this page that took this time.
    fn set_share(&self, kind: PageKind, took: Duration) {
        let share = took.saturating_mul(REST).clamp(kind.least_share(), LONGEST_SHARE).as_millis();
        self.share.store(u64::try_from(share).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// The latest snapshots.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    places: Mutex<SnapshotPlaces>,
    watch: ChangeWatch,
}

#[derive(Debug, Default)]
struct SnapshotPlaces {
    by_view: HashMap<ViewKey, KnownView>,
    uses: u64,
}

/// A view that was used lately.
#[derive(Debug, Default)]
struct KnownView {
    place: Arc<SnapshotPlace>,
    /// The number of its last use.
    used: u64,
    /// The time at which a tab last asked for news.
    polled_at: Option<Instant>,
}

impl SnapshotPlaces {
    /// Returns the length of a round: the shares of all views that tabs show.
    fn round(&self, now: Instant) -> Duration {
        let is_open = |view: &KnownView| {
            view.polled_at.is_some_and(|at| now.saturating_duration_since(at) < OPEN_FOR)
        };
        self.by_view.values().filter(|view| is_open(view)).map(|view| view.place.share()).sum()
    }
}

impl Snapshots {
    /// Returns the snapshot of a view. If it is missing or out of date, `make` makes it from the state
    /// of the namespace. A page that is not shared is always made.
    pub(super) async fn of<F: Future<Output = Result<MadePage, CliFailure>>>(
        &self,
        store: &Store,
        request: &PageRequest,
        make: impl FnOnce(SeenState) -> F,
    ) -> Result<Arc<PageSnapshot>, CliFailure> {
        let own_changes = self.watch.own_changes();
        if !request.kind.is_shared() {
            let seen = self.watch.look(store, FRESH_FOR).await?;
            let made_at = Instant::now();
            let page = make(seen).await?;
            return Ok(Arc::new(PageSnapshot::new(page, made_at, seen.changes, own_changes)));
        }
        let (place, round) = self.place(request);
        let mut snapshot = place.snapshot.lock().await;
        let known = snapshot.as_ref().filter(|known| known.own_changes == own_changes);
        if let Some(known) = known.filter(|known| known.age() < FRESH_FOR) {
            return Ok(known.clone());
        }
        let age = if request.is_poll { LOOK_AGE } else { FRESH_FOR };
        let seen = self.watch.look(store, age).await?;
        let is_right = |known: &&Arc<PageSnapshot>| {
            let of_kind = if request.is_poll { Duration::MAX } else { request.kind.lifetime() };
            known.changes == seen.changes && known.age() < known.lifetime.min(of_kind)
        };
        if let Some(known) = known.filter(is_right) {
            return Ok(known.clone());
        }
        if let Some(known) = known.filter(|known| request.is_poll && known.age() < round) {
            return Ok(known.clone());
        }
        let made_at = Instant::now();
        let page = make(seen).await?;
        place.set_share(request.kind, made_at.elapsed());
        let fresh = Arc::new(PageSnapshot::new(page, made_at, seen.changes, own_changes));
        *snapshot = Some(fresh.clone());
        Ok(fresh)
    }

    /// Notes that somebody has changed something by this API, and will look at the result.
    pub(super) fn note_change(&self) {
        self.watch.note_own_change();
    }

    /// Returns the place of a view, and the length of a round.
    fn place(&self, request: &PageRequest) -> (Arc<SnapshotPlace>, Duration) {
        let key = ViewKey {
            kind: request.kind,
            base: request.base.clone(),
            address: request.address.clone(),
            role: request.role,
            choices: request.choices.clone(),
            server: request.server.clone(),
        };
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.uses += 1;
        let uses = places.uses;
        let is_full = places.by_view.len() >= MOST_SNAPSHOTS && !places.by_view.contains_key(&key);
        let oldest = places.by_view.iter().min_by_key(|(_, view)| view.used);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()).filter(|_| is_full) {
            places.by_view.remove(&oldest);
        }
        let now = Instant::now();
        let view = places.by_view.entry(key).or_default();
        view.used = uses;
        if request.is_poll {
            view.polled_at = Some(now);
        }
        let place = view.place.clone();
        (place, places.round(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(address: &str, is_poll: bool) -> PageRequest {
        PageRequest {
            kind: PageKind::Jobs,
            base: String::new(),
            address: address.to_owned(),
            target: None,
            parameters: Vec::new(),
            flags: Vec::new(),
            role: TokenRole::Viewer,
            choices: ViewChoices::default(),
            is_poll,
            server: None,
        }
    }

    #[test]
    fn a_round_has_the_shares_of_all_views_that_tabs_show() {
        let snapshots = Snapshots::default();
        let round = |address: &str, is_poll| {
            let (place, round) = snapshots.place(&request(address, is_poll));
            place.set_share(PageKind::Jobs, Duration::from_millis(20));
            round
        };
        let share = Duration::from_millis(20) * REST;
        assert_eq!(round("/jobs", false), Duration::ZERO, "nobody asks for news");
        for _ in 0..50 {
            assert_eq!(round("/jobs", true), share, "many tabs of one view are one view");
        }
        for number in 1..10 {
            // A view has a share after its first reading.
            assert_eq!(round(&format!("/jobs?q={number}"), true), share * number);
        }
        let places = snapshots.places.lock().unwrap();
        assert_eq!(places.round(Instant::now() + OPEN_FOR), Duration::ZERO, "all tabs were closed");
    }
}
