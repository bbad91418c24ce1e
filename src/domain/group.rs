//! What holds for a group: jobs of which one runs at a time, in due order or by turns.

use std::time::Duration;

use super::duration::format_duration;
use super::ids::JobName;
use super::time::UnixMillis;
use super::wording::shown;
use super::zone::Zone;

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

/// Until when time alone keeps a group shut of which nobody has the place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shut {
    /// Its gap, and when that is over.
    pub gap: Option<(Duration, UnixMillis)>,
    /// Its patience with the member whose turn it is and of which none waits, and when that is over.
    pub patience: Option<(Duration, UnixMillis)>,
}

impl Shut {
    /// That its gap lasts, in words.
    pub fn gap_words(&self, zone: &Zone) -> Option<String> {
        let (gap, over) = self.gap?;
        Some(format!("its gap of {} lets the next begin on {}", format_duration(gap), shown(over, zone)))
    }

    /// Whose turn it is, in words, and that its patience with that member lasts.
    pub fn turn_words(&self, turn: &str, zone: &Zone) -> String {
        let patience = self.patience.map_or_else(String::new, |(patience, over)| {
            let (patience, over) = (format_duration(patience), shown(over, zone));
            format!(", of which none waits: its patience of {patience} lasts until {over}")
        });
        format!("it is the turn of {turn}{patience}")
    }
}

impl Turns {
    /// When the gap after the last end is over; none if it is. One that would be over later than it lasts was written before the clock
    /// was set back.
    pub fn gap_over(&self, last_ended: Option<UnixMillis>, now: UnixMillis) -> Option<UnixMillis> {
        let over = last_ended?.saturating_add(self.gap);
        (over > now && over <= now.saturating_add(self.gap)).then_some(over)
    }

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
