//! The reading of a request without carrying it out, for the fuzzer: the path, the query, the header
//! fields and the body.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::auth::read_credentials;
use super::route::{check_parameters, route_of};
use crate::cli::embedded::page_cursor::read_cursor;

/// Reads a request: a line with the method and the path, lines with header fields, an empty line and
/// the body. Returns the status of its refusal, or `None` if the request can be carried out.
pub fn check_request(text: &str) -> Option<u16> {
    const BAD_REQUEST: Option<u16> = Some(400);
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let (first, fields) = head.split_once('\n').unwrap_or((head, ""));
    let Some((method, path)) = first.split_once(' ') else { return BAD_REQUEST };
    let Ok(uri) = path.parse::<Uri>() else { return BAD_REQUEST };
    let mut headers = HeaderMap::new();
    for line in fields.lines() {
        let Some((name, value)) = line.split_once(':') else { return BAD_REQUEST };
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value.trim())) {
            (Ok(name), Ok(value)) => drop(headers.append(name, value)),
            _ => return BAD_REQUEST,
        }
    }
    read_credentials(&headers);
    let event = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    event.and_then(read_cursor);
    let Some(route) = route_of(method, uri.path()) else { return Some(404) };
    check_parameters(route, &uri, body).err().map(|problem| problem.status())
}
