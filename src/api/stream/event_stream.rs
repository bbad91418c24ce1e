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
use crate::api::auth::{Caller, ReaderRight};

/// The time after which a stream without events sends a comment, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// A place among the open streams, which is free again when this value is dropped.
pub(in crate::api) struct StreamPlace {
    pub(in crate::api) _permit: OwnedSemaphorePermit,
    /// The right of the reader. Its end ends the stream.
    pub(in crate::api) right: ReaderRight,
    /// Cancelled when the API stops, which ends the stream.
    pub(in crate::api) stop: CancellationToken,
}

/// Takes a place for a stream to `caller`. Fails (503) if all places are taken.
pub(in crate::api) fn stream_place(
    state: &ApiState,
    caller: Option<&Caller>,
) -> Result<StreamPlace, ApiProblem> {
    let permit = state.streams.clone().try_acquire_owned().map_err(|_| {
        ApiProblem::busy("as many streams are open as this node allows; try again later", 10)
    })?;
    Ok(StreamPlace {
        _permit: permit,
        right: ReaderRight::of(state, caller),
        stop: state.stop.clone(),
    })
}

/// Returns the last event of a stream that ends before its reader has all events.
pub(in crate::api) fn dropped(reason: &str) -> String {
    let data = json!({"reason": reason});
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
    let first = Some((Box::pin(next(start)), place, next));
    let events = unfold(first, |stream| async move {
        let (mut coming, mut place, next) = stream?;
        let event = tokio::select! {
            () = place.stop.cancelled() => return None,
            event = tokio::time::timeout(KEEP_ALIVE, &mut coming) => event,
        };
        if !place.right.holds() {
            return Some((Bytes::from(dropped(ReaderRight::ENDED)), None));
        }
        match event {
            Err(_) => {
                let rest = Some((coming, place, next));
                Some((Bytes::from_static(b": still here\n\n"), rest))
            }
            Ok(None) => None,
            Ok(Some((event, rest))) => {
                let rest = Some((Box::pin(next(rest)), place, next));
                Some((Bytes::from(event), rest))
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
