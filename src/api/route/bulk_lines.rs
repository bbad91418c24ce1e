//! `POST /v1/jobs/bulk`: adds the job in each line, and answers a line for each line. Both bodies are
//! streamed.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio_util::io::{StreamReader, SyncIoBridge};

use super::given_parameters::GivenParameters;
use super::parameter::in_words_of;
use super::route_table::JOB_KEYS;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::line_places::RequestPlace;
use crate::cli::embedded::output_pieces::{OutputForm, VerbStream, streamed_pieces};
use crate::cli::embedded::{Console, JobLines, ResultForm, add_from};
use schedd_store::Store;

/// Adds the jobs in the lines of `body`, and returns the stream of their results. The stream holds
/// `place`.
pub(super) fn add_lines(
    state: &ApiState,
    store: Store,
    body: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    given: &GivenParameters,
    place: RequestPlace,
) -> Response {
    let input = SyncIoBridge::new(Box::pin(StreamReader::new(Box::pin(body))));
    let lines = JobLines {
        input: Box::new(input),
        replaces: given.text("replace").is_some(),
        if_absent: given.text("if_absent").is_some(),
        allows_past: given.text("allow_past").is_some(),
        form: ResultForm::JsonLines(|failure| in_words_of(JOB_KEYS, failure.into()).document()),
    };
    let (sender, pieces) = streamed_pieces();
    let form = OutputForm { is_json: true, is_quiet: true, ..OutputForm::default() };
    let zone = state.host_zone.clone();
    tokio::spawn(async move {
        let mut console = Console::for_request(form, sender);
        if let Err(failure) = add_from(store, lines, zone, &mut console).await {
            console.json(
                &serde_json::json!({"line": null, "error": ApiProblem::from(failure).document()}),
            );
        }
    });
    let results = unfold((pieces, place), |(mut pieces, place)| async move {
        loop {
            match pieces.next().await? {
                (VerbStream::Output, mut bytes) => {
                    pieces.take_more(VerbStream::Output, &mut bytes);
                    let bytes = Ok::<_, std::convert::Infallible>(Bytes::from(bytes));
                    return Some((bytes, (pieces, place)));
                }
                (VerbStream::Errors | VerbStream::Warnings, _) => {}
            }
        }
    });
    let mut response = Response::new(Body::from_stream(results));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}
