//! The pages of jobs and of runs.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::given_parameters::GivenParameters;
use super::verb_route::json_response;
use crate::api::api_problem::ApiProblem;
use crate::cli::embedded::job_page::{Page, job_page, wanted_jobs};
use crate::cli::embedded::run_page::{run_page, wanted_runs};
use schedd_store::Store;

/// The number of items of a page if the request names none.
const ITEMS: usize = 50;

/// Returns the page of jobs that the parameters select.
pub(super) async fn jobs(store: &Store, given: &GivenParameters) -> Result<Response, ApiProblem> {
    let pattern = given.text("prefix").map(|prefix| format!("{prefix}*"));
    let wanted = wanted_jobs(&given.flags(), pattern.as_deref())?;
    Ok(page(job_page(store, &wanted, cursor(given), limit(given)).await?))
}

/// Returns the page of runs that the parameters select.
pub(super) async fn runs(store: &Store, given: &GivenParameters) -> Result<Response, ApiProblem> {
    let wanted = wanted_runs(&given.flags(), given.text("job"))?;
    Ok(page(run_page(store, &wanted, cursor(given), limit(given)).await?))
}

/// Returns the cursor of the page. An empty text is the cursor of the first page.
fn cursor(given: &GivenParameters) -> Option<&str> {
    given.text("cursor").filter(|cursor| !cursor.is_empty())
}

fn limit(given: &GivenParameters) -> usize {
    given.text("limit").and_then(|text| text.parse().ok()).unwrap_or(ITEMS)
}

fn page(page: Page) -> Response {
    let Page { items, next } = page;
    json_response(StatusCode::OK, &json!({"items": items, "next": next}))
}
