//! `GET /v1/doctor`: the report of a check of all data. One check serves all who ask meanwhile.

use axum::http::StatusCode;
use axum::response::Response;

use super::given_parameters::GivenParameters;
use super::verb_route::json_response;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use schedd_store::Store;

/// Answers with the last report, or with that of a check that begins now.
pub(super) async fn report(
    state: &ApiState,
    store: &Store,
    given: &GivenParameters,
) -> Result<Response, ApiProblem> {
    let is_fresh = given.text("fresh").is_some();
    let document = state.dashboard.reports().document(store, is_fresh).await;
    let document = document.map_err(|error| ApiProblem::of_error(&error))?;
    Ok(json_response(StatusCode::OK, &document))
}
