//! The request of an `http` job: a URL, or a table with a URL.
//!
//! Whatever would change the framing of the request (line breaks, `Content-Length`) is refused.
//! Passwords in URLs are refused too, because they end up in logs and tables.

use std::collections::BTreeMap;

use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::{Spot, TableReader};
use crate::domain::job::job_spec::HttpRequest;
use crate::domain::job::secret_reference;
use crate::domain::job::secret_reference::ReferenceError;

const METHODS: &[(&str, &str)] = &[
    ("GET", "GET"),
    ("HEAD", "HEAD"),
    ("POST", "POST"),
    ("PUT", "PUT"),
    ("PATCH", "PATCH"),
    ("DELETE", "DELETE"),
    ("OPTIONS", "OPTIONS"),
];
const MAX_URL_BYTES: usize = 8 * 1024;
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// The header fields that the client itself sets from the URL and the body.
const OWN_HEADERS: &[&str] = &["host", "content-length", "transfer-encoding"];

/// Returns the method of a request that names no method.
pub(crate) fn default_method(body: &str) -> &'static str {
    if body.is_empty() { "GET" } else { "POST" }
}

/// Compiles the request in the key `http`.
pub(crate) fn compile_http(spot: &Spot<'_>, problems: &mut Problems) -> Option<HttpRequest> {
    if spot.as_text().is_some() {
        return Some(request(compile_url(spot, problems)?));
    }
    let table = spot.table("a URL or a table such as { method = \"POST\", url = \"https://example.com/\" }", problems)?;
    let slips = table.refuse_other_keys(&[known_keys::HTTP], &[], problems);
    if table.get("url").is_none() && !slips.may_be(&["url"]) {
        spot.fault(problems, "no url, wanted one such as \"https://example.com/\"");
    }
    // All keys are compiled before any result is used, so that every fault is reported.
    let url = table.get("url").and_then(|spot| compile_url(&spot, problems));
    let body = table.get("body").map_or(Some(""), |spot| spot.text("{}", problems));
    let method = table.get("method").map(|spot| spot.choice(METHODS, problems));
    let headers = table.get("headers").and_then(|spot| {
        let table = spot.table("a table such as { X-From = \"schedd\" }", problems)?;
        Some(compile_headers(&table, problems))
    });
    let expect = table.get("expect").map_or(Some(Vec::new()), |spot| compile_expect(&spot, problems));
    let redirects = table.get("redirects").map_or(Some(0), |spot| spot.integer(&(0..=10), problems));
    let body = body?;
    Some(HttpRequest {
        method: method.unwrap_or_else(|| Some(default_method(body)))?.to_owned(),
        url: url?,
        headers: headers.unwrap_or_default(),
        body: body.to_owned(),
        expect: expect?,
        redirects: redirects?,
    })
}

fn request(url: String) -> HttpRequest {
    let method = default_method("").to_owned();
    HttpRequest { method, url, headers: BTreeMap::new(), body: String::new(), expect: Vec::new(), redirects: 0 }
}

pub(crate) fn compile_url(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    let text = spot.text("https://example.com/", problems)?;
    match url_fault(text) {
        None => Some(text.to_owned()),
        Some(fault) => {
            spot.fault(problems, fault);
            None
        }
    }
}

fn url_fault(text: &str) -> Option<String> {
    if text.len() > MAX_URL_BYTES {
        return Some(format!("found a URL of {} bytes, wanted at most {MAX_URL_BYTES} (8 KiB)", text.len()));
    }
    // The URL parser drops these characters silently, so the request would differ from the text.
    if let Some(c) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        return Some(format!("found {c:?} in a URL, wanted it percent-encoded"));
    }
    // The node will fill in the credentials. If a credential is the whole URL, nothing can be
    // judged. Otherwise any word serves to judge the rest.
    let filled = secret_reference::fill::<ReferenceError>(text, |_| Ok("x".to_owned()));
    let text = match filled {
        Ok(filled) if !secret_reference::is_all_of(text) => filled,
        Ok(_) | Err(_) => return None,
    };
    // The URL appears in no message, because it may contain a password.
    let url = match reqwest::Url::parse(&text) {
        Ok(url) => url,
        Err(error) => return Some(format!("found no valid URL ({error}), wanted one such as \"https://example.com/\"")),
    };
    if !matches!(url.scheme(), "http" | "https") {
        // The text before a mere colon may be a user, with the password behind it.
        let scheme = if text.contains("://") { quoted(url.scheme()) } else { "(not shown)".to_owned() };
        return Some(format!("found the scheme {scheme}, wanted http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some("found a user or password in the URL, wanted it in a header such as Authorization".to_owned());
    }
    url.host_str().is_none_or(str::is_empty).then(|| "found a URL without a host, wanted one".to_owned())
}

fn compile_headers(table: &TableReader<'_>, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, name_span, spot) in table.entries() {
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            problems.fault(&spot.path, name_span, "not a header name, wanted letters, digits and - only");
        } else if OWN_HEADERS.contains(&lower.as_str()) {
            problems.fault(&spot.path, name_span, "not allowed: schedd sets this header itself from the URL and the body");
        } else if headers.keys().any(|known| known.eq_ignore_ascii_case(name)) {
            problems.fault(&spot.path, name_span, "given twice: case does not matter in header names");
        }
        if let Some(value) = spot.text("schedd", problems) {
            if value.chars().any(|c| c.is_control() && c != '\t') {
                // The value is not shown, because it may grant access.
                spot.fault(problems, "found one of them, wanted a value without line breaks or control characters");
            }
            headers.insert(name.to_owned(), value.to_owned());
        }
    }
    let total: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    if total > MAX_HEADER_BYTES {
        let message = format!("found headers of {total} bytes, wanted at most {MAX_HEADER_BYTES} (64 KiB) in all");
        problems.fault(&table.path, table.span.clone(), message);
    }
    headers
}

/// Returns true if `byte` may be part of a token (RFC 9110, 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn compile_expect(spot: &Spot<'_>, problems: &mut Problems) -> Option<Vec<u16>> {
    let Some(items) = spot.as_items() else {
        return spot.wanted(problems, "a list of statuses such as [200, 204]");
    };
    let statuses: Vec<Option<u16>> = items.map(|item| item.integer(&(100..=599), problems)).collect();
    let mut statuses: Vec<u16> = statuses.into_iter().collect::<Option<_>>()?;
    // The list is a set, so that two ways to write it give one definition.
    statuses.sort_unstable();
    statuses.dedup();
    Some(statuses)
}
