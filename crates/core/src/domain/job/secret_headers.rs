//! Header fields with secret values, such as `authorization`. schedd warns if everybody can read a
//! file with such a value. After a redirect to another host, schedd does not send such a field.

/// The words that mark a secret value wherever they stand in the name of a header field.
const SECRET_WORDS: [&str; 15] = [
    "apikey",
    "auth",
    "authentication",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "jwt",
    "password",
    "secret",
    "session",
    "signature",
    "token",
    "tokens",
];

/// The words that mark a secret value if the word `key` follows in the name of the header field, as
/// in `X-Api-Key`. Other fields with `key`, such as `Idempotency-Key`, are not secret.
const SECRET_KEYS: [&str; 13] = [
    "access",
    "account",
    "admin",
    "api",
    "app",
    "auth",
    "function",
    "functions",
    "license",
    "master",
    "private",
    "service",
    "subscription",
];

/// Returns true if the header field `name` has a secret value, judged by the words of the name in
/// any letter case. Hyphens and underscores separate words.
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(['-', '_']).collect();
    let is_secret_key = |pair: &[&str]| matches!(pair, [before, after] if *after == "key" && SECRET_KEYS.contains(before));
    words.iter().any(|word| SECRET_WORDS.contains(word)) || words.windows(2).any(is_secret_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_secret_by_a_word_of_its_name() {
        for name in [
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "X-API-Key",
            "api_key",
            "apikey",
            "X-Token",
            "X-Consul-Token",
            "X-Amz-Security-Token",
            "X-Auth",
            "X-Auth-Key",
            "X-Secret",
            "X-Hub-Signature-256",
            "Ocp-Apim-Subscription-Key",
            "X-Functions-Key",
            "DD-API-KEY",
        ] {
            assert!(is_secret_header(name), "{name}");
        }
        for name in [
            "Accept",
            "Content-Type",
            "Idempotency-Key",
            "X-Author",
            "X-Cache-Key",
            "User-Agent",
            "Key",
            "X-Request-Id",
            "Tokenizer",
        ] {
            assert!(!is_secret_header(name), "{name}");
        }
    }
}
