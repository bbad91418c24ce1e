//! The pages of jobs and of runs.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::given_parameters::GivenParameters;
use super::verb_route::json_response;
use crate::api::api_problem::ApiProblem;
use crate::cli::embedded::job_page::{Page, job_page, wanted_jobs};
use crate::cli::embedded::run_page::{run_page, wanted_runs};
use crate::store::Store;

/// The number of items of a page if the request names none.
const ITEMS: usize = 50;

/// Returns the page of jobs that the parameters select.
pub(super) async fn jobs(store: &Store, given: &GivenParameters) -> Result<Response, ApiProblem> {
    let wanted = wanted_jobs(&given.flags(), given.text("prefix"))?;
    Ok(page(job_page(store, &wanted, cursor(given), limit(given)).await.map_err(problem)?))
}

/// Returns the page of runs that the parameters select.
pub(super) async fn runs(store: &Store, given: &GivenParameters) -> Result<Response, ApiProblem> {
    let wanted = wanted_runs(&given.flags(), given.text("job"))?;
    Ok(page(run_page(store, &wanted, cursor(given), limit(given)).await.map_err(problem)?))
}

/// Returns the cursor of the page. An empty text is the cursor of the first page.
fn cursor(given: &GivenParameters) -> Option<&str> {
    given.text("cursor").filter(|cursor| !cursor.is_empty())
}

fn limit(given: &GivenParameters) -> usize {
    given.text("limit").and_then(|text| text.parse().ok()).unwrap_or(ITEMS)
}

/// Returns the problem of a page. A cursor of another page is a malformed request.
fn problem(failure: crate::cli::embedded::CliFailure) -> ApiProblem {
    let problem = ApiProblem::from(failure);
    match problem.document()["detail"].as_str() {
        Some(detail) if detail.starts_with("cursor: ") => ApiProblem::bad_request(detail),
        _ => problem,
    }
}

fn page(page: Page) -> Response {
    let Page { items, next } = page;
    json_response(StatusCode::OK, &json!({"items": items, "next": next}))
}
