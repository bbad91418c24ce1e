//! The index entries of one run: the entries that its record demands, and the entries in Redis.
//!
//! `run_differences` reports and repairs the differences.

use std::collections::BTreeMap;

use crate::domain::queue::gate::Gate;
use crate::domain::queue::lane::Lane;
use crate::domain::run::run_state::RunState;
use schedd_schedule::names::{Fence, QueueName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// An index that may name a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunPlace {
    /// The index of leases, with an entry for this fence.
    Lease(Fence),
    /// The due set of a lane.
    Due(Lane),
    /// The running runs of a queue.
    Running(QueueName),
    /// The open runs of the run's job. For a manual run, the manual runs of the job.
    Open,
    /// The runs of the job that wait until an open run has ended.
    Waiting,
    /// The runs that wait at a gate.
    Queued(Gate),
    /// The missed runs of the job to which catch-up gave ready times of their own.
    Spread,
    /// The runs that are asked to stop.
    Stops,
    /// The ended runs of all jobs.
    History,
    /// The ended runs of the job.
    JobHistory,
    /// The dead letters of all jobs.
    Dead,
    /// The dead letters of the job.
    JobDead,
    /// The times by which runs should have started (`on_late`).
    StartDeadline,
    /// The times by which runs should have ended (`on_late`).
    EndDeadline,
}

impl RunPlace {
    /// Returns the name of the index's Redis key without the prefix of the namespace.
    pub fn key(&self, run: &RunId) -> String {
        let family = self.family(run);
        match self {
            Self::Due(lane) => format!("{family}:{lane}"),
            Self::Running(queue) => format!("{family}:{queue}"),
            Self::Queued(gate) => format!("{family}:{gate}"),
            Self::Open | Self::Waiting | Self::Spread | Self::JobHistory | Self::JobDead => {
                format!("{family}:{}", run.job())
            }
            _ => family.to_owned(),
        }
    }

    /// Returns the text under which the index names `run`: a member of a sorted set, or a field of
    /// a Redis hash.
    pub fn member(&self, run: &RunId) -> String {
        match self {
            Self::Lease(fence) => format!("{run}#{fence}"),
            Self::StartDeadline => format!("{run} start"),
            Self::EndDeadline => format!("{run} finish"),
            _ => run.to_string(),
        }
    }

    pub(super) fn family(&self, run: &RunId) -> &'static str {
        match self {
            Self::Lease(_) => "leases",
            Self::Due(_) => "due",
            Self::Running(_) => "running",
            Self::Open if run.is_manual() => "manual",
            Self::Open => "open",
            Self::Waiting => "waiting",
            Self::Queued(_) => "gate_waiters",
            Self::Spread => "catch_up",
            Self::Stops => "stop_requests",
            Self::History | Self::JobHistory => "history",
            Self::Dead | Self::JobDead => "dead",
            Self::StartDeadline | Self::EndDeadline => "deadlines",
        }
    }
}

/// The content of a run's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordFacts {
    /// The run has no record, because it is only planned or its record was deleted.
    None,
    /// The record is unreadable. The text gives the reason.
    Unreadable(String),
    /// The record is readable.
    Known {
        /// The state of the run.
        state: RunState,
        /// The last fence of the run. `None` if the run was never claimed.
        fence: Option<Fence>,
    },
}

/// The facts of one run: its record, its job, and its index entries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each by its own name")]
pub struct PlacedRun {
    /// The id of the run.
    pub run: RunId,
    /// The content of the run's record.
    pub record: RecordFacts,
    /// The lane in the run's record. `None` without a record.
    pub lane: Option<Lane>,
    /// The gates that the run's record names.
    pub gates: Vec<Gate>,
    /// The end of the run by its record. `None` if the run has not ended.
    pub ended_at: Option<UnixMillis>,
    /// True if the run's job has a record.
    pub is_job_known: bool,
    /// The lane in the record of the run's job. `None` without a record.
    pub job_lane: Option<Lane>,
    /// True if the run is the planned run of its job.
    pub is_pending: bool,
    /// True if the run is the kept run of a paused job, which starts when the job is resumed.
    pub is_paused_run: bool,
    /// True if this run was the first to be skipped because of a run of its job that is still open.
    /// The index of start deadlines may name such a run, because the notice about its deadline
    /// reports that the open run hangs.
    pub is_first_behind: bool,
    /// The indexes that the check read, each with the run's score. `None` if the index does not
    /// name the run.
    pub places: BTreeMap<RunPlace, Option<String>>,
    /// The latest ready time that the rules of the job allow, if the ready time in the due set is
    /// later. `None` if the ready time in the due set is allowed.
    pub ready_by: Option<UnixMillis>,
    /// The fields of the run's record and of the job's record, as bytes. A repair changes nothing
    /// if these bytes have changed.
    pub seen: Vec<u8>,
}

/// The entry that a run's record demands in one index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    /// The index must name the run.
    Needed,
    /// The index may name the run.
    Allowed,
    /// The index must not name the run.
    Never,
}

/// The change after which an index agrees with the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceChange {
    /// Adds the run to the index with this time as its score. `None` means the present time.
    Put(Option<UnixMillis>),
    /// Removes the run from the index.
    TakeOut,
}

impl PlacedRun {
    pub(super) fn state(&self) -> Option<RunState> {
        match self.record {
            RecordFacts::Known { state, .. } => Some(state),
            _ => None,
        }
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        match self.record {
            RecordFacts::Known { fence, .. } => fence,
            _ => None,
        }
    }

    /// Returns true if the index `place` names the run.
    pub(super) fn is_in(&self, place: &RunPlace) -> bool {
        self.places.get(place).is_some_and(Option::is_some)
    }

    /// Returns the lanes whose due sets name the run.
    pub(super) fn due_in(&self) -> impl Iterator<Item = &Lane> {
        self.places.iter().filter(|(_, score)| score.is_some()).filter_map(|(place, _)| match place
        {
            RunPlace::Due(lane) => Some(lane),
            _ => None,
        })
    }

    /// Returns the latest ready time that the due sets have for the run. Returns `None` if no due
    /// set names the run.
    pub fn ready(&self) -> Option<UnixMillis> {
        self.due_in()
            .filter_map(|lane| {
                self.places
                    .get(&RunPlace::Due(lane.clone()))?
                    .as_ref()?
                    .parse()
                    .ok()
                    .and_then(UnixMillis::new)
            })
            .max()
    }

    /// Returns the lane in which the run should be due. This is the lane in its record if that lane
    /// belongs to a host or to notices, else the lane of its job.
    pub fn own_lane(&self) -> Lane {
        let of_host = self.lane.clone().filter(Lane::is_of_host);
        of_host.or_else(|| self.job_lane.clone()).unwrap_or_else(Lane::default_lane)
    }

    /// Returns the only lane whose due set may name the run. This is the run's own lane. If only
    /// due sets of other lanes name the run, this is the first of these lanes.
    fn kept_lane(&self) -> Lane {
        let own = self.own_lane();
        if self.is_in(&RunPlace::Due(own.clone())) {
            return own;
        }
        self.due_in().next().cloned().unwrap_or(own)
    }

    /// Returns true if the run has a lease with a higher fence than its record. In that case, the
    /// holder of the lease ends the run, or another node takes the run when the lease has ended.
    fn is_leased_later(&self) -> bool {
        let own = self.fence();
        self.places.iter().any(|(place, score)| {
            matches!(place, RunPlace::Lease(fence) if Some(*fence) > own) && score.is_some()
        })
    }

    /// Returns true if the run waits at a gate.
    pub(super) fn is_queued(&self) -> bool {
        self.places
            .iter()
            .any(|(place, score)| matches!(place, RunPlace::Queued(_)) && score.is_some())
    }

    /// Returns the latest allowed ready time if the run is scheduled and ready only after that
    /// time. Returns `None` if the ready time is allowed, or if the run is not in exactly one due
    /// set.
    pub(super) fn late_by(&self) -> Option<UnixMillis> {
        let is_due_once = self.state() == Some(RunState::Scheduled)
            && !self.is_pending
            && self.due_in().count() == 1;
        let is_elsewhere = self.is_in(&RunPlace::Waiting) || self.is_queued();
        self.ready_by.filter(|by| {
            is_due_once && !is_elsewhere && self.ready().is_some_and(|ready| ready > *by)
        })
    }

    /// Returns a function that decides if an index must, may or must not name the run.
    fn rights(&self) -> impl Fn(&RunPlace) -> Right + '_ {
        let needed = |is_needed: bool| if is_needed { Right::Needed } else { Right::Never };
        let allowed = |is_allowed: bool| if is_allowed { Right::Allowed } else { Right::Never };
        let (state, fence, kept_lane) = (self.state(), self.fence(), self.kept_lane());
        let (is_running, is_scheduled) =
            (state == Some(RunState::Running), state == Some(RunState::Scheduled));
        let (has_ended, is_dead) =
            (state.is_some_and(RunState::is_final), state.is_some_and(RunState::is_dead));
        let is_unreadable = matches!(self.record, RecordFacts::Unreadable(_));
        let (is_due, is_queued, is_leased_later) =
            (self.due_in().next().is_some(), self.is_queued(), self.is_leased_later());
        let waits = self.is_in(&RunPlace::Waiting) || is_queued;
        move |place| match place {
            _ if is_unreadable => Right::Allowed,
            RunPlace::Lease(of) if is_running && is_leased_later => allowed(Some(*of) >= fence),
            RunPlace::Lease(of) => needed(is_running && Some(*of) == fence),
            RunPlace::Running(queue) => {
                let is_own =
                    is_running && self.lane.as_ref().is_some_and(|lane| lane.queue() == queue);
                if is_own && (fence.is_none() || is_leased_later) {
                    Right::Allowed
                } else {
                    needed(is_own)
                }
            }
            RunPlace::Due(lane) if *lane != kept_lane => Right::Never,
            RunPlace::Due(_) if is_scheduled && !waits => Right::Needed,
            RunPlace::Due(_) => allowed(is_scheduled || state.is_none() && self.is_pending),
            RunPlace::Open if is_running || is_scheduled && self.run.is_manual() => Right::Needed,
            RunPlace::Open => allowed(is_scheduled || state.is_none() && is_leased_later),
            RunPlace::Waiting => allowed(is_scheduled && !is_due && !is_queued),
            RunPlace::Queued(_) => allowed(is_scheduled && !is_due),
            // A run that no index names is added to its due set again and keeps its own ready time.
            RunPlace::Spread => allowed(is_scheduled && (is_due || !waits)),
            RunPlace::Stops if state.is_none() => allowed(is_due || is_leased_later),
            RunPlace::StartDeadline if self.is_first_behind => Right::Allowed,
            RunPlace::StartDeadline | RunPlace::EndDeadline if state.is_none() => {
                allowed(self.is_pending || self.is_paused_run)
            }
            RunPlace::Stops | RunPlace::StartDeadline | RunPlace::EndDeadline => {
                allowed(!has_ended)
            }
            RunPlace::History | RunPlace::JobHistory if is_dead => Right::Allowed,
            RunPlace::History | RunPlace::JobHistory => needed(has_ended),
            RunPlace::Dead | RunPlace::JobDead => needed(is_dead),
        }
    }

    /// Returns the indexes that disagree with the record, each with the change that repairs the
    /// index.
    pub(super) fn differences(&self) -> impl Iterator<Item = (&RunPlace, PlaceChange)> {
        let right = self.rights();
        self.places.iter().filter_map(move |(place, score)| match (right(place), score) {
            (Right::Needed, None) => Some((place, PlaceChange::Put(self.time_in(place)))),
            (Right::Never, Some(_)) => Some((place, PlaceChange::TakeOut)),
            _ => None,
        })
    }

    /// Returns the score that the run should have in the index `place`. `None` means the present
    /// time.
    fn time_in(&self, place: &RunPlace) -> Option<UnixMillis> {
        match place {
            RunPlace::Open => Some(self.run.due()),
            RunPlace::History | RunPlace::JobHistory | RunPlace::Dead | RunPlace::JobDead => {
                self.ended_at
            }
            _ => None,
        }
    }
}
