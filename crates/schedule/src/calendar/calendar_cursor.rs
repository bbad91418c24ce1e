//! The position of the parser of calendar expressions, and the faults that point at a position.

/// The reason why a calendar expression is refused: the byte where the fault begins, and the
/// problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CalendarFault {
    pub(super) offset: usize,
    pub(super) problem: String,
}

/// The position of the parser in a calendar expression.
pub(super) struct CalendarCursor<'a> {
    pub(super) text: &'a str,
    /// The position in `text`, in bytes, of the next character to read.
    pub(super) at: usize,
}

impl CalendarCursor<'_> {
    /// Returns the text that is not read yet.
    pub(super) fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the next character without consuming it. Returns `None` at the end.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Moves the cursor past blanks.
    pub(super) fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(' ').len();
    }

    fn character(&self, offset: usize) -> usize {
        self.text.get(..offset).map_or(0, |before| before.chars().count()) + 1
    }

    /// Returns a fault at the cursor. The message has the next character with its position, then
    /// `problem`.
    pub(super) fn fault(&self, problem: &str) -> CalendarFault {
        let at = self.character(self.at);
        let problem = match self.peek() {
            Some(found) => format!("{found:?} at character {at} {problem}"),
            None => format!("the end of the text after character {} {problem}", at - 1),
        };
        CalendarFault { offset: self.at, problem }
    }

    /// Returns a fault at byte `offset`. The message has `found` with its position, then `problem`.
    pub(super) fn fault_at(&self, offset: usize, found: &str, problem: &str) -> CalendarFault {
        let at = self.character(offset);
        CalendarFault { offset, problem: format!("{found} at character {at} {problem}") }
    }
}
