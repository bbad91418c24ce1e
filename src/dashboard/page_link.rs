//! Addresses of pages: paths with names in them, and queries.

use std::fmt::Write as _;

/// Returns `text` as a word of a path or of a query: all bytes but unreserved characters (RFC 3986)
/// are escaped.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Returns the path of the page of a job, without the path before all routes.
pub(crate) fn job_path(name: &str) -> String {
    format!("/jobs/{}", encoded(name))
}

/// Returns the path of the explanation why a job did or did not run. `at` is a time, or the id of a
/// run.
pub(crate) fn explain_path(job: &str, at: &str) -> String {
    format!("{}{}#explain-title", job_path(job), query(&[("at", at)]))
}

/// Returns the path of the page of a run, without the path before all routes.
pub(crate) fn run_path(run: &str) -> String {
    format!("/runs/{}", encoded(run))
}

/// Returns a query with the parameters that are not empty, such as `?q=a&state=paused`. Returns an
/// empty text if all are empty.
pub(crate) fn query(parameters: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        out.push(if out.is_empty() { '?' } else { '&' });
        let _ = write!(out, "{name}={}", encoded(value));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_word_of_its_path() {
        assert_eq!(encoded("a/b c?#ä@1"), "a%2Fb%20c%3F%23%C3%A4%401");
        assert_eq!(query(&[("q", "a&b"), ("state", ""), ("tag", "x=y")]), "?q=a%26b&tag=x%3Dy");
        assert_eq!(query(&[("q", "")]), "");
    }
}
