//! `POST /choices`: the choices of a reader, which become cookies.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::dashboard::{ViewChoices, local_address};

/// Answers the form of the reader's choices, and leads back to the page of the form.
pub(in crate::api) fn choose(base: &str, fields: &[(String, String)]) -> Response {
    let back = fields.iter().find(|(name, _)| name == "back").map_or("/", |(_, back)| back);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    if let Ok(place) = HeaderValue::from_str(&format!("{base}{}", local_address(back))) {
        headers.insert(header::LOCATION, place);
    }
    let cookies = ViewChoices::cookies_of(fields);
    for cookie in cookies.iter().filter_map(|cookie| HeaderValue::from_str(cookie).ok()) {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}
