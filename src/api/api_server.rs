//! The start and the stop of the API.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::api_state::{ApiState, MOST_STREAMS};
use super::auth::BrowserSessions;
use super::connections::serve;
use super::listener::Listener;
use super::metrics::NamespaceReader;
use super::router::router;
use super::stream::EventHub;
use crate::config::ApiConfig;
use crate::dashboard::DashboardView;
use crate::domain::time::zone::Zone;
use crate::engine::StatusView;
use crate::secrets::tokens::TokenFile;
use crate::store::Store;

/// The longest time for which a stop waits for answers that are under way.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// The parts of its process that the API uses.
pub struct ApiSettings {
    /// The settings of `[api]` in the jobs file. An address given by a flag or a variable replaces
    /// `listen`.
    pub config: ApiConfig,
    /// The file of the access tokens.
    pub tokens: PathBuf,
    /// The store for requests, with a connection of its own.
    pub store: Store,
    /// The zone of times without an offset.
    pub host_zone: Zone,
    /// The status of the node, for `/readyz` and `/metrics`.
    pub status: StatusView,
}

/// The running API.
pub struct ApiServer {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl ApiServer {
    /// Starts to answer requests. Returns `None` if no address is configured. Fails with one line if
    /// the address cannot be used.
    pub async fn start(settings: ApiSettings) -> anyhow::Result<Option<Self>> {
        let Some(address) = settings.config.listen.clone() else { return Ok(None) };
        if let Some(reason) = settings.config.exposure() {
            anyhow::bail!("[api] listen: {reason}");
        }
        let tokens = TokenFile::new(settings.tokens);
        // The file of tokens is read now, so that a faulty file stops the API at its start and not only
        // fails each request.
        tokens.tokens()?;
        let listener = Listener::bind(&address, &settings.config).await?;
        info!(address = listener.address(), tokens = %tokens.path().display(), "The HTTP API listens.");
        let dashboard = DashboardView::new(&settings.config.base_path);
        let state = Arc::new(ApiState {
            store: settings.store,
            config: settings.config,
            tokens,
            sessions: BrowserSessions::default(),
            status: settings.status,
            host_zone: settings.host_zone,
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            events: EventHub::new(),
            namespace: NamespaceReader::default(),
            dashboard,
        });
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, router(&state), stop.clone()));
        Ok(Some(Self { stop, task }))
    }

    /// Stops: no new connection is accepted, and answers that are under way may end.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if tokio::time::timeout(LAST_ANSWERS, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}
