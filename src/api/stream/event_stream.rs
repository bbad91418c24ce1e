//! A response of server-sent events (WHATWG HTML, section 9.2).

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream::unfold;
use tokio::sync::OwnedSemaphorePermit;

use crate::api::api_problem::ApiProblem;
use crate::api::api_state::{ApiState, MOST_STREAMS};

/// The time after which a stream without events sends a comment, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Takes a place for a stream. Fails (503) if all places are taken.
pub(in crate::api) fn stream_place(state: &ApiState) -> Result<OwnedSemaphorePermit, ApiProblem> {
    state.streams.clone().try_acquire_owned().map_err(|_| {
        ApiProblem::busy(
            format!("{MOST_STREAMS} streams are open, which is the most; try again later"),
            10,
        )
    })
}

/// Returns a response whose events come from `next`, until `next` returns `None`. The response holds
/// `place` as long.
pub(in crate::api) fn event_stream<S, F, Fut>(
    place: OwnedSemaphorePermit,
    start: S,
    next: F,
) -> Response
where
    S: Send + 'static,
    F: Fn(S) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Option<(String, S)>> + Send + 'static,
{
    let first = (Box::pin(next(start)), place, next);
    let events = unfold(first, |(mut coming, place, next)| async move {
        match tokio::time::timeout(KEEP_ALIVE, &mut coming).await {
            Err(_) => Some((Bytes::from_static(b": still here\n\n"), (coming, place, next))),
            Ok(None) => None,
            Ok(Some((event, rest))) => {
                let coming = Box::pin(next(rest));
                Some((Bytes::from(event), (coming, place, next)))
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
