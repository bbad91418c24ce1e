//! Compressed answers, for a reader who takes them.
//!
//! Another site can learn a secret from the length of a compressed page if its own text is in the
//! page too (BREACH). So a page that another site asks for is never compressed. A page of one job
//! may have both: values of variables, and the parameters of its address.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

/// The value of `Vary` for an answer that may be compressed.
pub(super) const ACCEPT_ENCODING: HeaderValue = HeaderValue::from_static("accept-encoding");

/// Returns true if the reader takes gzip, and no other site sends the request.
pub(super) fn takes_compressed(parts: &Parts) -> bool {
    let site = parts.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_of_other_site = site.is_some_and(|site| !matches!(site, b"same-origin" | b"none"));
    !is_of_other_site && takes_gzip(&parts.headers)
}

/// Makes the body of `response` the same content in compressed form.
pub(super) fn put_compressed(response: &mut Response, bytes: &[u8]) {
    *response.body_mut() = Body::from(bytes.to_vec());
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
}

/// Returns true if `Accept-Encoding` names gzip, and not with the weight 0.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let mut codings = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_none_or(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_where_it_is_named_with_a_weight() {
        let takes = |value: &'static str| {
            let value = HeaderValue::from_static(value);
            takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]))
        };
        for good in ["gzip", "br, GZIP", "gzip;q=0.1", "deflate, gzip ; q=1.0"] {
            assert!(takes(good), "{good}");
        }
        for bad in ["", "br", "gzip;q=0", "gzip; q=0.000", "xgzip"] {
            assert!(!takes(bad), "{bad}");
        }
    }
}
