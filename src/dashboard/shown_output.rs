//! The output of a run on a page: the first and the last lines, each of a bounded length. No
//! character of the output controls the browser.

use crate::cli::embedded::safe_text;
use schedd_schedule::time::wording::end_within;

/// The number of lines shown from the start and from the end.
const LINES: usize = 100;
/// The number of bytes shown of a line.
const MOST_BYTES: usize = 1_000;

/// The output of a run, as a page shows it.
pub(crate) struct ShownOutput {
    /// The first lines, or all lines if there are few.
    pub(crate) head: String,
    /// The number of lines between the first and the last lines.
    pub(crate) left_out: usize,
    /// The last lines. Empty if `head` has all lines.
    pub(crate) tail: String,
}

impl ShownOutput {
    pub(crate) fn new(output: &str) -> Self {
        let lines: Vec<&str> = output.lines().collect();
        if lines.len() <= 2 * LINES {
            return Self { head: shown(&lines), left_out: 0, tail: String::new() };
        }
        let (head, rest) = lines.split_at(LINES);
        let (middle, tail) = rest.split_at(rest.len() - LINES);
        Self { head: shown(head), left_out: middle.len(), tail: shown(tail) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_empty()
    }
}

/// Returns the lines as one text. The end of a long line is cut.
fn shown(lines: &[&str]) -> String {
    let shown = |line: &&str| {
        let end = end_within(line, MOST_BYTES.min(line.len()));
        let cut = if end < line.len() {
            format!(" ... ({} bytes more)", line.len() - end)
        } else {
            String::new()
        };
        format!("{}{cut}\n", safe_text(&line.as_bytes()[..end]))
    };
    lines.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_bounded_in_lines_and_bytes_and_controls_nothing() {
        let output = ShownOutput::new("a\u{1b}[2J\n\tb\u{202e}c");
        assert_eq!(output.head, "a\\u{1b}[2J\n\tb\\u{202e}c\n");
        let long = ShownOutput::new(&"ä".repeat(1_000_000));
        assert!(long.head.ends_with("ä ... (1999000 bytes more)\n") && long.head.len() < 1_100);
        let lines: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
        let many = ShownOutput::new(&lines.join("\n"));
        assert!(many.head.ends_with("\n99\n") && many.tail.starts_with("900\n"));
        assert_eq!(many.left_out, 800);
        assert!(ShownOutput::new("").is_empty());
    }
}
