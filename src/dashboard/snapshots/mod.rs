//! The pages that were made a moment ago, so that many tabs of one view cost one reading.
//!
//! A page that exists already is answered again without reading its documents:
//!
//! 1. if it was made less than [`FRESH_FOR`] ago, and nobody has changed anything by this API since;
//! 2. else, if nothing has changed in the namespace, for the lifetime of the page;
//! 3. else, if a tab only asks for news, and all tabs together have used up their readings
//!    (`poll_budget`). The tab asks again two seconds later.
//!
//! So tabs cost one look in two seconds while nothing changes, and a bounded number of readings while
//! something always changes. A reader who opens a page gets the present state.

mod change_watch;
mod page_snapshot;
mod poll_budget;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::page_kind::PageKind;
use super::page_request::PageRequest;
use super::view_choices::ViewChoices;
use crate::cli::embedded::CliFailure;
use crate::secrets::tokens::TokenRole;
use change_watch::{ChangeWatch, SeenState};
use poll_budget::PollBudget;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::Store;

pub(super) use page_snapshot::MadePage;
pub(crate) use page_snapshot::PageSnapshot;

/// The time for which a page is answered again without a look for changes.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// The maximum age of a look for changes, for a tab that asks for news.
const LOOK_AGE: Duration = Duration::from_secs(2);
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
type SnapshotPlace = Arc<tokio::sync::Mutex<Option<Arc<PageSnapshot>>>>;

/// The latest snapshots.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    places: Mutex<SnapshotPlaces>,
    watch: ChangeWatch,
    budget: PollBudget,
}

#[derive(Debug, Default)]
struct SnapshotPlaces {
    /// Each place with the number of its last use.
    by_view: HashMap<ViewKey, (u64, SnapshotPlace)>,
    uses: u64,
}

impl Snapshots {
    /// Returns the snapshot of a view, or makes it with `make` from the time of Redis. A page that is
    /// not shared is made anew.
    pub(super) async fn of<F: Future<Output = Result<MadePage, CliFailure>>>(
        &self,
        store: &Store,
        request: &PageRequest,
        make: impl FnOnce(UnixMillis) -> F,
    ) -> Result<Arc<PageSnapshot>, CliFailure> {
        let own_changes = self.watch.own_changes();
        if !request.kind.is_shared() {
            let SeenState { changes, now } = self.watch.look(store, FRESH_FOR).await?;
            let made_at = Instant::now();
            let page = make(now).await?;
            return Ok(Arc::new(PageSnapshot::new(page, made_at, changes, own_changes)));
        }
        let place = self.place(request);
        let mut place = place.lock().await;
        let known = place.as_ref().filter(|known| known.own_changes == own_changes);
        if let Some(known) = known.filter(|known| known.age() < FRESH_FOR) {
            return Ok(known.clone());
        }
        let age = if request.is_poll { LOOK_AGE } else { FRESH_FOR };
        let SeenState { changes, now } = self.watch.look(store, age).await?;
        let is_right =
            |known: &&Arc<PageSnapshot>| known.changes == changes && known.age() < known.lifetime;
        if let Some(known) = known.filter(is_right) {
            return Ok(known.clone());
        }
        if let Some(known) = known.filter(|_| request.is_poll && !self.budget.take()) {
            return Ok(known.clone());
        }
        let made_at = Instant::now();
        let page = make(now).await?;
        let snapshot = Arc::new(PageSnapshot::new(page, made_at, changes, own_changes));
        *place = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// Notes that somebody has changed something by this API, and will look at the result.
    pub(super) fn note_change(&self) {
        self.watch.note_own_change();
    }

    fn place(&self, request: &PageRequest) -> SnapshotPlace {
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
        let oldest = places.by_view.iter().min_by_key(|(_, (used, _))| *used);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()).filter(|_| is_full) {
            places.by_view.remove(&oldest);
        }
        let entry = places.by_view.entry(key).or_default();
        entry.0 = uses;
        entry.1.clone()
    }
}
