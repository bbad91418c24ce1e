//! The error for an iCalendar file that is refused.

/// The reason why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcsError {
    /// The line number of the fault, counted from 1.
    pub line: usize,
    /// The problem, described in one line.
    pub problem: String,
}
