//! The modifiers that keep an instant of a schedule from being an occurrence.

/// The modifier because of which an instant of a schedule does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// The instant lies before `start`.
    Start,
    /// The instant lies after `end`, or after the last of `max_runs`.
    End,
    /// The day of the instant is not in `only_on`.
    OnlyOn,
    /// The day of the instant is in `exclude`.
    Exclude,
}

impl LeftOut {
    /// Returns the key in the definition that excludes the instant.
    pub fn key(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::OnlyOn => "only_on",
            Self::Exclude => "exclude",
        }
    }
}
