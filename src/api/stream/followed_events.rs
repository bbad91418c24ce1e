//! `GET /v1/events`: what happens in the namespace.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;
use tokio::sync::broadcast;

use super::event_hub::{ApiEvent, ended_runs, settled_until};
use super::event_stream::{dropped, event_stream, stream_place};
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::auth::Caller;
use crate::cli::embedded::MergedPlaces;
use crate::cli::embedded::page_cursor::read_cursor;

/// The maximum number of ended runs that are sent again for `Last-Event-ID`.
const SENT_AGAIN: usize = 1_000;

/// Answers with the events from now on. With the header `Last-Event-ID`, the ended runs since that
/// event come first, as far as the history has them.
pub(in crate::api) async fn follow_events(
    state: &ApiState,
    caller: Option<&Caller>,
    headers: &HeaderMap,
) -> Result<Response, ApiProblem> {
    let place = stream_place(state, caller)?;
    let mut receiver = state.events.follow(&state.store).await;
    let mut earlier = VecDeque::new();
    earlier.push_back(Arc::from(": the events of this namespace\n\n"));
    let mut until = None;
    if let Some(last) = headers.get("last-event-id") {
        let last = last.to_str().ok().and_then(read_cursor).filter(|(word, _)| word == "event");
        let (_, last) = last.ok_or_else(|| {
            ApiProblem::bad_request("Last-Event-ID: found a text that is no id of an event, wanted the id of the last event")
        })?;
        let places = MergedPlaces::of(&state.store).await?;
        // The hub sends the runs that end later. Among them are runs with lower ids in the same
        // millisecond.
        let settled = settled_until(&places).await?;
        let mut entries = places.ended_after(&last, SENT_AGAIN).await?;
        let is_cut = entries.len() == SENT_AGAIN;
        entries.retain(|(at, _)| at.score < settled);
        until = Some(entries.last().map_or(last, |(at, _)| at.clone()));
        for (at, run) in ended_runs(&places, entries).await? {
            earlier.push_back(ApiEvent::ended(at, &run).text);
        }
        if is_cut {
            earlier.push_back(
                dropped("more runs ended meanwhile; connect again with Last-Event-ID").into(),
            );
            receiver = broadcast::channel(1).1;
        }
    }
    Ok(event_stream(
        place,
        (earlier, receiver, until),
        |(mut earlier, mut receiver, until)| async move {
            if let Some(event) = earlier.pop_front() {
                return Some((event.to_string(), (earlier, receiver, until)));
            }
            loop {
                match receiver.recv().await {
                    // The follower has the event already: the hub is behind the history.
                    Ok(event) if is_before(&event, until.as_ref()) => {}
                    Ok(event) => return Some((event.text.to_string(), (earlier, receiver, until))),
                    Err(broadcast::error::RecvError::Closed) => return None,
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        let (_, closed) = broadcast::channel(1);
                        let text = dropped(
                            "this connection was too slow; connect again with Last-Event-ID",
                        );
                        return Some((text, (earlier, closed, until)));
                    }
                }
            }
        },
    ))
}

fn is_before(event: &ApiEvent, until: Option<&schedd_store::IndexCursor>) -> bool {
    match (&event.place, until) {
        (Some(place), Some(until)) => place.compare(until).is_le(),
        _ => false,
    }
}
