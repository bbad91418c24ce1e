//! The routes of the table as one service.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, on};

use super::api_problem::ApiProblem;
use super::api_state::ApiState;
use super::browser::PageReader;
use super::route::{ROUTES, answer};

/// Returns the service that answers all requests.
pub(super) fn router(state: &Arc<ApiState>) -> Router {
    let mut routes = Router::new();
    for route in ROUTES {
        let filter = match route.method {
            Method::POST => MethodFilter::POST,
            Method::DELETE => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        let shared = state.clone();
        let method: MethodRouter<(), Infallible> =
            on(filter, move |request: Request| answer(shared.clone(), route, request));
        let base = state.config.base_path.as_str();
        if route.path == "/" && !base.is_empty() {
            routes = routes.route(base, method.clone());
        }
        routes = routes.route(&format!("{base}{}", route.path), method);
    }
    let state = state.clone();
    routes
        .fallback(move |request: Request| async move { no_route(&state, request) })
        .method_not_allowed_fallback(|method: Method| async move { wrong_method(&method) })
        .layer(axum::middleware::map_response(finished))
}

/// Returns the answer for a path that no route has: a page for a browser, unless it asks the API.
fn no_route(state: &ApiState, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let base = state.config.base_path.as_str();
    let problem = ApiProblem::no_route();
    match PageReader::of_browser(base, &parts).filter(|reader| !reader.asks_api()) {
        Some(reader) => reader.refusal(&state.dashboard, problem),
        None => problem.into_response(),
    }
}

fn wrong_method(method: &Method) -> ApiProblem {
    let detail = format!("found the method {method}, wanted a method of the header Allow");
    ApiProblem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// Adds the headers that every answer has.
async fn finished(response: Response) -> Response {
    let mut response = response.into_response();
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
