//! `/healthz` and `/readyz`: this process lives, and this node can execute runs, for load balancers
//! and Kubernetes.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::api_state::ApiState;
use super::route::json_response;

/// The time within which Redis must answer.
const REDIS_TIME: Duration = Duration::from_secs(2);
/// The reason why a node that starts executes no runs.
pub(super) const STARTING: &str = "schedd starts, and waits until Redis answers";

/// Answers 200.
pub(super) fn alive() -> Response {
    json_response(StatusCode::OK, &json!({"status": "ok"}))
}

/// Answers 503, because the node has not registered itself in Redis yet.
pub(super) fn starting() -> Response {
    readiness(Some(STARTING))
}

/// Answers 200 if Redis answers and the node claims runs, else 503 with the reason.
pub(super) async fn ready(state: &ApiState) -> Response {
    let redis = match tokio::time::timeout(REDIS_TIME, state.store.now()).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("Redis at {} did not answer within 2 s", state.store.address())),
    };
    readiness(redis.or_else(|| state.status.why_no_claims()).as_deref())
}

fn readiness(reason: Option<&str>) -> Response {
    let (code, word) = match &reason {
        None => (StatusCode::OK, "ready"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "not_ready"),
    };
    json_response(code, &json!({"status": word, "reason": reason}))
}
