//! The data that all requests share.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::auth::BrowserSessions;
use super::line_places::LinePlaces;
use super::metrics::NamespaceReader;
use super::stream::EventHub;
use crate::dashboard::DashboardView;
use crate::secrets::tokens::TokenFile;
use schedd::engine::{StatusView, WorkerDesks};
use schedd_core::config::ApiConfig;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::Store;

/// The maximum number of answers that go on without an end: events and followed logs.
pub(super) const MOST_STREAMS: usize = 1_000;
/// The maximum number of questions of workers that wait.
pub(super) const MOST_POLLS: usize = 10_000;

/// The data that all requests share.
pub(super) struct ApiState {
    /// A connection of the API's own, so that requests never delay the runs of the node.
    pub(super) store: Store,
    pub(super) config: ApiConfig,
    pub(super) tokens: Arc<TokenFile>,
    pub(super) sessions: BrowserSessions,
    pub(super) status: StatusView,
    pub(super) host_zone: Zone,
    /// The places for answers that go on without an end.
    pub(super) streams: Arc<Semaphore>,
    /// The changes under way, which go on although their senders hang up.
    pub(super) changes: TaskTracker,
    /// The place where workers ask for runs and report about them.
    pub(super) workers: WorkerDesks,
    /// The places for questions of workers that wait.
    pub(super) polls: Arc<Semaphore>,
    /// The places for requests with bodies of lines.
    pub(super) line_places: LinePlaces,
    /// Cancelled when the API stops.
    pub(super) stop: CancellationToken,
    pub(super) events: EventHub,
    /// The figures of the whole namespace for `/metrics`.
    pub(super) namespace: NamespaceReader,
    pub(super) dashboard: DashboardView,
}

/// Returns the time by the clock of this host, by which tokens and sessions end.
pub(super) fn host_now() -> UnixMillis {
    UnixMillis::from_timestamp(jiff::Timestamp::now()).unwrap_or(UnixMillis::EPOCH)
}
