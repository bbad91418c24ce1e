//! The start and the stop of the API.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use super::api_state::ApiState;
use super::auth::BrowserSessions;
use super::connections::{ConnectionPlaces, serve};
use super::line_places::LinePlaces;
use super::listener::Listener;
use super::metrics::NamespaceReader;
use super::route_guide::route_guide;
use super::router::PresentRoutes;
use super::stream::EventHub;
use crate::dashboard::DashboardView;
use crate::secrets::tokens::{TokenFile, TokenLocation};
use schedd::engine::{StatusView, WorkerDesks};
use schedd_core::config::ApiConfig;
use schedd_schedule::time::zone::Zone;
use schedd_store::Store;

/// The longest time for which a stop waits for answers that are under way.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// The parts of a node that is in Redis, for the API.
pub struct ApiNode {
    /// The store for requests, with a connection of its own.
    pub store: Store,
    /// The zone of times without an offset.
    pub host_zone: Zone,
    /// The status of the node, for `/readyz` and `/metrics`.
    pub status: StatusView,
    /// The place where workers ask the node for runs.
    pub workers: WorkerDesks,
}

/// The running API.
pub struct ApiServer {
    config: ApiConfig,
    tokens: TokenLocation,
    places: ConnectionPlaces,
    routes: Arc<PresentRoutes>,
    stop: CancellationToken,
    task: JoinHandle<()>,
    changes: TaskTracker,
}

impl ApiServer {
    /// Starts to listen. Until [`ApiServer::open`] is called, `/healthz` gets 200 and all other
    /// requests get 503. `tokens` is the file of the access tokens.
    ///
    /// Returns `None` if no address is configured. Fails with one line if the address cannot be used.
    pub async fn listen(config: ApiConfig, tokens: TokenLocation) -> anyhow::Result<Option<Self>> {
        let Some(address) = config.listen.clone() else { return Ok(None) };
        if let Some(reason) = config.exposure() {
            anyhow::bail!("[api] listen: {reason}");
        }
        // The file of tokens is read now, so that a faulty file stops the API at its start and not only
        // fails each request.
        let token_file = TokenFile::new(tokens.clone());
        token_file.tokens()?;
        let listener = Listener::bind(&address, &config).await?;
        info!(address = listener.address(), tokens = %token_file.path().display(), "The HTTP API listens.");
        let stop = CancellationToken::new();
        let routes = Arc::new(PresentRoutes::starting(&config.base_path));
        let places = ConnectionPlaces::of_this_process();
        let task = tokio::spawn(serve(listener, places.all, routes.clone(), stop.clone()));
        Ok(Some(Self { config, tokens, places, routes, stop, task, changes: TaskTracker::new() }))
    }

    /// Answers all requests from now on, for a node that is in Redis.
    pub fn open(&self, ApiNode { store, host_zone, status, workers }: ApiNode) {
        self.routes.open(&Arc::new(ApiState {
            store,
            config: self.config.clone(),
            tokens: Arc::new(TokenFile::new(self.tokens.clone())),
            sessions: BrowserSessions::default(),
            status,
            host_zone,
            streams: Arc::new(Semaphore::new(self.places.streams)),
            workers,
            polls: Arc::new(Semaphore::new(self.places.polls)),
            line_places: LinePlaces::default(),
            stop: self.stop.clone(),
            changes: self.changes.clone(),
            events: EventHub::new(),
            namespace: NamespaceReader::default(),
            dashboard: DashboardView::new(route_guide()),
        }));
        info!("The HTTP API answers all requests.");
    }

    /// Stops: no new connection is accepted, streams end, and other answers and changes that
    /// are under way may end.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.changes.close();
        let ends = async { tokio::join!(&mut self.task, self.changes.wait()) };
        if tokio::time::timeout(LAST_ANSWERS, ends).await.is_err() {
            self.task.abort();
        }
    }
}
