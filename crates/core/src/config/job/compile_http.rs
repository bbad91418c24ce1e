//! The compiler of `http`: a URL, or a table with a URL.
//!
//! Header fields and line breaks that would change the framing of the request are refused.
//! Passwords in URLs are refused too, because URLs appear in logs and tables.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compile_env::write_texts;
use crate::config::key::json_sheet::{Form, Sheet};
use crate::config::key::key_kind::{Custom, IntegerKind, as_text};
use crate::config::key::origin::Reading;
use crate::config::key::table_key::{TableKey, always, key, names, read_keys, write_keys};
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
/// The header fields that schedd's HTTP client itself sets from the URL and the body.
const OWN_HEADERS: &[&str] = &["host", "content-length", "transfer-encoding"];

/// Returns the method of a request that names no method: GET, or POST with a body.
pub(crate) fn default_method(body: &str) -> &'static str {
    if body.is_empty() { "GET" } else { "POST" }
}

/// The keys of `http = { ... }`. The URL, the body and the method are read in this order.
pub(crate) const HTTP: &[TableKey<HttpRequest>] = &[
    always(key!("url", url, Custom(|spot, reading| compile_url(spot, reading.problems), as_text))),
    key!(
        "body",
        body,
        Custom(|spot, reading| spot.text("{}", reading.problems).map(str::to_owned), as_text)
    ),
    key!(
        "method",
        method,
        Custom(|spot, reading| spot.choice(METHODS, reading.problems).map(str::to_owned), as_text)
    ),
    TableKey::new(
        "headers",
        |spot, reading, request| {
            // A faulty header field was noted as a fault. The request is still compiled, to find
            // further faults.
            if let Some(table) =
                spot.table("a table such as { X-From = \"schedd\" }", reading.problems)
            {
                request.headers = compile_headers(&table, reading.problems);
            }
            Some(())
        },
        |request, _| write_texts(&request.headers),
        |request, other| request.headers == other.headers,
    ),
    key!(
        "expect",
        expect,
        Custom(
            |spot, reading| compile_expect(spot, reading.problems),
            |list, _| list.clone().into()
        )
    ),
    key!("redirects", redirects, IntegerKind(0..=10)),
];

/// Compiles the request of the key `http`: a URL, or a table. Returns `None` if a fault was noted.
pub(crate) fn compile_http(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<HttpRequest> {
    if spot.as_text().is_some() {
        return Some(plain(compile_url(spot, reading.problems)?, default_method("")));
    }
    let wanted = "a URL or a table such as { method = \"POST\", url = \"https://example.com/\" }";
    let table = spot.table(wanted, reading.problems)?;
    let slips = table.refuse_other_keys(&[&names(HTTP)], &[], reading.problems);
    let has_url = table.get("url").is_some();
    if !has_url && !slips.may_be(&["url"]) {
        spot.fault(reading.problems, "found no url, wanted url = \"https://example.com/\"");
    }
    let mut request = plain(String::new(), "");
    let read = read_keys(HTTP, &table, reading, &mut request);
    if request.method.is_empty() {
        default_method(&request.body).clone_into(&mut request.method);
    }
    (has_url && read.faulty.is_empty()).then_some(request)
}

/// Returns `request` as JSON. The method is left out if it equals `unnamed`, the default method of
/// this request.
pub(crate) fn write_http(request: &HttpRequest, unnamed: &str) -> Value {
    let mut out = Sheet::default();
    write_keys(HTTP, request, &plain(String::new(), unnamed), Form::Stored, &mut out);
    out.value()
}

fn plain(url: String, method: &str) -> HttpRequest {
    HttpRequest { method: method.to_owned(), ..HttpRequest::post(url) }
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
        return Some(format!(
            "found a URL of {} bytes, wanted at most {MAX_URL_BYTES} (8 KiB)",
            text.len()
        ));
    }
    // The URL parser drops these characters silently, so the request would differ from the text.
    if let Some(c) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        return Some(format!("found {c:?} in a URL, wanted this character percent-encoded"));
    }
    // The node inserts the credentials later. A URL that is only a credential cannot be checked. In
    // any other URL each credential is replaced by `x` for the check.
    let filled = secret_reference::fill::<ReferenceError>(text, |_| Ok("x".to_owned()));
    let text = match filled {
        Ok(filled) if !secret_reference::is_all_of(text) => filled,
        Ok(_) | Err(_) => return None,
    };
    // The URL appears in no message, because it may contain a password.
    let url = match url::Url::parse(&text) {
        Ok(url) => url,
        Err(error) => {
            return Some(format!(
                "found an invalid URL ({error}), wanted a URL such as \"https://example.com/\""
            ));
        }
    };
    if !matches!(url.scheme(), "http" | "https") {
        // Without `://`, the text before the colon may be a user and the text after it a password.
        let scheme =
            if text.contains("://") { quoted(url.scheme()) } else { "(not shown)".to_owned() };
        return Some(format!("found the scheme {scheme}, wanted http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some(
            "found a user or password in the URL, wanted a header such as Authorization instead"
                .to_owned(),
        );
    }
    url.host_str()
        .is_none_or(str::is_empty)
        .then(|| "found a URL without a host, wanted \"https://HOST/\"".to_owned())
}

fn compile_headers(table: &TableReader<'_>, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, name_span, spot) in table.entries() {
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            problems.fault(
                &spot.path,
                name_span,
                "not a header name, wanted only letters, digits and -",
            );
        } else if OWN_HEADERS.contains(&lower.as_str()) {
            problems.fault(
                &spot.path,
                name_span,
                "header not allowed, because schedd sets it from the URL and the body: \
                 remove this header",
            );
        } else if headers.keys().any(|known| known.eq_ignore_ascii_case(name)) {
            problems.fault(
                &spot.path,
                name_span,
                "found this header twice (upper and lower case are equal in header names), wanted it once",
            );
        }
        if let Some(value) = spot.text("schedd", problems) {
            if value.chars().any(|c| c.is_control() && c != '\t') {
                // The value of the header field is not shown, because it may grant access.
                spot.fault(
                    problems,
                    "found a control character, wanted a value without line breaks or control \
                     characters",
                );
            }
            headers.insert(name.to_owned(), value.to_owned());
        }
    }
    let total: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    if total > MAX_HEADER_BYTES {
        let message = format!(
            "found headers of {total} bytes, wanted at most {MAX_HEADER_BYTES} (64 KiB) in all"
        );
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
    let statuses: Vec<Option<u16>> =
        items.map(|item| item.integer(&(100..=599), problems)).collect();
    let mut statuses: Vec<u16> = statuses.into_iter().collect::<Option<_>>()?;
    // The statuses are sorted without duplicates, so that equal sets give equal definitions.
    statuses.sort_unstable();
    statuses.dedup();
    Some(statuses)
}
