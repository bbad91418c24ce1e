//! A page as an answer.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

/// The content security policy of all pages: they load only files of this site, send forms only to
/// it, and have no script and no style of their own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Makes `response` the page with this text.
pub(in crate::api) fn put_html(response: &mut Response, html: String) {
    *response.body_mut() = Body::from(html);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
}
