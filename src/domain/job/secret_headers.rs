//! Header fields with secret values, such as `authorization`. schedd warns if everybody can read a
//! file with such a value. It does not send the field to another host after a redirect.

/// The names of header fields with secret values, in lower case.
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

/// Returns true if the header field `name` has a secret value, in any letter case.
pub fn is_secret_header(name: &str) -> bool {
    SECRET_HEADERS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}
