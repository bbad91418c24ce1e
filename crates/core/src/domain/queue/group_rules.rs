//! The settings of a group. Only one job of a group runs at a time. The jobs start in the order of
//! their due times, or they take turns.

use std::time::Duration;

use schedd_schedule::names::JobName;
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::shown;
use schedd_schedule::time::zone::Zone;

/// The settings of a group, from `[groups.X]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum GroupSettings {
    /// Only one job runs at a time. The run with the earliest due time starts first.
    #[default]
    Exclusive,
    /// Only one job runs at a time, and the jobs take turns.
    Alternate(TurnRules),
}

/// The rules by which the members of a group take turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRules {
    /// The members of the group in the order of their turns, each once. 2 to
    /// [`TurnRules::MOST_MEMBERS`] members.
    pub order: Vec<JobName>,
    /// The minimum time from the end of a run of the group to the start of its next run, 0 to 1
    /// day.
    pub gap: Duration,
    /// The maximum time that the group waits for the member that has the turn but no due run, 0 to
    /// 1 day.
    pub turn_timeout: Duration,
}

/// The times until which the gate of a group without a holder stays closed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shut {
    /// The gap of the group, and the time when the gap ends. `None` if no gap keeps the group
    /// closed.
    pub gap: Option<(Duration, UnixMillis)>,
    /// The time before which the next turn does not begin, because a run or an operator set it.
    /// `None` if no such time keeps the group closed.
    pub not_before: Option<UnixMillis>,
    /// The turn timeout of the group, and the time when it ends. `None` if the group does not wait
    /// for the member that has the turn.
    pub turn_timeout: Option<(Duration, UnixMillis)>,
}

impl Shut {
    /// Returns a sentence about the time at which the group opens: the end of its gap, or the time
    /// that was set for the next turn. Returns `None` if neither keeps the group closed.
    pub fn gap_words(&self, zone: &Zone) -> Option<String> {
        if let Some(at) = self.not_before.filter(|at| self.gap.is_none_or(|(_, over)| over <= *at))
        {
            let at = shown(at, zone);
            return Some(format!("A run or a user set the next turn to begin on {at}."));
        }
        let (gap, over) = self.gap?;
        Some(format!(
            "The gap of {length} ends on {end}.",
            length = format_duration(gap),
            end = shown(over, zone)
        ))
    }

    /// Returns a sentence about the job `turn`, whose turn it is in the group, and about the end of
    /// the turn timeout.
    pub fn turn_words(&self, turn: &str, zone: &Zone) -> String {
        let and_timeout = self.turn_timeout.map_or_else(String::new, |(turn_timeout, over)| {
            let (turn_timeout, end) = (format_duration(turn_timeout), shown(over, zone));
            format!(", which has no waiting run. The turn timeout of {turn_timeout} ends on {end}")
        });
        format!("The turn belongs to job {turn}{and_timeout}.")
    }
}

impl TurnRules {
    /// Returns the end of the gap after the group's last run, which ended at `last_ended`. Returns
    /// `None` if no gap keeps the group closed. A `last_ended` after `now` is ignored, because the
    /// clock was set back.
    pub fn gap_over(&self, last_ended: Option<UnixMillis>, now: UnixMillis) -> Option<UnixMillis> {
        let over = last_ended?.saturating_add(self.gap);
        (over > now && over <= now.saturating_add(self.gap)).then_some(over)
    }

    /// The maximum number of members in a group.
    pub const MOST_MEMBERS: usize = 100;
    /// The default gap between two runs of a group.
    pub const GAP: Duration = Duration::ZERO;
    /// The default turn timeout.
    pub const TURN_TIMEOUT: Duration = Duration::from_secs(60);
}

impl GroupSettings {
    /// Returns the value of `mode` in the settings of the group.
    pub fn mode(&self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Alternate(_) => "alternate",
        }
    }
}
