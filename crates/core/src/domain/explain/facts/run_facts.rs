//! The facts of a run for `explain`: its attempts, its notices, and the gate where the run waits.

use std::time::Duration;

use crate::domain::job::notice::Deadline;
use crate::domain::queue::group_rules::Shut;
use crate::domain::queue::lane::Lane;
use crate::domain::queue::lane_serving::Unserved;
use crate::domain::queue::rate::Rate;
use crate::domain::run::run_state::RunState;
use schedd_schedule::chain::chain_end::ParentEnd;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The longest time after its due time at which a run still counts as on time.
pub const ON_TIME: Duration = Duration::from_secs(1);

/// The facts of a run, from its records in Redis.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// The id of the run.
    pub run: RunId,
    /// The lane of the run.
    pub lane: Lane,
    /// The state of the run.
    pub state: RunState,
    /// The reason for the state, as the record has it. `None` if the record has no reason.
    pub reason: Option<String>,
    /// The user who cancelled the run or requested its stop.
    pub by: Option<String>,
    /// The user who requested the run, if the run was requested by hand.
    pub asked_by: Option<String>,
    /// The note of the user who requested the run.
    pub note: Option<String>,
    /// The attempts of the run, oldest first.
    pub attempts: Vec<AttemptFacts>,
    /// The time when the run was first claimed.
    pub first_start: Option<UnixMillis>,
    /// The time when the run became ready for its first claim.
    pub ready_at: UnixMillis,
    /// The time when the run ended.
    pub finished_at: Option<UnixMillis>,
    /// The ready time of the run. `None` unless the run is scheduled.
    pub ready: Option<UnixMillis>,
    /// True if the run was missed and the spread of `catch_up` moved its start.
    pub is_spread: bool,
    /// The place where the run waits while it is scheduled.
    pub place: Place,
    /// True if a user requested the stop of the run.
    pub is_asked_to_stop: bool,
    /// The open run of the same job for which this run waited, or because of which it was skipped.
    pub behind: Option<RunId>,
    /// The gate at which the run waits, or waited last.
    pub gate: Option<AtGate>,
    /// The gate at which the run has a place. `None` unless the run is in its queue and has not
    /// started.
    pub passed: Option<Passed>,
    /// The reason why a node handed the run back without executing the run.
    pub handed_back: Option<String>,
    /// The due time of the last occurrence in the run's skipped range, and the number of
    /// occurrences in this range. `None` if the record is for this run only.
    pub skipped: Option<(UnixMillis, u64)>,
    /// The ends of the parents that decided the run. Empty for a run that no parent started.
    pub parents: Vec<ParentEnd>,
    /// The `on_late` notices about the run that Redis still keeps.
    pub late_notices: Vec<LateNotice>,
}

/// An `on_late` notice: a run of a hidden job that reports a late run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateNotice {
    /// The deadline that the late run missed.
    pub of: Deadline,
    /// The id of the notice.
    pub run: RunId,
    /// The state of the notice.
    pub state: RunState,
    /// The node of the last attempt to deliver the notice.
    pub node: Option<String>,
    /// The time when the notice ended.
    pub finished_at: Option<UnixMillis>,
    /// The result of the last attempt to deliver the notice, such as `exit code 3`.
    pub end: Option<String>,
}

/// The place where a scheduled run waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The run is in its queue.
    Queue,
    /// The run waits for an open run of its job.
    Waiting,
    /// The run waits at a gate: a concurrency key, a group or a `not_while` job.
    AtGate,
    /// The run is kept until its paused job is resumed.
    Paused,
}

/// A gate at which a run waits or waited, with the facts of the wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtGate {
    /// The gate as text: `key customer-42`, `group x`, `job backup`.
    pub gate: String,
    /// The member of an alternating group that has the turn to start next. `None` for any other
    /// gate.
    pub turn: Option<String>,
    /// The times until which the gap or the turn timeout of the group keeps the gate closed.
    pub shut: Shut,
    /// A run that has a place at the gate now. The flag is true if this run has started.
    pub holder: Option<(RunId, bool)>,
    /// A run of the same lane that lost its place at the gate, because no node started the run.
    /// Until the given time, the gate lets no other run of this lane in. `None` if there is no such
    /// run, or while another run has a place.
    pub stuck: Option<(RunId, UnixMillis)>,
    /// The reason why the run in `holder`, or else in `stuck`, has not started, such as a paused
    /// queue. `None` if the run has started, or if the reason is not known.
    pub hindrance: Option<String>,
    /// The rate limit of a concurrency key, and the time when it allows the next start. `None` if
    /// the gate is no concurrency key, or if no rate limit keeps it closed.
    pub rate: Option<(Rate, UnixMillis)>,
    /// The lane of the run and the reason why no node serves the lane. `None` if a node serves the
    /// lane.
    pub unserved: Option<(Lane, Unserved)>,
    /// The lanes that no node serves and whose runs have waited at this gate longer than this run.
    pub passed_over: Vec<Lane>,
    /// The time when the wait ended. `None` while the run waits.
    pub until: Option<UnixMillis>,
}

/// A gate that let in a run that has not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The gate as text: `key customer-42`, `group x`, `job backup`.
    pub gate: String,
    /// The time when the run got its place at the gate. `None` if the run lost the place again.
    pub since: Option<UnixMillis>,
    /// Another run that has a place at the gate now. The flag is true if this other run has
    /// started.
    pub holder: Option<(RunId, bool)>,
    /// The lane of the run, if no node serves this lane. `None` if a node serves the lane.
    pub unserved: Option<Lane>,
}

/// The facts of an attempt of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFacts {
    /// The number of the attempt.
    pub number: u32,
    /// The node that made the attempt.
    pub node: Option<String>,
    /// The time when a node claimed the run for this attempt.
    pub started_at: Option<UnixMillis>,
    /// The time when the attempt ended.
    pub finished_at: Option<UnixMillis>,
    /// The result of the attempt, such as `exit code 3`, or the reason why the result is not known.
    /// `None` while the attempt lasts.
    pub end: Option<String>,
    /// True if the kind and time of the attempt's end are known.
    pub is_end_known: bool,
}

impl RunFacts {
    /// Returns the time from the due time of the run to the start of its first attempt, if there
    /// was an attempt.
    pub fn late(&self) -> Option<Duration> {
        Some(self.first_start?.since(self.run.due()))
    }

    /// Returns true if the run is ready in its queue and no node has claimed it.
    pub(crate) fn is_owed(&self, now: UnixMillis) -> bool {
        let is_ready = self.ready.is_none_or(|ready| ready <= now);
        self.state == RunState::Scheduled
            && self.run.due() <= now
            && is_ready
            && self.place == Place::Queue
    }

    /// Returns true if a node gave the run back without a start and the run is ready again.
    pub(crate) fn is_back(&self, now: UnixMillis) -> bool {
        self.handed_back.is_some() && self.is_owed(now)
    }
}
