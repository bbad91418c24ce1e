//! The HTTP API of this process. If it cannot start, the node works without it, and the log, `doctor`
//! and `nodes` give the reason.

use tracing::warn;

use super::daemon_args::DaemonArgs;
use crate::api::{ApiNode, ApiServer};
use crate::secrets::tokens::TokenLocation;
use schedd::engine::NodeEngines;
use schedd_core::config::Config;
use schedd_schedule::time::zone::Zone;
use schedd_store::Store;

/// The HTTP API of this process.
pub(super) struct NodeApi {
    /// `None` if no address is configured, or if the API cannot start.
    server: Option<ApiServer>,
    /// The reason why the API cannot start.
    error: Option<String>,
}

impl NodeApi {
    /// Starts to listen if an address is configured. The API answers only probes until
    /// [`NodeApi::open`] is called, because Redis may be out of reach for long.
    pub(super) async fn listen(args: &DaemonArgs, config: &Config) -> Self {
        let mut config = config.api.clone();
        config.listen = args.api.clone().or(config.listen);
        let tokens = TokenLocation::of(
            args.tokens_file.clone(),
            config.tokens_file.clone(),
            crate::private_redis::state_dir().ok(),
        );
        match ApiServer::listen(config, tokens).await {
            Ok(server) => Self { server, error: None },
            Err(error) => {
                let error = format!("{error:#}");
                warn!("The HTTP API did not start, so this node works without it: {error}.");
                Self { server: None, error: Some(error) }
            }
        }
    }

    /// Answers all requests from now on.
    pub(super) fn open(&self, store: &Store, host_zone: &Zone, engine: &NodeEngines) {
        if let Some(error) = &self.error {
            engine.report_api_error(error.clone());
        }
        let Some(server) = &self.server else { return };
        match store.apart() {
            Ok(store) => {
                let (host_zone, status) = (host_zone.clone(), engine.status_view());
                let workers = engine.worker_desks();
                server.open(ApiNode { store, host_zone, status, workers });
            }
            Err(error) => {
                warn!("The HTTP API answers only probes: {error}.");
                engine.report_api_error(error.to_string());
            }
        }
    }

    /// Stops the API.
    pub(super) async fn stop(self) {
        if let Some(server) = self.server {
            server.stop().await;
        }
    }
}
