//! `GET /v1/runs/ID/logs`: the output of an attempt, or the output of a run while it is written.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use serde::Deserialize;

use super::given_parameters::GivenParameters;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::auth::Caller;
use crate::api::stream::{StreamPlace, dropped, event_stream, stream_place};
use crate::cli::embedded::OutputPlace;
use crate::cli::embedded::output_pieces::{
    OutputForm, PieceReceiver, VerbStream, output_pieces_within,
};
use crate::cli::embedded::verb_call::{call_verb, call_verb_for_bytes, spawn_verb};
use schedd_store::Store;

/// The maximum number of bytes that wait for the reader of followed logs. A slower reader is
/// disconnected.
const MOST_UNREAD: usize = 256 * 1024;

/// The reason why a follower gets no more output.
const TOO_SLOW: &str = "this connection was too slow; follow the output again";

/// Answers with the output of the run `run`.
pub(super) async fn logs(
    state: &ApiState,
    store: &Store,
    caller: Option<&Caller>,
    run: &str,
    given: &GivenParameters,
    headers: &HeaderMap,
) -> Result<Response, ApiProblem> {
    let mut words = vec!["logs".to_owned()];
    words.extend(given.flags());
    let is_followed = given.text("follow").is_some();
    if !is_followed {
        words.extend(["--quiet".to_owned(), "--".to_owned(), run.to_owned()]);
        let output = call_verb_for_bytes(store, &words).await?;
        let mut response = Response::new(Body::from(output));
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        return Ok(response);
    }
    let place = stream_place(state, caller)?;
    // A run that does not exist is reported before the stream begins.
    let target = ["show", "--", run].map(str::to_owned);
    let known = call_verb(store, &target, true).await?;
    if let Some(error) = known.errors.first() {
        return Err(ApiProblem::of_error(error));
    }
    words.push("--follow".to_owned());
    if let Some(last) = headers.get("last-event-id") {
        let last = last.to_str().ok().and_then(|last| last.parse::<OutputPlace>().ok());
        let last = last.ok_or_else(|| {
            ApiProblem::bad_request("Last-Event-ID: found a text that is no id of an event, wanted the id of the last event")
        })?;
        words.push(format!("--behind={last}"));
    }
    words.extend(["--".to_owned(), run.to_owned()]);
    let (sender, pieces) = output_pieces_within(MOST_UNREAD);
    let form = OutputForm { is_json: true, is_quiet: true, ..OutputForm::default() };
    spawn_verb(store, &words, form, sender).map_err(ApiProblem::bad_request)?;
    Ok(followed(place, pieces))
}

/// Returns the stream of a verb's lines of JSON: `output` for those on standard output, `error` for
/// those on standard error. A reader that was too slow gets `dropped` at the end.
fn followed(place: StreamPlace, pieces: PieceReceiver) -> Response {
    let start = (Some(pieces), VerbStream::Output, Vec::new());
    event_stream(place, start, |(mut pieces, mut of, mut unfinished)| async move {
        loop {
            if let Some(end) = unfinished.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = unfinished.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                let (event, id) = match of {
                    VerbStream::Output => ("output", id_of(&line)),
                    _ => ("error", String::new()),
                };
                let event = format!("event: {event}\n{id}data: {line}\n\n");
                return Some((event, (pieces, of, unfinished)));
            }
            let open = pieces.as_mut()?;
            match open.next().await {
                Some((VerbStream::Warnings, _)) => {}
                Some((stream, bytes)) => {
                    if stream != of {
                        // The end of a line of the other stream was dropped.
                        unfinished.clear();
                    }
                    of = stream;
                    unfinished.extend(bytes);
                }
                None if open.is_cut() => {
                    return Some((dropped(TOO_SLOW), (None, of, unfinished)));
                }
                None => return None,
            }
        }
    })
}

/// Returns the line with the id of a piece of output: the place behind it.
fn id_of(line: &str) -> String {
    #[derive(Deserialize)]
    struct Piece {
        attempt: Option<u32>,
        position: Option<u64>,
    }
    let place = serde_json::from_str(line).ok().and_then(|Piece { attempt, position }| {
        Some(OutputPlace { attempt: attempt?, position: position? })
    });
    place.map(|place| format!("id: {place}\n")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::api::auth::ReaderRight;

    #[tokio::test]
    async fn a_follower_that_is_too_slow_gets_a_last_event_that_says_so() {
        let (sender, pieces) = output_pieces_within(10);
        let piece = b"{\"attempt\":1,\"position\":9,\"stdout\":\"a\"}\n";
        assert!(sender.send(VerbStream::Output, piece));
        assert!(!sender.send(VerbStream::Output, &[b'x'; 50]), "there is no room");
        drop(sender);
        let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let place = StreamPlace {
            _permit: permit,
            right: ReaderRight::endless(),
            stop: CancellationToken::new(),
        };
        let body = followed(place, pieces).into_body();
        let text = axum::body::to_bytes(body, 1_000).await.unwrap();
        assert_eq!(
            String::from_utf8_lossy(&text),
            "event: output\nid: 1-9\ndata: {\"attempt\":1,\"position\":9,\"stdout\":\"a\"}\n\n\
             event: dropped\ndata: {\"reason\":\"this connection was too slow; follow the output again\"}\n\n"
        );
    }
}
