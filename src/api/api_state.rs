//! The data that all requests share.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::auth::BrowserSessions;
use super::metrics::NamespaceReader;
use super::stream::EventHub;
use crate::config::ApiConfig;
use crate::dashboard::DashboardView;
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::Zone;
use crate::engine::StatusView;
use crate::secrets::tokens::TokenFile;
use crate::store::Store;

/// The maximum number of answers that go on without an end: events and followed logs.
pub(super) const MOST_STREAMS: usize = 1_000;

/// The data that all requests share.
pub(super) struct ApiState {
    /// A connection of the API's own, so that requests never delay the runs of the node.
    pub(super) store: Store,
    pub(super) config: ApiConfig,
    pub(super) tokens: TokenFile,
    pub(super) sessions: BrowserSessions,
    pub(super) status: StatusView,
    pub(super) host_zone: Zone,
    /// The places for answers that go on without an end.
    pub(super) streams: Arc<Semaphore>,
    pub(super) events: EventHub,
    /// The figures of the whole namespace for `/metrics`.
    pub(super) namespace: NamespaceReader,
    pub(super) dashboard: DashboardView,
}

/// Returns the time by the clock of this host, by which tokens and sessions end.
pub(super) fn host_now() -> UnixMillis {
    UnixMillis::from_timestamp(jiff::Timestamp::now()).unwrap_or(UnixMillis::EPOCH)
}
