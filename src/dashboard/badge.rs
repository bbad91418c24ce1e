//! The word for a state, with its colour and sign.

use std::fmt;

/// The word for a state as an element of a page. The stylesheet gives each state a colour and a
/// sign, and the word is always there too.
pub(super) struct Badge<'s>(pub(super) &'s str);

impl fmt::Display for Badge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = |separator: char| {
            self.0.chars().map(move |c| if c.is_ascii_lowercase() { c } else { separator })
        };
        let (class, words): (String, String) = (letters('-').collect(), letters(' ').collect());
        write!(f, "<span class=\"badge {class}\">{words}</span>")
    }
}

// It writes only letters and separators.
impl askama::filters::HtmlSafe for Badge<'_> {}

#[cfg(test)]
mod tests {
    use super::Badge;

    #[test]
    fn a_badge_has_only_letters() {
        let badge = Badge("timed_out").to_string();
        assert_eq!(badge, "<span class=\"badge timed-out\">timed out</span>");
        assert_eq!(Badge("<b").to_string(), "<span class=\"badge -b\"> b</span>");
    }
}
