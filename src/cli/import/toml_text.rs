//! Texts as values of TOML, in the quotes that need the fewest escapes.

use schedd_core::config;

/// Returns a text as a value of TOML on a single line.
pub(super) fn toml_text(text: &str) -> String {
    let is_plain = !text.contains(char::is_control);
    if is_plain && !text.contains(['"', '\\']) {
        format!("\"{text}\"")
    } else if is_plain && !text.contains('\'') {
        format!("'{text}'")
    } else if is_plain && !text.contains("'''") && !text.ends_with('\'') {
        format!("'''{text}'''")
    } else {
        config::toml_string(text)
    }
}

/// Returns a comment of TOML with this text.
pub(super) fn toml_comment(text: &str) -> String {
    // A comment of TOML cannot have other control characters than tabs.
    let text: String = text.chars().filter(|sign| *sign == '\t' || !sign.is_control()).collect();
    let text = text.trim_end();
    if text.is_empty() || text.starts_with('#') { text.to_owned() } else { format!("# {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_quoted_so_that_toml_reads_the_same_text() {
        for text in [
            "plain",
            "it's",
            "say \"x\"",
            "back\\slash",
            "both ' and \"",
            "three ''' quotes \"",
            "ends with '\"'",
            "a\tb\nc\u{7}",
            "'\"",
            "",
            "\\",
            "\u{e9}\u{202e}",
            "'''",
            "$HOME ${X} %",
        ] {
            let line = format!("x = {}", toml_text(text));
            assert!(!line.contains('\n'), "{line}");
            let table: toml::Table = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(table["x"].as_str(), Some(text), "{line}");
        }
        assert_eq!(toml_comment("a\u{1b}[31m\tb\r"), "# a[31m\tb");
    }
}
