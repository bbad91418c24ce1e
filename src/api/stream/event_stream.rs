//! A response of server-sent events (WHATWG HTML, section 9.2).

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;

/// The time after which a stream without events sends a comment, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A place among the open streams, which is free again when this value is dropped.
pub(in crate::api) struct StreamPlace {
    pub(in crate::api) permit: OwnedSemaphorePermit,
    /// Cancelled when the API stops, which ends the stream.
    pub(in crate::api) stop: CancellationToken,
}

/// Takes a place for a stream. Fails (503) if all places are taken.
pub(in crate::api) fn stream_place(state: &ApiState) -> Result<StreamPlace, ApiProblem> {
    let permit = state.streams.clone().try_acquire_owned().map_err(|_| {
        ApiProblem::busy("as many streams are open as this node allows; try again later", 10)
    })?;
    Ok(StreamPlace { permit, stop: state.stop.clone() })
}

/// Returns the last event for a reader that was too slow. `advice` says how to get the rest.
pub(in crate::api) fn dropped(advice: &str) -> String {
    let data = json!({"reason": format!("this connection was too slow; {advice}")});
    format!("event: dropped\ndata: {data}\n\n")
}

/// Returns a response whose events come from `next`, until `next` returns `None` or the API stops.
/// The response holds `place` as long.
pub(in crate::api) fn event_stream<S, F, Fut>(place: StreamPlace, start: S, next: F) -> Response
where
    S: Send + 'static,
    F: Fn(S) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Option<(String, S)>> + Send + 'static,
{
    let StreamPlace { permit, stop } = place;
    let first = (Box::pin(next(start)), permit, stop, next);
    let events = unfold(first, |(mut coming, permit, stop, next)| async move {
        let event = tokio::select! {
            () = stop.cancelled() => return None,
            event = tokio::time::timeout(KEEP_ALIVE, &mut coming) => event,
        };
        match event {
            Err(_) => Some((Bytes::from_static(b": still here\n\n"), (coming, permit, stop, next))),
            Ok(None) => None,
            Ok(Some((event, rest))) => {
                let coming = Box::pin(next(rest));
                Some((Bytes::from(event), (coming, permit, stop, next)))
            }
        }
    });
    let events = futures_util::StreamExt::map(events, Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A proxy such as nginx would else keep events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
