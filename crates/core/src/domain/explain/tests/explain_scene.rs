//! Facts for tests: a job with an occurrence each minute, its runs, its nodes and their events.

use crate::domain::explain::{
    AttemptFacts, Facts, Finding, JobFacts, Loss, NodeFacts, Place, RunFacts, Source, Subject,
    judge,
};
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::job::job_spec::{Action, JobSpec};
use crate::domain::queue::lane::Lane;
use crate::domain::queue::lane_serving::Serving;
use crate::domain::run::node_event::{NodeEvent, NodeEventKind};
use crate::domain::run::run_state::RunState;
use schedd_schedule::names::{QueueName, RunId};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

pub(super) const ANA: &str = "ana@h1";
/// The time 2026-11-21 12:00:00 UTC, in seconds.
pub(super) const NOON: i64 = 1_795_262_400;

impl Facts {
    /// Asserts that the facts lead to a finding with this code and text. Times in `text` are short:
    /// `12:00:05`.
    #[track_caller]
    pub(super) fn says(&self, code: &str, text: &str) -> &Self {
        let found: Vec<(&str, String)> =
            judge(self).into_iter().map(|found| (found.code, short(&found))).collect();
        assert!(
            found.contains(&(code, text.to_owned())),
            "wanted {code}: {text:?}, found {found:#?}"
        );
        self
    }

    /// Returns these facts after `change`.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn with_job(self, change: impl FnOnce(&mut JobFacts)) -> Self {
        self.with(|facts| change(facts.job.as_mut().unwrap()))
    }

    pub(super) fn with_spec(self, change: impl FnOnce(&mut JobSpec)) -> Self {
        self.with_job(|job| {
            let (spec, timetable) = job.definition.as_mut().unwrap();
            change(spec);
            *timetable =
                Timetable::shaped(spec.schedule.clone(), &spec.shape, Zone::utc(), s(-3600));
        })
    }

    /// Returns the codes of all findings from the facts.
    pub(super) fn codes(&self) -> Vec<&'static str> {
        judge(self).iter().map(|found| found.code).collect()
    }

    /// Returns the texts of the findings with this code, in the form of [`short`].
    pub(super) fn texts(&self, code: &str) -> Vec<String> {
        judge(self).iter().filter(|found| found.code == code).map(short).collect()
    }
}

/// Returns the text of a finding without the date and the zone of its times. Schedules keep their
/// zone.
fn short(found: &Finding) -> String {
    let text = found.text.replace("Sat 2026-11-21 ", "").replace(" in UTC", "\0");
    text.replace(" UTC", "").replace('\0', " in UTC")
}

impl RunFacts {
    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// Returns the time this many seconds after noon.
pub(super) fn s(seconds: i64) -> UnixMillis {
    UnixMillis::new((NOON + seconds) * 1000).unwrap()
}

pub(super) fn ana() -> String {
    ANA.to_owned()
}

/// Returns facts of a job that is due each minute and comes from the file of node n1. The present
/// time is 12:15.
pub(super) fn facts(subject: Subject) -> Facts {
    let schedule = Schedule::Cron(vec!["* * * * *".parse().unwrap()]);
    let spec = JobSpec::with_defaults(schedule.clone(), Action::Shell("true".to_owned()));
    let job = JobFacts {
        next_set: None,
        next_run: None,
        definition: Ok((spec, Timetable::new(schedule, Zone::utc(), s(-3600)))),
        since: s(-3600),
        created: Some((s(-3600), Some(ana()))),
        source: Source::File(vec!["n1".to_owned()]),
        ended: None,
        paused_at: None,
        runs_left: None,
        pending: Some(s(960)),
    };
    Facts {
        name: "j".parse().unwrap(),
        now: s(900),
        zone: Zone::utc(),
        local: Zone::utc(),
        job: Some(job),
        subject,
        audit_log: Vec::new(),
        past: Vec::new(),
        audit_log_error: None,
        losses: Vec::new(),
        gone: None,
        making_up: 0,
        made_up_by: None,
        nodes: vec![node("n1", &[])],
        chain: None,
        lost_parents: Vec::new(),
        blockers: Vec::new(),
    }
}

/// Returns a run due at noon that no node has claimed.
pub(super) fn fresh() -> RunFacts {
    let run = RunId::regular("j".parse().unwrap(), s(0));
    RunFacts {
        lane: Lane::default_lane(),
        state: RunState::Scheduled,
        reason: None,
        by: None,
        asked_by: None,
        note: None,
        attempts: Vec::new(),
        first_start: None,
        ready_at: s(0),
        finished_at: None,
        ready: Some(s(0)),
        is_spread: false,
        place: Place::Queue,
        is_asked_to_stop: false,
        behind: None,
        gate: None,
        passed: None,
        handed_back: None,
        skipped: None,
        parents: Vec::new(),
        late_notices: Vec::new(),
        run,
    }
}

/// Returns an attempt that lasted five seconds and ended with `end`. With `None` the attempt still
/// lasts.
pub(super) fn attempt(end: Option<&str>) -> AttemptFacts {
    let (node, end) = (Some("n1".to_owned()), end.map(str::to_owned));
    AttemptFacts {
        number: 1,
        node,
        started_at: Some(s(0)),
        finished_at: Some(s(5)),
        end,
        is_end_known: true,
    }
}

/// Returns a run with this final state and reason.
pub(super) fn ended(state: RunState, reason: Option<&str>) -> RunFacts {
    RunFacts {
        state,
        reason: reason.map(str::to_owned),
        finished_at: Some(s(5)),
        ready: None,
        ..fresh()
    }
}

pub(super) fn skipped(reason: &str) -> RunFacts {
    ended(RunState::Skipped, Some(reason))
}

/// Returns a run that started this many seconds late.
pub(super) fn started(seconds: i64) -> RunFacts {
    RunFacts {
        first_start: Some(s(seconds)),
        attempts: vec![attempt(Some("succeeded"))],
        ..ended(RunState::Succeeded, None)
    }
}

/// Returns a run that executes on node n1.
pub(super) fn running() -> RunFacts {
    RunFacts {
        attempts: vec![attempt(None)],
        state: RunState::Running,
        first_start: Some(s(0)),
        ..fresh()
    }
}

/// Returns a run without an attempt, of which only the `done_check` was executed.
pub(super) fn asked_in_vain() -> RunFacts {
    let why = "done_check gave no clear answer 4 times in a row: exit code 9";
    RunFacts { first_start: Some(s(0)), ..ended(RunState::Lost, Some(why)) }
}

pub(super) fn about(run: RunFacts) -> Facts {
    facts(Subject::Run(Box::new(run)))
}

pub(super) fn on(nodes: Vec<NodeFacts>, run: RunFacts) -> Facts {
    Facts { nodes, ..about(run) }
}

pub(super) fn the_job(open: Vec<RunFacts>, last: Option<RunFacts>) -> Facts {
    facts(Subject::Job { open, more: 0, last: last.map(Box::new) })
}

pub(super) fn not_due() -> Facts {
    let edit = AuditEntry {
        schedules: Some(("@daily in UTC".to_owned(), "* * * * * in UTC".to_owned())),
        ..entry(AuditEntry::EDITED, 60)
    };
    Facts {
        audit_log: vec![edit],
        ..facts(Subject::NotDue { at: s(30), before: Some(s(0)), after: Some(s(60)) })
    }
}

pub(super) fn unrecorded() -> Facts {
    facts(Subject::Unrecorded { at: s(0) })
}

/// Returns facts about an occurrence in a skipped range. The range begins at noon and has three
/// occurrences.
pub(super) fn in_range(at: i64, reason: &str) -> Facts {
    let run = RunFacts { skipped: Some((s(120), 3)), ..skipped(reason) };
    facts(Subject::InRange { at: s(at), run: Box::new(run) })
}

pub(super) fn event(what: NodeEventKind, from: i64, to: Option<i64>) -> NodeEvent {
    NodeEvent { what, from: s(from), to: to.map(s) }
}

/// Returns the event of a node's start at `at`. `seen_before` is the time of the last heartbeat
/// before the start. Both are seconds after noon.
pub(super) fn start(at: i64, seen_before: Option<i64>) -> NodeEvent {
    event(NodeEventKind::Started { seen_before: seen_before.map(s) }, at, None)
}

/// Returns a node that stopped a minute before noon and started again.
pub(super) fn stopped_until(name: &str, start_at: i64) -> NodeFacts {
    node(name, &[event(NodeEventKind::Stopped, -60, None), start(start_at, None)])
}

/// Returns a node that started an hour before noon and is running.
pub(super) fn node(name: &str, events: &[NodeEvent]) -> NodeFacts {
    NodeFacts {
        name: name.to_owned(),
        last_seen: Some(s(899)),
        started_at: Some(s(-3600)),
        serving: None,
        workers: Vec::new(),
        refuses_file: None,
        events: [&[start(-3600, None)], events].concat(),
        is_cut: false,
    }
}

/// Returns facts of a late run. The node n1 has the event `what`, which begins just before noon and
/// ends at `to`, in seconds after noon.
pub(super) fn late_by(what: NodeEventKind, to: Option<i64>) -> Facts {
    on(vec![node("n1", &[event(what, -5, to)])], started(20))
}

/// Returns a node that serves this queue, or all queues if `queue` is `None`.
pub(super) fn serving(queue: Option<&str>) -> NodeFacts {
    let queues = queue.map(|queue| [queue.parse().unwrap()].into());
    NodeFacts { serving: Some(Serving { queues, ..Serving::default() }), ..node("n1", &[]) }
}

/// Returns a run due at noon in this lane that no node has claimed.
pub(super) fn requiring(lane: &str) -> RunFacts {
    RunFacts { lane: lane.parse().unwrap(), ..fresh() }
}

pub(super) fn entry(what: &str, at: i64) -> AuditEntry {
    let run = Some(format!("j@{NOON}000"));
    AuditEntry {
        at: s(at),
        what: what.to_owned(),
        by: Some(ana()),
        run,
        note: None,
        count: None,
        schedules: None,
        dues: None,
    }
}

pub(super) fn done_by_ana(what: &str, at: i64, facts: Facts) -> Facts {
    Facts { audit_log: vec![entry(what, at)], ..facts }
}

/// Returns a data loss a minute after noon, in which Redis lost all data. No journal has restored a
/// record yet.
pub(super) fn flush() -> Loss {
    let (by, what) = ("n1".to_owned(), "all data was deleted");
    Loss { noticed: s(60), by, what, kept: None, whole: Some(s(50)), reported_by: Vec::new() }
}

/// Returns a data loss in which Redis went back to a snapshot from a minute before noon. Two nodes
/// restored records from their journals.
pub(super) fn snapshot() -> Loss {
    let reported_by = vec!["n1".to_owned(), "n2".to_owned()];
    Loss { what: "an older state came back", kept: Some(s(-60)), reported_by, ..flush() }
}

/// Returns facts of a run that was skipped after Redis went back to the snapshot.
pub(super) fn missed_since() -> Facts {
    let run = RunFacts { finished_at: Some(s(65)), ..skipped("missed") };
    Facts { losses: vec![snapshot()], ..about(run) }
}

pub(super) fn slots_taken() -> NodeEventKind {
    NodeEventKind::SlotsTaken { queue: QueueName::default_queue() }
}

pub(super) fn slots(from: i64, to: Option<i64>) -> NodeEvent {
    event(slots_taken(), from, to)
}

pub(super) fn past_load() -> NodeEventKind {
    NodeEventKind::AtLimit { why: "load 9.1 > 8".to_owned() }
}

pub(super) fn paused() -> NodeEventKind {
    NodeEventKind::QueuePaused { queue: QueueName::default_queue(), by: "ana@h".to_owned() }
}

pub(super) fn full(limit: u32) -> NodeEventKind {
    NodeEventKind::QueueFull { queue: QueueName::default_queue(), limit }
}

pub(super) fn rated() -> NodeEventKind {
    NodeEventKind::QueueRated { queue: QueueName::default_queue(), rate: "10/1s".to_owned() }
}
