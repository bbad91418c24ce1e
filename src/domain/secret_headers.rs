//! Header fields whose values let somebody in: the one list for warnings of readable files and for redirects.

/// Their names, in lower case.
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

/// Whether the value of the header field `name` lets somebody in.
pub fn is_secret_header(name: &str) -> bool {
    SECRET_HEADERS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}
