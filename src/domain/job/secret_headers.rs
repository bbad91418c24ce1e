//! Header fields whose values grant access. Both the warnings about readable files and the rule
//! for redirects use this list.

/// The names of the header fields, in lower case.
pub const SECRET_HEADERS: &[&str] = &[
    "api-key",
    "apikey",
    "authorization",
    "cookie",
    "dd-api-key",
    "ocp-apim-subscription-key",
    "private-token",
    "proxy-authorization",
    "x-access-token",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-key",
    "x-auth-token",
    "x-functions-key",
    "x-gitlab-token",
    "x-goog-api-key",
    "x-shopify-access-token",
    "x-vault-token",
];

/// Returns true if the value of the header field `name` grants access.
pub fn is_secret_header(name: &str) -> bool {
    SECRET_HEADERS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}
