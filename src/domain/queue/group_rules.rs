//! The settings of a group: a set of jobs of which one runs at a time, in due order or by turns.

use std::time::Duration;

use crate::domain::name::names::JobName;
use crate::domain::time::duration::format_duration;
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::wording::shown;
use crate::domain::time::zone::Zone;

/// The settings of a group, from `[groups.X]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum GroupSettings {
    /// The jobs run one at a time, in due order.
    #[default]
    Exclusive,
    /// The jobs run one at a time, and take turns.
    Alternate(TurnRules),
}

/// The rules by which the members of a group take turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRules {
    /// The members in the order of their turns: 2 to [`TurnRules::MOST_MEMBERS`], each once.
    pub order: Vec<JobName>,
    /// The minimum time between the end of a run and the start of the next. 0 to 1 day.
    pub gap: Duration,
    /// The time that a turn waits for a member with nothing due. 0 to 1 day.
    pub turn_timeout: Duration,
}

/// The times until which a group without a holder stays closed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shut {
    /// The gap of the group, and the time when it ends.
    pub gap: Option<(Duration, UnixMillis)>,
    /// The time the group waits for the member whose turn it is and which has no waiting run, and
    /// when that wait ends.
    pub turn_timeout: Option<(Duration, UnixMillis)>,
}

impl Shut {
    /// Describes the gap of the group, if it lasts.
    pub fn gap_words(&self, zone: &Zone) -> Option<String> {
        let (gap, over) = self.gap?;
        Some(format!("its gap of {} ends on {}", format_duration(gap), shown(over, zone)))
    }

    /// Describes whose turn it is, and how long the group waits for that member.
    pub fn turn_words(&self, turn: &str, zone: &Zone) -> String {
        let turn_timeout = self.turn_timeout.map_or_else(String::new, |(turn_timeout, over)| {
            let (turn_timeout, over) = (format_duration(turn_timeout), shown(over, zone));
            format!(", which has no waiting run: its turn timeout of {turn_timeout} ends on {over}")
        });
        format!("it is the turn of {turn}{turn_timeout}")
    }
}

impl TurnRules {
    /// Returns the time when the gap after the last end is over, or `None` if it is over already.
    /// If that time is more than `gap` ahead, the end was recorded before the clock was set back.
    /// It then does not count.
    pub fn gap_over(&self, last_ended: Option<UnixMillis>, now: UnixMillis) -> Option<UnixMillis> {
        let over = last_ended?.saturating_add(self.gap);
        (over > now && over <= now.saturating_add(self.gap)).then_some(over)
    }

    /// The maximum number of members in a group.
    pub const MOST_MEMBERS: usize = 100;
    /// The default gap.
    pub const GAP: Duration = Duration::ZERO;
    /// The default time a turn waits for a member.
    pub const TURN_TIMEOUT: Duration = Duration::from_secs(60);
}

impl GroupSettings {
    /// The value of `mode` in the settings.
    pub fn mode(&self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Alternate(_) => "alternate",
        }
    }
}
