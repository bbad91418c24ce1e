//! `POST /v1/schedctl`: a verb of `schedctl --api`. The first line of the body is the verb, the rest
//! its standard input; the answer is its output.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use tokio_util::io::{StreamReader, SyncIoBridge};

use super::request_body::{MOST_BYTES, too_large, unreadable};
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::auth::{Caller, ReaderRight, permit_define};
use crate::api::line_places::RequestPlace;
use crate::cli::embedded::output_pieces::{VerbStream, streamed_pieces};
use crate::cli::embedded::remote_call::{parse_remote, run_remote};
use crate::cli::embedded::remote_frames::{FRAMES, FrameKind, frame};
use crate::cli::embedded::remote_verb::RemoteVerb;
use crate::cli::embedded::verb_right::{VerbRight, right_of};
use crate::secrets::tokens::TokenRole;
use schedd_store::Store;

/// The maximum size of the first line of an admin. It has the content of the files that the verb names.
const MOST_FILE_BYTES: usize = 50 * 1024 * 1024;

/// Runs the verb in `body`, and returns the stream of its output. The stream holds `place`.
pub(super) async fn run_verb(
    state: &ApiState,
    store: Store,
    caller: &Caller,
    body: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    place: RequestPlace,
) -> Result<Response, ApiProblem> {
    let mut input = StreamReader::new(Box::pin(body));
    let head = first_line(&mut input, caller.role).await?;
    let remote: RemoteVerb = serde_json::from_slice(&head).map_err(|error| {
        ApiProblem::bad_request(format!(
            "the first line is no verb of this version of schedctl: {error}"
        ))
    })?;
    let args = parse_remote(&remote).map_err(ApiProblem::bad_request)?;
    permit(state, caller, right_of(&args.verb))?;
    let (sender, pieces) = streamed_pieces();
    let conceals = caller.role == TokenRole::Viewer;
    let input = Box::new(SyncIoBridge::new(input));
    let task = tokio::spawn(run_remote(store, args, remote, conceals, input, sender));
    let right = ReaderRight::of(state, Some(caller));
    let frames = unfold(Some((pieces, task, place, right)), |state| async move {
        let (mut pieces, task, place, mut right) = state?;
        let (bytes, next) = match pieces.next().await {
            Some(_) if !right.holds() => (last_frames(ReaderRight::ENDED), None),
            Some((stream, mut bytes)) => {
                let kind = match stream {
                    VerbStream::Output => FrameKind::Output,
                    VerbStream::Errors | VerbStream::Warnings => FrameKind::Errors,
                };
                pieces.take_more(stream, &mut bytes);
                (frame(kind, &bytes), Some((pieces, task, place, right)))
            }
            None if pieces.is_cut() => {
                (last_frames("the output was read too slowly, so its end is missing"), None)
            }
            None => (frame(FrameKind::Code, &[task.await.unwrap_or(1)]), None),
        };
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(bytes)), next))
    });
    let mut response = Response::new(Body::from_stream(frames));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(FRAMES));
    Ok(response)
}

/// Returns the frames of a verb whose output ends early.
fn last_frames(why: &str) -> Vec<u8> {
    let why = format!("schedctl: {why}\n");
    [frame(FrameKind::Errors, why.as_bytes()), frame(FrameKind::Code, &[1])].concat()
}

/// Returns the first line of `input`. Fails (413) if a sender with this role may not send so much.
async fn first_line(
    input: &mut (impl AsyncBufRead + Unpin),
    role: TokenRole,
) -> Result<Vec<u8>, ApiProblem> {
    let is_admin = role.includes(TokenRole::Admin);
    let most = if is_admin { MOST_FILE_BYTES } else { MOST_BYTES };
    let mut line = Vec::new();
    let mut limited = input.take(most as u64 + 1);
    limited.read_until(b'\n', &mut line).await.map_err(|error| unreadable(&error))?;
    match (line.len() > most, is_admin) {
        (false, _) => Ok(line),
        (true, true) => Err(too_large("a first line of more than 50 MiB, wanted at most 50 MiB")),
        (true, false) => Err(too_large(
            "a first line of more than 1 MiB, wanted at most 1 MiB, or a token with the role admin",
        )),
    }
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
