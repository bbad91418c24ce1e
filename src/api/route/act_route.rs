//! `POST /act/ACTION`: the form of an action of the dashboard. `GET /acted/KEY`: its result.
//!
//! The answer to a form leads to the page of its result, so loading that page again does nothing
//! again. The result is kept under the key of the form, as answers to an `Idempotency-Key` are.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::given_parameters::GivenParameters;
use super::idempotent::{self, FormAnswer, KeyedRequest};
use super::parameter::in_words_of;
use super::route_table::Route;
use super::verb_route::json_response;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::auth::Caller;
use crate::api::browser::{PageReader, put_html};
use crate::dashboard::{DashboardView, PageKind, PageRequest, carry_out, local_address};
use schedd_store::Store;

/// The message for a form whose key was used with other values.
const SENT_BEFORE: &str = "this form was sent before with other values, which was done once; send it \
    again to do this too";

/// Carries out the action of a form once, and leads to its result. A form that the verb refuses is
/// shown again with the reason.
pub(super) async fn act(
    state: &ApiState,
    store: &Store,
    route: &'static Route,
    (parts, form): (&Parts, &[u8]),
    caller: &Caller,
    target: Option<String>,
) -> Result<Response, ApiProblem> {
    let given = GivenParameters::of_form(route, form)?;
    let key = given.text("key").filter(|key| is_key(key)).ok_or_else(|| {
        ApiProblem::bad_request("key: found no key of a form, wanted a form of the dashboard")
    })?;
    let reader = PageReader::new(state, parts);
    let request = PageRequest {
        kind: PageKind::Action,
        base: reader.base,
        // The choices at the foot of the page lead back by a GET.
        address: given.text("back").map_or("/", local_address).to_owned(),
        target,
        parameters: given.pairs(),
        flags: given.flags(),
        role: caller.role,
        choices: reader.choices,
        is_poll: false,
        server: None,
    };
    let work = Box::pin(async {
        let result = carry_out(store, &request).await;
        let result = result.map_err(|failure| in_words_of(route.parameters, failure.into()))?;
        Ok(json_response(StatusCode::OK, &json!(result)))
    });
    let keyed = KeyedRequest::of_form(parts, &caller.by, key, form);
    let (status, why) = match idempotent::once(store, Some(keyed), work).await {
        Ok(answer) if answer.status().is_success() => return Ok(to_result(&request.base, key)),
        Err(problem) if problem.status() == 409 && problem.is_for_later() => {
            return Ok(to_result(&request.base, key));
        }
        Err(problem) if problem.status() == 409 => (StatusCode::CONFLICT, SENT_BEFORE.to_owned()),
        refused => {
            let answer = refused.unwrap_or_else(ApiProblem::into_response);
            (answer.status(), detail_of(answer).await)
        }
    };
    let html = Box::pin(state.dashboard.ask_again(store, &request, &why)).await?;
    let mut response = status.into_response();
    put_html(&mut response, html);
    Ok(response)
}

/// Answers with the page of the result of the form with this key.
pub(super) async fn acted(
    state: &ApiState,
    store: &Store,
    parts: &Parts,
    caller: &Caller,
    key: &str,
) -> Result<Response, ApiProblem> {
    let kept = match idempotent::form_answer(store, &caller.by, key).await? {
        FormAnswer::Unknown => {
            let detail = "no result is kept here; a result is kept for 24 hours, for whoever acted";
            return Err(ApiProblem::new(StatusCode::NOT_FOUND, "not_found", detail));
        }
        FormAnswer::UnderWay => None,
        FormAnswer::Given(result) => Some(result),
    };
    let PageReader { base, address, choices } = PageReader::new(state, parts);
    let html = DashboardView::result(&base, &address, caller.role, &choices, kept.as_deref())?;
    let mut response = Response::new(Body::empty());
    put_html(&mut response, html);
    Ok(response)
}

/// Returns true if `key` may be the key of a form: it stands in the address of the result.
fn is_key(key: &str) -> bool {
    key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the answer that leads to the result of the form with this key. `base` is the path before
/// all routes.
fn to_result(base: &str, key: &str) -> Response {
    let place = format!("{base}/acted/{key}");
    (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response()
}

/// Returns the reason in an answer that is an error document.
async fn detail_of(answer: Response) -> String {
    let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap_or_default();
    let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    document["detail"].as_str().unwrap_or("the action failed").to_owned()
}
