//! A run, its attempts, and the gate where it waits.

use std::time::Duration;

use crate::domain::job::notice::Deadline;
use crate::domain::name::names::RunId;
use crate::domain::queue::group_rules::Shut;
use crate::domain::queue::lane::Lane;
use crate::domain::queue::lane_serving::Unserved;
use crate::domain::queue::rate::Rate;
use crate::domain::run::run_state::RunState;
use crate::domain::time::unix_millis::UnixMillis;

/// A run that starts within this time of its due time is on time.
pub const ON_TIME: Duration = Duration::from_secs(1);

/// A run.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// Its id.
    pub run: RunId,
    /// Its lane.
    pub lane: Lane,
    /// Its state.
    pub state: RunState,
    /// The reason why the run is in this state.
    pub reason: Option<String>,
    /// Who cancelled it, or asked it to stop.
    pub by: Option<String>,
    /// Who asked for it, if it was started by hand.
    pub asked_by: Option<String>,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptFacts>,
    /// When it was first claimed.
    pub first_start: Option<UnixMillis>,
    /// When it became ready for its first claim.
    pub ready_at: UnixMillis,
    /// When it ended.
    pub finished_at: Option<UnixMillis>,
    /// When it may be claimed, while it is scheduled.
    pub ready: Option<UnixMillis>,
    /// True if it was missed and `catch_up` gave it a later time.
    pub is_spread: bool,
    /// Its place while it is scheduled.
    pub place: Place,
    /// True if it was asked to stop.
    pub is_asked_to_stop: bool,
    /// The open run behind which it waited or was skipped.
    pub behind: Option<RunId>,
    /// The gate at which it waits, or waited last.
    pub gate: Option<AtGate>,
    /// The gate that let it in, while it is in its queue.
    pub passed: Option<Passed>,
    /// Why a node handed it back unexecuted.
    pub handed_back: Option<String>,
    /// For a skipped range: its last occurrence, and how many it has.
    pub skipped: Option<(UnixMillis, u64)>,
    /// The `on_late` notices about it that are kept.
    pub late_notices: Vec<LateNotice>,
}

/// A notice that a run was late. The notice is a run itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateNotice {
    /// The deadline that passed.
    pub of: Deadline,
    /// The run that delivers the notice.
    pub run: RunId,
    /// The state of that run.
    pub state: RunState,
    /// The node of its last attempt.
    pub node: Option<String>,
    /// When it ended.
    pub finished_at: Option<UnixMillis>,
    /// How its last attempt ended, in words.
    pub end: Option<String>,
}

/// The place of a scheduled run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In its queue.
    Queue,
    /// Behind an open run of its job.
    Waiting,
    /// At a gate: of a key, a group or a `not_while` job.
    AtGate,
    /// In no index, because its job is paused.
    Held,
}

/// A gate at which a run waits, or waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtGate {
    /// The gate in words: `key customer-42`, `group x`, `job backup`.
    pub gate: String,
    /// The member whose turn it is now.
    pub turn: Option<String>,
    /// How long the gap or the turn timeout of the group keeps it shut.
    pub shut: Shut,
    /// A run that has a place there now, and whether it has begun.
    pub holder: Option<(RunId, bool)>,
    /// A run of the same lane that was let in and did not begin, and until when it blocks the lane.
    pub stuck: Option<(RunId, UnixMillis)>,
    /// Why `holder` or `stuck` has not begun, as far as its queue shows.
    pub hindrance: Option<String>,
    /// The rate of its job there, and when the rate lets another run begin.
    pub rate: Option<(Rate, UnixMillis)>,
    /// The lane of the run and why no node serves it, if none does.
    pub unserved: Option<(Lane, Unserved)>,
    /// Lanes with earlier runs at this gate that no node serves.
    pub passed_over: Vec<Lane>,
    /// When the wait ended; none while the run waits.
    pub until: Option<UnixMillis>,
}

/// A gate that let in a run which has not begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The gate in words.
    pub gate: String,
    /// When the run got its place; none if it gave the place up.
    pub since: Option<UnixMillis>,
    /// Another run that has a place there now, and whether it has begun.
    pub holder: Option<(RunId, bool)>,
    /// The lane of the run, if no node serves it.
    pub unserved: Option<Lane>,
}

/// An attempt of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFacts {
    /// Its number.
    pub number: u32,
    /// The node that made it.
    pub node: Option<String>,
    /// When it was claimed.
    pub started_at: Option<UnixMillis>,
    /// When it ended.
    pub finished_at: Option<UnixMillis>,
    /// How it ended, in words: `exit code 3`; none while it runs. If that is not known: why not.
    pub end: Option<String>,
    /// True if it is known how and when it ended.
    pub is_end_known: bool,
}

impl RunFacts {
    /// How late its first attempt started, if it did.
    pub fn late(&self) -> Option<Duration> {
        Some(self.first_start?.since(self.run.due()))
    }

    /// True if the run is due, ready and unclaimed.
    pub(crate) fn is_owed(&self, now: UnixMillis) -> bool {
        let is_ready = self.ready.is_none_or(|ready| ready <= now);
        self.state == RunState::Scheduled && self.run.due() <= now && is_ready && self.place == Place::Queue
    }

    /// True if a node handed the run back without a start, and no node has claimed it since.
    pub(crate) fn is_back(&self, now: UnixMillis) -> bool {
        self.handed_back.is_some() && self.is_owed(now)
    }
}
