//! `GET /v1/runs/ID/logs`: the output of an attempt, or the output of a run while it is written.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

use super::given_parameters::GivenParameters;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::stream::{event_stream, stream_place};
use crate::cli::embedded::output_pieces::{OutputForm, VerbStream, output_pieces_within};
use crate::cli::embedded::verb_call::{call_verb, call_verb_for_bytes, spawn_verb};
use crate::store::Store;

/// The maximum number of bytes that wait for the reader of followed logs. A slower reader is
/// disconnected.
const MOST_UNREAD: usize = 256 * 1024;

/// Answers with the output of the run `run`.
pub(super) async fn logs(
    state: &ApiState,
    store: &Store,
    run: &str,
    given: &GivenParameters,
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
    let place = stream_place(state)?;
    // A run that does not exist is reported before the stream begins.
    let target = ["show", "--", run].map(str::to_owned);
    let known = call_verb(store, &target, true).await?;
    if let Some(error) = known.errors.first() {
        return Err(ApiProblem::of_error(error));
    }
    words.extend(["--follow".to_owned(), "--".to_owned(), run.to_owned()]);
    let (sender, pieces) = output_pieces_within(MOST_UNREAD);
    let form = OutputForm { is_json: true, is_quiet: true, ..OutputForm::default() };
    spawn_verb(store, &words, form, sender).map_err(ApiProblem::bad_request)?;
    Ok(event_stream(place, (pieces, Vec::new()), |(mut pieces, mut unfinished)| async move {
        loop {
            if let Some(end) = unfinished.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = unfinished.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                let event = if line.contains("\"error\":") { "error" } else { "output" };
                return Some((format!("event: {event}\ndata: {line}\n\n"), (pieces, unfinished)));
            }
            match pieces.next().await? {
                (VerbStream::Output | VerbStream::Errors, bytes) => unfinished.extend(bytes),
            }
        }
    }))
}
