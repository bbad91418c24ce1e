//! The answer of a request: first who sends it and what the sender may do, then the action of the
//! route.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::given_parameters::GivenParameters;
use super::route_table::{Route, RouteAccess, RouteAction};
use super::verb_route::{answer_by_verb, json_response};
use super::{bulk_lines, idempotent, logs_route, pages, remote_route, request_body, single_job};
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::auth::{Caller, check_host, check_origin, identify, permit_define, sign_in};
use crate::api::browser::{self, PageReader};
use crate::api::{health, metrics, openapi, stream};
use crate::secrets::tokens::TokenRole;
use crate::store::Store;

/// Answers a request of `route`.
pub(in crate::api) async fn answer(
    state: Arc<ApiState>,
    route: &'static Route,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let is_of_browser = route.action.is_of_browser() || route.action == RouteAction::SignIn;
    let base = state.config.base_path.as_str();
    let reader = Some(&parts).filter(|_| is_of_browser);
    let reader = reader.and_then(|parts| PageReader::of_browser(base, parts));
    match (Box::pin(try_answer(&state, route, parts, body)).await, reader) {
        (Ok(response), _) => response,
        (Err(problem), Some(reader)) => reader.refusal(&state.dashboard, problem),
        (Err(problem), None) => problem.into_response(),
    }
}

async fn try_answer(
    state: &ApiState,
    route: &'static Route,
    mut parts: Parts,
    body: Body,
) -> Result<Response, ApiProblem> {
    check_head(&parts)?;
    check_host(state, &parts)?;
    let caller = permit(state, route, &parts)?;
    let target = target_of(&mut parts).await?;
    let store = caller
        .as_ref()
        .map_or_else(|| state.store.clone(), |caller| state.store.signed(&caller.by));
    if route.method != Method::POST {
        let given = GivenParameters::of_query(route, &parts.uri)?;
        return read(state, route, &parts, &store, caller.as_ref(), target, &given).await;
    }
    let caller = caller.ok_or_else(ApiProblem::no_route)?;
    if matches!(route.action, RouteAction::AddLines | RouteAction::RemoteVerb) {
        let given = GivenParameters::of_query(route, &parts.uri)?;
        let lines = request_body::lines(&parts.headers, body)?;
        return match route.action {
            RouteAction::AddLines => bulk_lines::add_lines(state, store, lines, &given),
            _ => remote_route::run_verb(state, store, &caller, lines).await,
        };
    }
    if route.action == RouteAction::Choose {
        let form = request_body::whole_text(&parts.headers, body, request_body::FORM).await?;
        let given = GivenParameters::of_form(route, &form.unwrap_or_default())?;
        return Ok(browser::choose(&state.config.base_path, &given.pairs()));
    }
    let text = request_body::whole_text(&parts.headers, body, request_body::JSON).await?;
    let work = Box::pin(change(state, route, &parts, &store, target, text.as_deref()));
    idempotent::once(&store, &parts, &caller.by, text.as_deref().unwrap_or_default(), work).await
}

/// Answers a request that changes something and has a JSON body or none.
async fn change(
    state: &ApiState,
    route: &'static Route,
    parts: &Parts,
    store: &Store,
    target: Option<String>,
    body: Option<&[u8]>,
) -> Result<Response, ApiProblem> {
    if route.action == RouteAction::AddJob {
        return single_job::add_job(state, store.clone(), body).await;
    }
    let given = match body {
        Some(body) => GivenParameters::of_body(route, &request_body::parsed(body)?)?,
        None => GivenParameters::of_query(route, &parts.uri)?,
    };
    match route.action {
        RouteAction::Verb(verb) => {
            answer_by_verb(store, route, verb, target.as_deref(), &given, false).await
        }
        _ => Err(ApiProblem::no_route()),
    }
}

/// Answers a request without a body.
async fn read(
    state: &ApiState,
    route: &'static Route,
    parts: &Parts,
    store: &Store,
    caller: Option<&Caller>,
    target: Option<String>,
    given: &GivenParameters,
) -> Result<Response, ApiProblem> {
    let conceals = caller.is_none_or(|caller| caller.role == TokenRole::Viewer);
    match route.action {
        RouteAction::Verb(verb) => {
            answer_by_verb(store, route, verb, target.as_deref(), given, conceals).await
        }
        RouteAction::Jobs => pages::jobs(store, given).await,
        RouteAction::Runs => pages::runs(store, given).await,
        RouteAction::Logs => {
            logs_route::logs(state, store, &target.unwrap_or_default(), given).await
        }
        RouteAction::Events => stream::follow_events(state, &parts.headers).await,
        RouteAction::Metrics => metrics::metrics(state).await,
        RouteAction::OpenApi => Ok(json_response(StatusCode::OK, openapi::document())),
        RouteAction::SignIn => sign_in(state, parts, given.text("code")),
        RouteAction::Page(kind) => {
            let caller = caller.ok_or_else(ApiProblem::no_route)?;
            let given = (given.pairs(), given.flags());
            browser::page(state, store, parts, caller, (kind, target), given).await
        }
        RouteAction::FirstPage => Ok(first_page(state)),
        RouteAction::Asset => browser::asset(&target.unwrap_or_default()),
        RouteAction::Health => Ok(json_response(StatusCode::OK, &json!({"status": "ok"}))),
        RouteAction::Ready => Ok(health::ready(state).await),
        RouteAction::AddJob
        | RouteAction::AddLines
        | RouteAction::RemoteVerb
        | RouteAction::Choose => Err(ApiProblem::no_route()),
    }
}

/// Returns the answer that leads from `/` to the first page of the dashboard.
fn first_page(state: &ApiState) -> Response {
    let place = format!("{}/jobs", state.config.base_path);
    (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response()
}

/// Fails (431) if the head of the request is too large. The connection itself only bounds the number
/// of fields.
fn check_head(parts: &Parts) -> Result<(), ApiProblem> {
    const MOST_BYTES: usize = 64 * 1024;
    let fields = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    if fields.sum::<usize>() <= MOST_BYTES {
        return Ok(());
    }
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Err(ApiProblem::new(
        status,
        "too_large",
        "found more than 64 KiB of header fields, wanted at most 64 KiB",
    ))
}

/// Returns the sender of the request, or `None` for a route that is open to everybody. Fails if the
/// sender is unknown (401) or may not use the route (403).
fn permit(state: &ApiState, route: &Route, parts: &Parts) -> Result<Option<Caller>, ApiProblem> {
    let needed = match route.access {
        RouteAccess::Open => return Ok(None),
        RouteAccess::Role(role) => role,
        RouteAccess::Define => TokenRole::Admin,
    };
    let caller = identify(state, parts)?;
    check_origin(state, parts, &caller)?;
    if !caller.role.includes(needed) {
        return Err(ApiProblem::forbidden(format!(
            "found a token with the role {}, wanted {needed}",
            caller.role
        )));
    }
    if route.access == RouteAccess::Define {
        permit_define(state)?;
    }
    Ok(Some(caller))
}

/// Returns the job, run or queue in the path. Fails (404) for a run in place of a job and the other
/// way round.
async fn target_of(parts: &mut Parts) -> Result<Option<String>, ApiProblem> {
    let params = RawPathParams::from_request_parts(parts, &())
        .await
        .map_err(|_| ApiProblem::bad_request("the path is not UTF-8"))?;
    let Some((kind, target)) = params.iter().next() else { return Ok(None) };
    if target.contains('\0') {
        return Err(ApiProblem::bad_request("the path has the character NUL"));
    }
    if target.contains('@') != (kind == "run") {
        let wanted = if kind == "run" { "the id of a run, such as backup@last" } else { "a name" };
        let detail = format!("found {target:?}, wanted {wanted}");
        return Err(ApiProblem::new(StatusCode::NOT_FOUND, "not_found", detail));
    }
    Ok(Some(target.to_owned()))
}
