//! The routes of the table as one service, and the routes before the node is in Redis.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};

use super::api_problem::ApiProblem;
use super::api_state::ApiState;
use super::browser::PageReader;
use super::health;
use super::route::{ROUTES, Route, answer};

/// The service that answers requests at present.
pub(super) struct PresentRoutes {
    /// The service until the node is in Redis.
    starting: Router,
    /// The service from then on.
    all: OnceLock<Router>,
}

impl PresentRoutes {
    /// Returns the routes of a node that is not in Redis yet: probes, and 503 for all other requests.
    pub(super) fn starting(base: &str) -> Self {
        let wait = || async { ApiProblem::busy(health::STARTING, 1) };
        let routes = Router::new()
            .route("/healthz", get(async || health::alive()))
            .route("/readyz", get(async || health::starting()));
        let starting = below(base, routes)
            .fallback(wait)
            .method_not_allowed_fallback(wait)
            .layer(axum::middleware::map_response(finished));
        Self { starting, all: OnceLock::new() }
    }

    /// Answers all requests from now on.
    pub(super) fn open(&self, state: &Arc<ApiState>) {
        self.all.get_or_init(|| router(state));
    }

    /// Returns the service for a request that begins now.
    pub(super) fn present(&self) -> Router {
        self.all.get().unwrap_or(&self.starting).clone()
    }
}

/// Returns the service that answers all requests.
fn router(state: &Arc<ApiState>) -> Router {
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
        for path in paths_of(route) {
            routes = routes.route(&format!("{base}{path}"), method.clone());
        }
    }
    let base = state.config.base_path.clone();
    let shared = state.clone();
    routes
        .fallback(move |request: Request| async move { no_route(&shared, request) })
        .method_not_allowed_fallback(move |method: Method, uri: Uri| {
            let path = uri.path().strip_prefix(&base).unwrap_or_default();
            std::future::ready(wrong_method(&method, path))
        })
        .layer(axum::middleware::map_response(finished))
}

/// Returns `routes` below the path `base`.
fn below(base: &str, routes: Router) -> Router {
    if base.is_empty() { routes } else { Router::new().nest(base, routes) }
}

/// Returns the answer for a path that no route has: a page for a browser, unless it asks the API.
fn no_route(state: &ApiState, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let problem = ApiProblem::no_route();
    match PageReader::of_browser(state, &parts).filter(|reader| !reader.asks_api()) {
        Some(reader) => reader.refusal(problem),
        None => problem.into_response(),
    }
}

/// Returns the paths of a route: its own, and each path of other routes that has its form, such as
/// `/v1/jobs/bulk` for `/v1/jobs/{job}`. A request with another method there means this route.
fn paths_of(route: &'static Route) -> impl Iterator<Item = &'static str> {
    let has_own =
        |path: &str| ROUTES.iter().any(|other| other.path == path && other.method == route.method);
    let others: BTreeSet<&str> = ROUTES
        .iter()
        .map(|other| other.path)
        .filter(|path| route.has_path(path) && !path.contains('{') && !has_own(path))
        .collect();
    std::iter::once(route.path).chain(others)
}

fn wrong_method(method: &Method, path: &str) -> ApiProblem {
    let routes = ROUTES.iter().filter(|route| route.has_path(path));
    let known: Vec<&str> = routes.map(|route| route.method.as_str()).collect();
    let detail = format!("found the method {method}, wanted {}", known.join(" or "));
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
