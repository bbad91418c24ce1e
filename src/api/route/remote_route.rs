//! `POST /v1/schedctl`: a verb of `schedctl --api`. The first line of the body is the verb, the rest
//! its standard input; the answer is its output.

use std::io::{BufRead as _, BufReader, Read};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio_util::io::{StreamReader, SyncIoBridge};

use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::auth::{Caller, permit_define};
use crate::cli::embedded::output_pieces::{VerbStream, streamed_pieces};
use crate::cli::embedded::remote_frames::{FRAMES, FrameKind, frame};
use crate::cli::embedded::remote_verb::{
    RemoteVerb, VerbRight, parse_remote, right_of, run_remote,
};
use crate::secrets::tokens::TokenRole;
use crate::store::Store;

/// The maximum size of the first line, which has the content of the files that the verb names.
const MOST_HEAD_BYTES: u64 = 50 * 1024 * 1024;

/// Runs the verb in `body`, and returns the stream of its output.
pub(super) async fn run_verb(
    state: &ApiState,
    store: Store,
    caller: &Caller,
    body: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
) -> Result<Response, ApiProblem> {
    let input = SyncIoBridge::new(Box::pin(StreamReader::new(Box::pin(body))));
    // The first line is read by a thread, because the rest of the body is read that way too.
    let read = tokio::task::spawn_blocking(move || {
        let mut input = BufReader::new(input);
        let mut head = Vec::new();
        let read = (&mut input).take(MOST_HEAD_BYTES).read_until(b'\n', &mut head);
        read.map(|_| (head, input))
    });
    let (head, input) = read
        .await
        .map_err(|error| ApiProblem::bad_request(format!("the body cannot be read: {error}")))?
        .map_err(|error| ApiProblem::bad_request(format!("the body cannot be read: {error}")))?;
    let remote: RemoteVerb = serde_json::from_slice(&head).map_err(|error| {
        ApiProblem::bad_request(format!(
            "the first line is no verb of this version of schedctl: {error}"
        ))
    })?;
    let args = parse_remote(&remote).map_err(ApiProblem::bad_request)?;
    permit(state, caller, right_of(&args.verb))?;
    let (sender, pieces) = streamed_pieces();
    let conceals = caller.role == TokenRole::Viewer;
    let task = tokio::spawn(run_remote(store, args, remote, conceals, Box::new(input), sender));
    let frames = unfold(Some((pieces, task)), |state| async move {
        let (mut pieces, task) = state?;
        let (bytes, next) = match pieces.next().await {
            Some((stream, mut bytes)) => {
                let kind = match stream {
                    VerbStream::Output => FrameKind::Output,
                    VerbStream::Errors | VerbStream::Warnings => FrameKind::Errors,
                };
                pieces.take_more(stream, &mut bytes);
                (frame(kind, &bytes), Some((pieces, task)))
            }
            None if pieces.is_cut() => {
                let why = "schedctl: the output was read too slowly, so its end is missing\n";
                let end = [frame(FrameKind::Errors, why.as_bytes()), frame(FrameKind::Code, &[1])];
                (end.concat(), None)
            }
            None => (frame(FrameKind::Code, &[task.await.unwrap_or(1)]), None),
        };
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(bytes)), next))
    });
    let mut response = Response::new(Body::from_stream(frames));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(FRAMES));
    Ok(response)
}

/// Fails (403) if the caller may not run a verb that needs `right`.
fn permit(state: &ApiState, caller: &Caller, right: VerbRight) -> Result<(), ApiProblem> {
    let needed = match right {
        VerbRight::Read => TokenRole::Viewer,
        VerbRight::Operate => TokenRole::Operator,
        VerbRight::Admin | VerbRight::Define => TokenRole::Admin,
        VerbRight::Local | VerbRight::Interactive => {
            return Err(ApiProblem::bad_request(
                "this verb runs only on the host where it is typed",
            ));
        }
    };
    if !caller.role.includes(needed) {
        return Err(ApiProblem::forbidden(format!(
            "found a token with the role {}, wanted {needed}",
            caller.role
        )));
    }
    if right == VerbRight::Define {
        permit_define(state)?;
    }
    Ok(())
}
