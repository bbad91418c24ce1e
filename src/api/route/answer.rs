//! The answer of a request: first who sends it and what the sender may do, then the action of the
//! route.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};

use super::given_parameters::{GivenParameters, refuse_query};
use super::idempotent::KeyedRequest;
use super::parameter::in_words_of;
use super::route_table::{Route, RouteAccess, RouteAction};
use super::verb_route::{answer_by_verb, json_response};
use super::{
    act_route, bulk_lines, doctor_route, idempotent, logs_route, pages, remote_route, request_body,
    single_job,
};
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::auth::{
    Caller, check_host, check_origin, identify, permit_define, sign_in, site_base,
};
use crate::api::browser;
use crate::api::browser::PageReader;
use crate::api::{health, metrics, openapi, stream, worker};
use crate::secrets::tokens::TokenRole;
use schedd_store::Store;

/// Answers a request of `route`. A change that began goes on although its sender hangs up.
pub(in crate::api) async fn answer(
    state: Arc<ApiState>,
    route: &'static Route,
    request: Request,
) -> Response {
    let (changes, shared) = (state.changes.clone(), state.clone());
    // A worker that hung up gets no runs. What it reports is recorded in any case.
    let is_read = route.method == Method::GET || route.action == RouteAction::Claim;
    let answer = async move {
        let (parts, body) = request.into_parts();
        let is_of_browser = route.action.is_of_browser() || route.action == RouteAction::SignIn;
        let reader = Some(&parts).filter(|_| is_of_browser);
        let reader = reader.and_then(|parts| PageReader::of_browser(&state, parts));
        match (Box::pin(try_answer(&state, route, parts, body)).await, reader) {
            (Ok(response), _) => response,
            (Err(problem), Some(reader)) => reader.refusal(problem),
            (Err(problem), None) => problem.into_response(),
        }
    };
    if is_read {
        return answer.await;
    }
    let answer = async move {
        let response = answer.await;
        shared.dashboard.note_change();
        response
    };
    changes.spawn(answer).await.unwrap_or_else(|error| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        ApiProblem::new(status, "failed", format!("the request ended: {error}")).into_response()
    })
}

async fn try_answer(
    state: &ApiState,
    route: &'static Route,
    mut parts: Parts,
    body: Body,
) -> Result<Response, ApiProblem> {
    check_head(&parts)?;
    if !matches!(route.action, RouteAction::Health | RouteAction::Ready) {
        check_host(state, &parts)?;
    }
    let caller = permit(state, route, &parts)?;
    let target = target_of(route, &mut parts).await?;
    let store = caller
        .as_ref()
        .map_or_else(|| state.store.clone(), |caller| state.store.signed(&caller.by));
    if route.method != Method::POST {
        let given = GivenParameters::of_query(route, &parts.uri)?;
        let answer =
            answer_without_body(state, route, &parts, &store, caller.as_ref(), target, &given)
                .await;
        return answer.map_err(|problem| in_words_of(route.parameters, problem));
    }
    let caller = caller.ok_or_else(ApiProblem::no_route)?;
    if matches!(route.action, RouteAction::AddLines | RouteAction::RemoteVerb) {
        idempotent::refuse_key(&parts)?;
        let given = GivenParameters::of_query(route, &parts.uri)?;
        let lines = request_body::lines(&parts.headers, body).await?;
        let place = state.line_places.take(&caller.by)?;
        return match route.action {
            RouteAction::AddLines => Ok(bulk_lines::add_lines(state, store, lines, &given, place)),
            _ => remote_route::run_verb(state, store, &caller, lines, place).await,
        };
    }
    if route.action == RouteAction::Choose {
        let form = request_body::whole_text(&parts.headers, body, request_body::FORM).await?;
        let given = GivenParameters::of_form(route, &form.unwrap_or_default())?;
        return Ok(browser::choose(&site_base(state, &parts), &given.pairs()));
    }
    refuse_query(&parts.uri)?;
    if route.action == RouteAction::Act {
        let form = request_body::whole_text(&parts.headers, body, request_body::FORM).await?;
        let form = form.unwrap_or_default();
        return act_route::act(state, &store, route, (&parts, &form), &caller, target).await;
    }
    let text = request_body::whole_text(&parts.headers, body, request_body::JSON).await?;
    match route.action {
        RouteAction::Claim => {
            idempotent::refuse_key(&parts)?;
            let queue = target.unwrap_or_default();
            return worker::claim_runs(state, &caller, &queue, text.as_deref()).await;
        }
        RouteAction::Report(kind) => {
            idempotent::refuse_key(&parts)?;
            return worker::report(state, &caller, kind, text.as_deref()).await;
        }
        _ => {}
    }
    let work = Box::pin(async {
        let answer = change(state, route, &store, target, &parts.headers, text.as_deref()).await;
        answer.map_err(|problem| in_words_of(route.parameters, problem))
    });
    let keyed = KeyedRequest::of_header(&parts, &caller.by, text.as_deref().unwrap_or_default())?;
    idempotent::once(&store, keyed, work).await
}

/// Answers a request that changes something and has a JSON body or none.
async fn change(
    state: &ApiState,
    route: &'static Route,
    store: &Store,
    target: Option<String>,
    headers: &HeaderMap,
    body: Option<&[u8]>,
) -> Result<Response, ApiProblem> {
    if route.action == RouteAction::AddJob {
        return single_job::add_job(state, store.clone(), route, headers, body).await;
    }
    let body = body.map(request_body::parsed).transpose()?;
    let given = GivenParameters::of_body(route, body.as_ref())?;
    match route.action {
        RouteAction::Verb(verb) => {
            answer_by_verb(store, route, verb, target.as_deref(), &given, false).await
        }
        _ => Err(ApiProblem::no_route()),
    }
}

/// Answers a GET or a DELETE. Their parameters are in the query.
async fn answer_without_body(
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
            let run = target.unwrap_or_default();
            logs_route::logs(state, store, caller, &run, given, &parts.headers).await
        }
        RouteAction::Doctor => doctor_route::report(state, store, given).await,
        RouteAction::Events => stream::follow_events(state, caller, &parts.headers).await,
        RouteAction::Metrics => metrics::metrics(state).await,
        RouteAction::OpenApi => {
            Ok(json_response(StatusCode::OK, &openapi::document(&site_base(state, parts))))
        }
        RouteAction::SignIn => sign_in(state, parts, given.text("code")).await,
        RouteAction::Page(kind) => {
            let caller = caller.ok_or_else(ApiProblem::no_route)?;
            let given = (given.pairs(), given.flags());
            browser::page(state, store, parts, caller, (kind, target), given).await
        }
        RouteAction::Acted => {
            let caller = caller.ok_or_else(ApiProblem::no_route)?;
            act_route::acted(state, store, parts, caller, &target.unwrap_or_default()).await
        }
        RouteAction::Asset => browser::asset(&target.unwrap_or_default(), parts),
        RouteAction::Health => Ok(health::alive()),
        RouteAction::Ready => Ok(health::ready(state).await),
        RouteAction::AddJob
        | RouteAction::AddLines
        | RouteAction::RemoteVerb
        | RouteAction::Claim
        | RouteAction::Report(_)
        | RouteAction::Choose
        | RouteAction::Act => Err(ApiProblem::no_route()),
    }
}

/// Fails (414, 431) if the head of the request is too large. The connection itself has wider limits,
/// because it refuses a request without a document.
fn check_head(parts: &Parts) -> Result<(), ApiProblem> {
    const MOST_PATH_BYTES: usize = 16 * 1024;
    const MOST_FIELDS: usize = 100;
    const MOST_FIELD_BYTES: usize = 64 * 1024;
    let path = parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let fields = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    let (status, detail) = if path > MOST_PATH_BYTES {
        (StatusCode::URI_TOO_LONG, "found a path of more than 16 KiB, wanted at most 16 KiB")
    } else if parts.headers.len() > MOST_FIELDS {
        let detail = "found more than 100 header fields, wanted at most 100";
        (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail)
    } else if fields.sum::<usize>() > MOST_FIELD_BYTES {
        let detail = "found more than 64 KiB of header fields, wanted at most 64 KiB";
        (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail)
    } else {
        return Ok(());
    };
    Err(ApiProblem::new(status, "too_large", detail))
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
async fn target_of(route: &Route, parts: &mut Parts) -> Result<Option<String>, ApiProblem> {
    let params = RawPathParams::from_request_parts(parts, &())
        .await
        .map_err(|_| ApiProblem::bad_request("the path is not UTF-8"))?;
    let Some(target) = params.iter().next().map(|(_, target)| target).or_else(|| {
        // A job whose name is the last word of another path, such as `bulk`.
        parts.uri.path().rsplit('/').next().filter(|_| route.path.contains('{'))
    }) else {
        return Ok(None);
    };
    let kind = if route.path.contains("{run}") { "run" } else { "name" };
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
