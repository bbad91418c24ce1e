//! Escaping of characters that control a terminal: control characters, and characters that change
//! the direction of writing.

use std::borrow::Cow;
use std::fmt::Write as _;

use schedd_schedule::time::wording::steers;

/// Returns the text on one line. Every control and direction character is escaped, including line
/// breaks.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text, |_| false)
}

/// Returns bytes as text for a terminal. Control and direction characters are escaped, except line
/// breaks and tabs.
pub(crate) fn safe_text(bytes: &[u8]) -> String {
    escaped(&String::from_utf8_lossy(bytes).replace("\r\n", "\n"), |c| matches!(c, '\n' | '\t'))
}

/// Returns a JSON text for a terminal. The document stays the same, but control and direction
/// characters become `\u` escapes.
pub(crate) fn safe_json(json: &str) -> Cow<'_, str> {
    if !json.contains(steers) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if steers(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn escaped(text: &str, keeps: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) && !keeps(c) {
            match c {
                '\n' | '\r' | '\t' => out.extend(c.escape_default()),
                c => {
                    let _ = write!(out, "{}", c.escape_unicode());
                }
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        let text = "a\u{1b}]52;c;eA==\u{7}b\rc\u{9b}31m\u{202e}d\u{2066}e";
        let safe = safe_text(text.as_bytes());
        assert_eq!(safe, "a\\u{1b}]52;c;eA==\\u{7}b\\rc\\u{9b}31m\\u{202e}d\\u{2066}e");
        assert_eq!(safe_text(b"x\r\ny\tz\xff\n"), "x\ny\tz\u{fffd}\n");
        assert_eq!(one_line("x\ny\tz ä"), "x\\ny\\tz ä");
    }

    #[test]
    fn json_for_a_terminal_is_the_same_document_and_steers_nothing() {
        let document = serde_json::json!({"out": "a\u{1b}]52\u{7}\u{9b}31m\u{202e}d\u{2066}\ne \u{e4}", "n": [1, null]});
        let safe = safe_json(&document.to_string()).into_owned();
        assert!(!safe.contains(steers) && safe.contains(r"\u009b31m\u202ed"), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), document);
        assert!(matches!(safe_json("{\"a\":1}"), Cow::Borrowed(_)));
    }
}
