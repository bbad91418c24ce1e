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
        let state = state.clone();
        let method: MethodRouter<(), Infallible> =
            on(filter, move |request: Request| answer(state.clone(), route, request));
        routes = routes.route(route.path, method);
    }
    let base = state.config.base_path.as_str();
    let routes = if base.is_empty() { routes } else { Router::new().nest(base, routes) };
    routes
        .fallback(|| async { ApiProblem::no_route() })
        .method_not_allowed_fallback(|method: Method| async move { wrong_method(&method) })
        .layer(axum::middleware::map_response(finished))
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
