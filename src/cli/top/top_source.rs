//! The source of the data of `top`: a Redis, or the API of a schedd.
//!
//! The schedd of the API runs `top` with a hidden flag. So the same code reads the data and carries
//! out the actions in both cases.

use anyhow::Context as _;
use serde::Serialize;

use super::top_actions;
use super::top_data;
use super::top_lists::TopData;
use super::top_model::{TopAction, TopRequest};
use crate::cli::embedded::remote_verb::RemoteVerb;
use crate::cli::failure::CliFailure;
use crate::cli::remote::api_client::ApiClient;
use crate::cli::render::Console;
use schedd_store::Store;

/// The source of the data of `top`, which also carries out its actions.
pub(crate) struct TopSource {
    place: TopPlace,
    /// The form of the texts of details.
    form: Console,
}

/// The place where the data is.
enum TopPlace {
    Redis(Store),
    Api(ApiClient),
}

impl TopSource {
    /// Returns the source that reads from a Redis.
    pub(super) fn of_redis(store: Store, console: &Console) -> Self {
        Self { place: TopPlace::Redis(store), form: console.plain_page() }
    }

    /// Returns the source that asks an API.
    pub(crate) fn of_api(client: ApiClient, console: &Console) -> Self {
        Self { place: TopPlace::Api(client), form: console.plain_page() }
    }

    /// Returns the place of the data as words for the head of the screen.
    pub(super) fn words(&self) -> String {
        match &self.place {
            TopPlace::Redis(store) => {
                format!("namespace {} at {}", store.namespace(), store.address())
            }
            TopPlace::Api(client) => format!("API at {}", client.address()),
        }
    }

    /// Reads the data that the screen shows.
    pub(super) async fn read(&self, request: &TopRequest) -> Result<TopData, CliFailure> {
        match &self.place {
            TopPlace::Redis(store) => {
                top_data::read(store, request, &mut self.form.plain_page()).await
            }
            TopPlace::Api(client) => {
                let answer = self.call(client, "--data", request).await?;
                serde_json::from_slice(&answer).map_err(|error| {
                    CliFailure::Failed(format!(
                        "the API at {} has another version of top: {error}",
                        client.address()
                    ))
                })
            }
        }
    }

    /// Carries out an action. Returns a line about the outcome.
    pub(super) async fn carry_out(&self, action: &TopAction) -> Result<String, CliFailure> {
        match &self.place {
            TopPlace::Redis(store) => top_actions::carry_out(store, action).await,
            TopPlace::Api(client) => {
                let answer = self.call(client, "--act", action).await?;
                Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
            }
        }
    }

    /// Has the schedd of an API run `top` with a hidden flag. Returns the output.
    async fn call(
        &self,
        client: &ApiClient,
        flag: &str,
        value: &impl Serialize,
    ) -> Result<Vec<u8>, CliFailure> {
        let json = serde_json::to_string(value).context("the request cannot be written")?;
        let words = vec!["top".to_owned(), format!("{flag}={json}")];
        client.call(&RemoteVerb::on(&self.form, words)).await
    }
}
