//! The modifiers that keep an instant of a schedule from being an occurrence.

/// The modifier that excludes an instant of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// The instant lies before `start`.
    Start,
    /// The instant lies after `end`, or after the last run that `max_runs` allows.
    End,
    /// The day of the instant is not in `only_on`.
    OnlyOn,
    /// The day of the instant is in `exclude`.
    Exclude,
}

impl LeftOut {
    /// Returns the name of the modifier, which is its key in a definition.
    pub fn key(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::OnlyOn => "only_on",
            Self::Exclude => "exclude",
        }
    }
}
