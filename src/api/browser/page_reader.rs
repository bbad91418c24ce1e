//! The reader of a page: the address that the browser shows, and the reader's choices.

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};

use super::html_answer::put_html;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::auth::site_base;
use crate::dashboard::{DashboardView, ViewChoices, local_address};

/// The reader of a page.
#[derive(Debug)]
pub(in crate::api) struct PageReader {
    /// The path before all routes, as the browser sees it.
    pub(in crate::api) base: String,
    /// The path and the query, without the path before all routes.
    pub(in crate::api) address: String,
    pub(in crate::api) choices: ViewChoices,
}

impl PageReader {
    /// Returns the reader who sends a request.
    pub(in crate::api) fn new(state: &ApiState, parts: &Parts) -> Self {
        let address = parts.uri.path_and_query().map_or("/", |address| address.as_str());
        let address = address.strip_prefix(state.config.base_path.as_str()).unwrap_or(address);
        let choices = ViewChoices::of_cookies(cookies(&parts.headers));
        Self { base: site_base(state, parts), address: local_address(address).to_owned(), choices }
    }

    /// Returns the reader who sends a request, or `None` if the sender reads no pages.
    pub(in crate::api) fn of_browser(state: &ApiState, parts: &Parts) -> Option<Self> {
        let accepted = parts.headers.get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok());
        let reads_pages = accepted.is_some_and(|kinds| kinds.contains("text/html"));
        reads_pages.then(|| Self::new(state, parts))
    }

    /// Returns true if the address is one of the API and not of a page.
    pub(in crate::api) fn asks_api(&self) -> bool {
        self.address.starts_with("/v1/")
    }

    /// Returns a refusal as a page.
    pub(in crate::api) fn refusal(&self, problem: ApiProblem) -> Response {
        let (status, document) = (problem.status(), problem.document());
        let [title, detail] =
            ["title", "detail"].map(|key| document[key].as_str().unwrap_or_default());
        let mut response = problem.into_response();
        if let Ok(html) =
            DashboardView::refusal(&self.base, status, title, detail, &self.address, &self.choices)
        {
            put_html(&mut response, html);
        }
        response
    }
}

/// Returns the cookies of a request.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='))
}
