//! The pages of the dashboard.

/// A page of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PageKind {
    /// The list of jobs.
    Jobs,
    /// The choices of the reader: the zone of times, and the colours.
    Choices,
}
