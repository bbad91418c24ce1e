//! What is to be known to explain a job or one of its occurrences. Gathered by `engine::explaining`, judged here.

use super::held::PastSchedule;
use super::keeps::Keeps;
use super::loss::Loss;
use crate::domain::deed::Deed;
use crate::domain::group::Shut;
use crate::domain::ids::{JobName, RunId};
use crate::domain::job::JobSpec;
use crate::domain::lane::Lane;
use crate::domain::node_event::NodeEvent;
use crate::domain::notice::Deadline;
use crate::domain::rate::Rate;
use crate::domain::run::RunState;
use crate::domain::schedule::Timetable;
use crate::domain::serving::{Serving, Unserved};
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

/// All that is known.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The job.
    pub name: JobName,
    /// Redis' time.
    pub now: UnixMillis,
    /// The zone instants are told in: the job's.
    pub zone: Zone,
    /// The job as it is kept; none if it is not.
    pub job: Option<JobFacts>,
    /// What is asked about.
    pub subject: Subject,
    /// What was done to the job, oldest first.
    pub deeds: Vec<Deed>,
    /// The schedules it had before the one it has, oldest first, as far as they are kept.
    pub past: Vec<PastSchedule>,
    /// Why the deeds cannot be read, if so.
    pub spoilt_deeds: Option<String>,
    /// When Redis had lost data, oldest first.
    pub losses: Vec<Loss>,
    /// Of a job that a loss took: when that was noticed, and when the job was to run.
    pub gone: Option<(UnixMillis, String)>,
    /// How many past occurrences are to be made up for by `schedctl backfill`.
    pub making_up: u64,
    /// The run that makes up for the occurrence asked about, and its state.
    pub made_up_by: Option<(RunId, RunState)>,
    /// The nodes, by name.
    pub nodes: Vec<NodeFacts>,
    /// What keeps the run asked about from starting now, if it is ready; of a job of which none is, what will keep the next.
    pub keeps: Vec<Keeps>,
}

/// A job as it is kept.
#[derive(Debug, Clone)]
pub struct JobFacts {
    /// What it says and when it runs, or why that cannot be read.
    pub definition: Result<(JobSpec, Timetable), String>,
    /// From when its schedule holds.
    pub since: UnixMillis,
    /// When it was made, and by whom.
    pub created: Option<(UnixMillis, Option<String>)>,
    /// Where it comes from.
    pub source: Source,
    /// How it ended and when, if it has: `finished`, or why it was removed.
    pub ended: Option<(String, Option<UnixMillis>)>,
    /// Since when it is paused.
    pub paused_at: Option<UnixMillis>,
    /// How many regular runs may yet begin; none = any number.
    pub runs_left: Option<u32>,
    /// The due time of its planted regular run.
    pub pending: Option<UnixMillis>,
}

/// Where a job's definition comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The files of these nodes.
    File(Vec<String>),
    /// The command line.
    Api,
}

/// What is asked about.
#[derive(Debug, Clone)]
pub enum Subject {
    /// The job as it is now.
    Job {
        /// The runs that are open, waiting, spread or overdue, oldest due first; of each kind the first few.
        open: Vec<RunFacts>,
        /// How many more of them there are.
        more: u64,
        /// The run that ended last.
        last: Option<Box<RunFacts>>,
    },
    /// An occurrence with a record, or planned.
    Run(Box<RunFacts>),
    /// An occurrence inside a stretch that was skipped: the record of its first.
    Stretch {
        /// The occurrence.
        at: UnixMillis,
        /// The record of the whole.
        run: Box<RunFacts>,
    },
    /// An occurrence whose record was folded into a range of the ledger.
    Ledger {
        /// The occurrence.
        at: UnixMillis,
        /// How the runs of the range ended.
        state: String,
        /// Why, if the state does not say it.
        reason: String,
        /// The first due time of the range.
        first: UnixMillis,
        /// The last.
        last: UnixMillis,
        /// How many there are.
        count: u64,
        /// Whether the occurrence is known to be one of them.
        is_sure: bool,
    },
    /// An occurrence older than the ledger, of which only counts are left.
    BeforeLedger {
        /// The occurrence.
        at: UnixMillis,
        /// How many ended in which state.
        counts: Vec<(String, u64)>,
        /// The last due time counted.
        until: UnixMillis,
    },
    /// An occurrence up to now that nobody has dealt with yet: the run before it is still owed.
    Behind {
        /// The occurrence.
        at: UnixMillis,
        /// The run that is owed.
        run: Box<RunFacts>,
    },
    /// An occurrence of the schedule as it is now of which nothing is kept.
    Unrecorded {
        /// The occurrence.
        at: UnixMillis,
    },
    /// An occurrence that is still to come, behind the planned one.
    ToCome {
        /// The occurrence.
        at: UnixMillis,
    },
    /// An occurrence that waits to be made up for.
    ToMakeUp {
        /// The occurrence.
        at: UnixMillis,
    },
    /// An instant at which nothing was due.
    NotDue {
        /// The instant.
        at: UnixMillis,
        /// The occurrence before it.
        before: Option<UnixMillis>,
        /// The occurrence after it.
        after: Option<UnixMillis>,
    },
    /// An instant at which the job was over.
    Over {
        /// The instant.
        at: UnixMillis,
    },
    /// The last occurrence is asked for and there was none.
    Never,
}

/// A run.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// Its id.
    pub run: RunId,
    /// Its lane.
    pub lane: Lane,
    /// Its state.
    pub state: RunState,
    /// Why it is in it.
    pub reason: Option<String>,
    /// Who had it cancelled, or asked for it to stop.
    pub by: Option<String>,
    /// Of a run by hand: who asked for it.
    pub asked_by: Option<String>,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptFacts>,
    /// When it was first claimed.
    pub first_start: Option<UnixMillis>,
    /// When it became ready for that.
    pub ready_at: UnixMillis,
    /// When it ended.
    pub finished_at: Option<UnixMillis>,
    /// While it is scheduled: from when it may be claimed.
    pub ready: Option<UnixMillis>,
    /// Whether it is one of missed runs that were given times of their own.
    pub is_spread: bool,
    /// While it is scheduled: where it stands.
    pub place: Place,
    /// Whether it was asked to stop.
    pub is_asked_to_stop: bool,
    /// The open run it met.
    pub behind: Option<RunId>,
    /// The gate at which it waits, or waited last.
    pub gate: Option<AtGate>,
    /// While it stands in its queue: the gate it was let in at.
    pub passed: Option<Passed>,
    /// Why a node handed it back unexecuted.
    pub handed_back: Option<String>,
    /// Of a skipped stretch: its last occurrence and how many there are.
    pub skipped: Option<(UnixMillis, u64)>,
    /// The notices of `on_late` of it that are kept.
    pub late_notices: Vec<LateNotice>,
}

/// A notice that a run was late, which is a run itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateNotice {
    /// What came late: its start, or its end.
    pub of: Deadline,
    /// The run that tells it.
    pub run: RunId,
    /// The state of that one.
    pub state: RunState,
    /// The node that told it last.
    pub node: Option<String>,
    /// When it was over.
    pub finished_at: Option<UnixMillis>,
    /// How its last attempt ended, in words.
    pub end: Option<String>,
}

/// Where a scheduled run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In its queue.
    Queue,
    /// Behind an open run of its job, for whose end it waits.
    Waiting,
    /// At a gate: of a key, a group or a job it is not to run beside.
    AtGate,
    /// Nowhere: a pause has taken it out.
    Held,
}

/// A gate at which a run waits, or waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtGate {
    /// In words: `key customer-42`, `group x`, `job backup`.
    pub gate: String,
    /// Whose turn it is there now, if members take turns.
    pub turn: Option<String>,
    /// Until when time alone keeps it shut, if it is a group's.
    pub shut: Shut,
    /// A run that has a place there now, and whether it has begun.
    pub holder: Option<(RunId, bool)>,
    /// One of the same lane that did not begin when it was let in, and until when that keeps others of the lane out.
    pub stuck: Option<(RunId, UnixMillis)>,
    /// Why the one that was let in has not begun, or that one, as far as its queue tells.
    pub hindrance: Option<String>,
    /// The rate of its job there, and when that lets one more begin.
    pub rate: Option<(Rate, UnixMillis)>,
    /// Why no node serves its own lane, with that lane.
    pub unserved: Option<(Lane, Unserved)>,
    /// Lanes that no node serves and of which runs stand before it there.
    pub passed_over: Vec<Lane>,
    /// Until when it waited; none while it does.
    pub until: Option<UnixMillis>,
}

/// A gate at which a run was let in that has not begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// In words.
    pub gate: String,
    /// Since when it has its place there; none if it gave that up.
    pub since: Option<UnixMillis>,
    /// A run that has a place there now, and whether it has begun; never itself.
    pub holder: Option<(RunId, bool)>,
    /// Its lane, if no node serves that.
    pub unserved: Option<Lane>,
}

/// One attempt of a run.
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
    /// How it ended, in words: `exit code 3`; none while it runs. Where that is not known, why.
    pub end: Option<String>,
    /// Whether it is known how and when it ended.
    pub is_end_known: bool,
}

/// A node.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// When it was last seen; none if it has left in order.
    pub last_seen: Option<UnixMillis>,
    /// When its present process started, if it is there.
    pub started_at: Option<UnixMillis>,
    /// What it serves, if it is there.
    pub serving: Option<Serving>,
    /// Whether its file is refused as it is now, if it is there.
    pub refuses_file: Option<bool>,
    /// What befell it around the time asked about, oldest first.
    pub events: Vec<NodeEvent>,
    /// Whether more befell it than is kept, so that what is older is gone.
    pub is_cut: bool,
}

impl Facts {
    /// The occurrence asked about; none for the job as a whole.
    pub fn at(&self) -> Option<UnixMillis> {
        match &self.subject {
            Subject::Run(run) => Some(run.run.due()),
            Subject::Stretch { at, .. }
            | Subject::Ledger { at, .. }
            | Subject::BeforeLedger { at, .. }
            | Subject::Behind { at, .. }
            | Subject::Unrecorded { at }
            | Subject::ToCome { at }
            | Subject::ToMakeUp { at }
            | Subject::Over { at }
            | Subject::NotDue { at, .. } => Some(*at),
            Subject::Job { .. } | Subject::Never => None,
        }
    }

    /// The one run asked about, or that stands for the occurrence.
    pub fn run(&self) -> Option<&RunFacts> {
        match &self.subject {
            Subject::Run(run) | Subject::Stretch { run, .. } | Subject::Behind { run, .. } => Some(run),
            _ => None,
        }
    }

    /// When and by whom the job was added, if that was after the instant asked about and nothing tells of an older one of its name.
    pub(super) fn not_there_yet(&self) -> Option<(UnixMillis, Option<String>)> {
        let (Subject::NotDue { at, before: None, .. } | Subject::Unrecorded { at }) = self.subject else { return None };
        let job = self.job.as_ref()?;
        let (added, by) = job.created.clone().filter(|(added, _)| *added > at)?;
        let is_older = self.deeds.iter().any(|deed| deed.at <= at);
        // A file adds its jobs again after a loss; of those added by schedctl journals know.
        let is_lost = self.losses.iter().any(|loss| loss.concerns(at)) && (job.source != Source::Api || self.gone.is_some());
        (!is_older && !is_lost).then_some((added, by))
    }

    /// The newest deed of this kind up to `until`.
    pub(super) fn deed_before(&self, what: &str, until: UnixMillis) -> Option<&Deed> {
        self.deeds.iter().rev().find(|deed| deed.what == what && deed.at <= until)
    }
}

impl RunFacts {
    /// How late its first attempt was, if there was one.
    pub fn late(&self) -> Option<std::time::Duration> {
        Some(self.first_start?.since(self.run.due()))
    }

    /// Whether it is due, ready and nobody has claimed it.
    pub(super) fn is_owed(&self, now: UnixMillis) -> bool {
        let is_ready = self.ready.is_none_or(|ready| ready <= now);
        self.state == RunState::Scheduled && self.run.due() <= now && is_ready && self.place == Place::Queue
    }

    /// Whether a node handed it back without a start, and none has claimed it since.
    pub(super) fn is_back(&self, now: UnixMillis) -> bool {
        self.handed_back.is_some() && self.is_owed(now)
    }
}
