//! The error for an iCalendar file that schedd refuses.

/// The reason why schedd refuses an iCalendar file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcsError {
    /// The line number of the fault, counted from 1.
    pub line: usize,
    /// The problem, described in one line.
    pub problem: String,
}
