//! The watch for changes of the namespace: while nothing has changed, no page is read again.
//!
//! A look at Redis is one round trip of five quick commands, to each shard of the namespace too. The watch looks only while pages are
//! asked for, and not more often than its caller wants. Pauses and other entries of audit logs come by a
//! subscription, which costs nothing and ends when no page has been asked for in [`UNUSED`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _};

use crate::cli::embedded::{CliFailure, MergedPlaces};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Store, ViewMark};

/// The time after which an unused subscription ends.
const UNUSED: Duration = Duration::from_secs(10);

/// The watch for changes.
#[derive(Debug, Default)]
pub(super) struct ChangeWatch {
    last: tokio::sync::Mutex<Option<LastLook>>,
    follower: Arc<Follower>,
    /// The number of changes by this API.
    own_changes: AtomicU64,
}

/// A look at Redis.
#[derive(Debug)]
struct LastLook {
    at: Instant,
    now: UnixMillis,
    /// The marks of the namespace and of its shards.
    marks: Vec<ViewMark>,
}

/// The state of the namespace at a look.
#[derive(Debug, Clone, Copy)]
pub(in crate::dashboard) struct SeenState {
    /// The number of changes that are known. While it stays equal, nothing has changed that lists
    /// of jobs and runs show.
    pub(in crate::dashboard) changes: u64,
    /// The time of Redis.
    pub(in crate::dashboard) now: UnixMillis,
}

/// The state that the watch shares with the task of its subscription.
#[derive(Debug, Default)]
struct Follower {
    /// The number of changes. Each value means another state of the namespace.
    changes: AtomicU64,
    is_subscribed: AtomicBool,
    last_asked: Mutex<Option<Instant>>,
}

impl Follower {
    fn count(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    fn last_asked(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.last_asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the entries of audit logs until the subscription breaks or nobody needs it.
    async fn follow(self: Arc<Self>, entries: impl Stream<Item = String>) {
        let mut entries = Box::pin(entries);
        loop {
            match tokio::time::timeout(UNUSED, entries.next()).await {
                Ok(Some(_)) => self.count(),
                Ok(None) => break,
                Err(_) => {}
            }
            if self.last_asked().is_none_or(|asked| asked.elapsed() > UNUSED) {
                break;
            }
        }
        self.is_subscribed.store(false, Ordering::SeqCst);
    }
}

impl ChangeWatch {
    /// Returns the state at a look that is at most `age` old, or at a new look.
    pub(super) async fn look(&self, store: &Store, age: Duration) -> Result<SeenState, CliFailure> {
        *self.follower.last_asked() = Some(Instant::now());
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.at.elapsed() < age) {
            return Ok(self.seen(last.now.saturating_add(last.at.elapsed())));
        }
        let places = MergedPlaces::of(store).await?;
        if !self.follower.is_subscribed.load(Ordering::SeqCst) {
            // Entries before the subscription were missed.
            self.follower.count();
            if let Ok(entries) = places.job_changes().await {
                self.follower.is_subscribed.store(true, Ordering::SeqCst);
                tokio::spawn(self.follower.clone().follow(entries));
            }
        }
        let about = match last.as_ref() {
            Some(last) => last.now.saturating_add(last.at.elapsed()),
            None => store.now().await?,
        };
        let at = Instant::now();
        let read = |store: Store| async move { store.read_view_mark(about).await };
        let (times, marks): (Vec<_>, Vec<_>) = places.each(read).await?.into_iter().unzip();
        let now = times.first().copied().unwrap_or(about);
        if last.as_ref().is_none_or(|last| last.marks != marks) {
            self.follower.count();
        }
        *last = Some(LastLook { at, now, marks });
        Ok(self.seen(now))
    }

    fn seen(&self, now: UnixMillis) -> SeenState {
        SeenState { changes: self.follower.changes.load(Ordering::SeqCst), now }
    }

    /// Returns the number of changes by this API.
    pub(super) fn own_changes(&self) -> u64 {
        self.own_changes.load(Ordering::SeqCst)
    }

    /// Counts a change by this API.
    pub(super) fn note_own_change(&self) {
        self.own_changes.fetch_add(1, Ordering::SeqCst);
    }
}
