//! The path before all routes, as the browser sees it.

use axum::http::request::Parts;

use super::origin_check::forwarded;
use crate::api::api_state::ApiState;

/// The maximum length of a prefix.
const MOST_BYTES: usize = 200;

/// Returns the path before all routes, as the browser sees it: `base_path`, behind the prefix that a
/// trusted proxy takes off and names in `X-Forwarded-Prefix`.
pub(in crate::api) fn site_base(state: &ApiState, parts: &Parts) -> String {
    let prefix = forwarded(state, parts, "x-forwarded-prefix").unwrap_or_default();
    let prefix = prefix.trim_end_matches('/');
    let prefix = if is_path(prefix) { prefix } else { "" };
    format!("{prefix}{}", state.config.base_path)
}

/// Returns true if links of a page may begin with `prefix`: it is a path of this host.
fn is_path(prefix: &str) -> bool {
    let is_word = |word: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        !word.is_empty() && !matches!(word, "." | "..") && word.bytes().all(is_plain)
    };
    let words = prefix.strip_prefix('/').map(|rest| rest.split('/').all(is_word));
    prefix.len() <= MOST_BYTES && words == Some(true)
}

#[cfg(test)]
mod tests {
    use super::is_path;

    #[test]
    fn a_prefix_is_a_path_of_this_host() {
        for good in ["/a", "/ops/schedd", "/a.b_c~d-1"] {
            assert!(is_path(good), "{good}");
        }
        for bad in
            ["", "/", "a", "//evil.example", "/a//b", "/a/../b", "/a\"><script>", "/a%2F", "/a b"]
        {
            assert!(!is_path(bad), "{bad}");
        }
        assert!(!is_path(&format!("/{}", "a".repeat(300))));
    }
}
