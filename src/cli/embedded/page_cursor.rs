//! The cursor of a page: a text that only schedd reads, from which the next page begins.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use schedd_store::IndexCursor;

/// Returns the text of a cursor: the word of its index, and the place there.
pub(crate) fn write_cursor(index: &str, at: &IndexCursor) -> String {
    URL_SAFE_NO_PAD.encode(format!("{index} {} {}", at.score, at.member))
}

/// Reads the text of a cursor. Returns the word of its index, and the place there. Returns `None`
/// for any other text.
pub(crate) fn read_cursor(text: &str) -> Option<(String, IndexCursor)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    let mut words = text.splitn(3, ' ');
    let (index, score, member) = (words.next()?, words.next()?, words.next()?);
    let score: f64 = score.parse().ok().filter(|score: &f64| !score.is_nan())?;
    Some((index.to_owned(), IndexCursor { score, member: member.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_any_other_text_is_refused() {
        for at in [
            IndexCursor::lowest(),
            IndexCursor::below(None),
            IndexCursor { score: 1_790_000_000_000.0, member: "a b".to_owned() },
        ] {
            assert_eq!(read_cursor(&write_cursor("x", &at)), Some(("x".to_owned(), at)));
        }
        for bad in ["", "!", "eA", "eCBOYU4gYQ", &URL_SAFE_NO_PAD.encode("x NaN a")] {
            assert_eq!(read_cursor(bad), None, "{bad}");
        }
    }
}
