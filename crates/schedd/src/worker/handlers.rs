//! The handlers of a worker by name. The types of their payloads and errors are known only here.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schedd_schedule::names::HandlerName;
use serde::de::DeserializeOwned;

use super::handler_failure::Failure;
use super::run_handle::Run;

/// A handler that reads its payload from JSON.
type AnyHandler<S> =
    Box<dyn Fn(&str, Run<S>) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync>;

/// The handlers of a worker by name.
pub(super) struct Handlers<S> {
    by_name: BTreeMap<HandlerName, AnyHandler<S>>,
}

impl<S: Send + Sync + 'static> Handlers<S> {
    pub(super) fn none() -> Self {
        Self { by_name: BTreeMap::new() }
    }

    /// Adds a handler. A later handler of a name replaces an earlier one.
    pub(super) fn add<P, F, W>(&mut self, name: HandlerName, handler: F)
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(P, Run<S>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let handler: AnyHandler<S> = Box::new(move |payload, run| match decoded::<P>(payload) {
            Ok(payload) => Box::pin(handler(payload, run)),
            Err(failure) => Box::pin(std::future::ready(Err(failure))),
        });
        self.by_name.insert(name, handler);
    }

    /// Returns the handlers for a worker with another state. They do not see that state.
    pub(super) fn with_state<T: Send + Sync + 'static>(self, state: &Arc<S>) -> Handlers<T> {
        let wrap = |(name, handler): (HandlerName, AnyHandler<S>)| {
            let state = state.clone();
            let wrapped: AnyHandler<T> =
                Box::new(move |payload, run| handler(payload, run.with_state(state.clone())));
            (name, wrapped)
        };
        Handlers { by_name: self.by_name.into_iter().map(wrap).collect() }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &HandlerName> {
        self.by_name.keys()
    }

    /// Returns the work of the handler `name`. Returns `None` if there is no such handler.
    pub(super) fn work(
        &self,
        name: &HandlerName,
        payload: &str,
        run: Run<S>,
    ) -> Option<BoxFuture<'static, Result<(), Failure>>> {
        self.by_name.get(name).map(|handler| handler(payload, run))
    }
}

/// Returns the payload as the type that the handler takes. The failure names the place of the
/// value that does not fit.
fn decoded<P: DeserializeOwned>(payload: &str) -> Result<P, Failure> {
    let mut reader = serde_json::Deserializer::from_str(payload);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!(" at {path}") };
        format!("the payload does not fit the handler{place}: {}", error.into_inner()).into()
    })
}
