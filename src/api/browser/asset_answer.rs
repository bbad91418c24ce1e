//! `GET /assets/NAME`: a file of the dashboard.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::Response;

use super::compression::{ACCEPT_ENCODING, put_compressed, takes_compressed};
use crate::api::api_problem::ApiProblem;
use crate::dashboard::asset_named;

/// The lifetime of an asset in a browser. Its address changes with its content.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// Answers with the asset of this name.
pub(in crate::api) fn asset(name: &str, parts: &Parts) -> Result<Response, ApiProblem> {
    let asset = asset_named(name).ok_or_else(ApiProblem::no_route)?;
    let mut response = Response::new(Body::from(asset.content));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(FOR_EVER));
    headers.insert(header::VARY, ACCEPT_ENCODING);
    if takes_compressed(parts)
        && let Some(bytes) = asset.compressed()
    {
        put_compressed(&mut response, &bytes);
    }
    Ok(response)
}
