//! What holds for a group: jobs of which one runs at a time, in due order or by turns.

use std::time::Duration;

use super::ids::JobName;

/// The settings of one group, as `[groups.X]` names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum GroupSettings {
    /// One at a time, in due order.
    #[default]
    Exclusive,
    /// One at a time, its members by turns.
    Alternate(Turns),
}

/// How the members of a group take turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turns {
    /// Its members, in the order of their turns; 2 to [`Turns::MOST_MEMBERS`], each once.
    pub order: Vec<JobName>,
    /// The least time between the end of one and the start of the next. 0 to 1 day.
    pub gap: Duration,
    /// How long a turn waits for a member that has nothing due. 0 to 1 day.
    pub patience: Duration,
}

impl Turns {
    /// The most members of a group.
    pub const MOST_MEMBERS: usize = 100;
    /// The gap where none is named.
    pub const GAP: Duration = Duration::ZERO;
    /// The patience where none is named.
    pub const PATIENCE: Duration = Duration::from_secs(60);
}

impl GroupSettings {
    /// The word for how it is shared.
    pub fn mode(&self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Alternate(_) => "alternate",
        }
    }
}
