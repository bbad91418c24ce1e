//! The answer to `GET /metrics`.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use super::metric_family::metrics_text;
use super::namespace_families::namespace_families;
use super::node_families::node_families;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;

/// The type of the answer: `OpenMetrics` text.
pub(in crate::api) const CONTENT_TYPE: &str =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers with the figures of this node and of the whole namespace.
pub(in crate::api) async fn metrics(state: &ApiState) -> Result<Response, ApiProblem> {
    let namespace = state.namespace.figures(&state.store, &state.status.metrics_config()).await;
    let mut families = node_families(&state.status.figures(), state.store.namespace());
    families.extend(namespace_families(namespace.as_deref()));
    let text = metrics_text(families).map_err(|error| {
        let detail = format!("the metrics cannot be written: {error}");
        ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", detail)
    })?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    Ok(response)
}
