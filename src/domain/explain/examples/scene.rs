//! What the examples are made of: a job of every minute, its runs, nodes and what befell them.

use crate::domain::deed::Deed;
use crate::domain::explain::{AtGate, AttemptFacts, Facts, JobFacts, Loss, NodeFacts, Place, RunFacts, Source, Subject};
use crate::domain::group::Shut;
use crate::domain::ids::{QueueName, RunId};
use crate::domain::job::{Action, JobSpec};
use crate::domain::lane::Lane;
use crate::domain::node_event::{Befell, NodeEvent};
use crate::domain::run::RunState;
use crate::domain::schedule::{Schedule, Timetable};
use crate::domain::serving::Serving;
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

pub(super) const ANA: &str = "ana@h1";
/// 2026-11-21 12:00:00 UTC.
pub(super) const NOON: i64 = 1_795_262_400;

/// So many seconds after noon.
pub(super) fn s(seconds: i64) -> UnixMillis {
    UnixMillis::new((NOON + seconds) * 1000).unwrap()
}

pub(super) fn ana() -> String {
    ANA.to_owned()
}

/// A run at a gate of which no more is known.
pub(super) fn gate(name: &str) -> AtGate {
    AtGate {
        gate: name.to_owned(),
        turn: None,
        shut: Shut::default(),
        holder: None,
        stuck: None,
        hindrance: None,
        unserved: None,
        passed_over: Vec::new(),
        rate: None,
        until: None,
    }
}

/// A job of every minute, of node n1's file, asked about at a quarter past twelve.
pub(super) fn facts(subject: Subject) -> Facts {
    let schedule = Schedule::Cron(vec!["* * * * *".parse().unwrap()]);
    let spec = JobSpec::with_defaults(schedule.clone(), Action::Shell("true".to_owned()));
    let job = JobFacts {
        definition: Ok((spec, Timetable::new(schedule, Zone::utc(), s(-3600)))),
        since: s(-3600),
        created: Some((s(-3600), Some(ana()))),
        source: Source::File(vec!["n1".to_owned()]),
        ended: None,
        paused_at: None,
        runs_left: None,
        pending: Some(s(960)),
    };
    let (name, deeds) = ("j".parse().unwrap(), Vec::new());
    Facts {
        name,
        now: s(900),
        zone: Zone::utc(),
        job: Some(job),
        subject,
        deeds,
        past: Vec::new(),
        deeds_error: None,
        losses: Vec::new(),
        gone: None,
        making_up: 0,
        made_up_by: None,
        nodes: vec![node("n1", &[])],
        blockers: Vec::new(),
    }
}

/// A run due at noon that has not been claimed.
pub(super) fn fresh() -> RunFacts {
    let run = RunId::regular("j".parse().unwrap(), s(0));
    RunFacts {
        lane: Lane::default_lane(),
        state: RunState::Scheduled,
        reason: None,
        by: None,
        asked_by: None,
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
        late_notices: Vec::new(),
        run,
    }
}

pub(super) fn attempt(end: Option<&str>) -> AttemptFacts {
    let end = end.map(str::to_owned);
    let (node, is_end_known) = (Some("n1".to_owned()), true);
    AttemptFacts { number: 1, node, started_at: Some(s(0)), finished_at: Some(s(5)), end, is_end_known }
}

/// The same, over in this state and for this reason.
pub(super) fn ended(state: RunState, reason: Option<&str>) -> RunFacts {
    RunFacts { state, reason: reason.map(str::to_owned), finished_at: Some(s(5)), ready: None, ..fresh() }
}

/// The same, started so many seconds late.
pub(super) fn started(seconds: i64) -> RunFacts {
    RunFacts { first_start: Some(s(seconds)), attempts: vec![attempt(Some("succeeded"))], ..ended(RunState::Succeeded, None) }
}

/// The same, of which only its check was asked.
pub(super) fn asked_in_vain() -> RunFacts {
    let why = "done_check unclear 4 times in a row: exit code 9";
    RunFacts { first_start: Some(s(0)), ..ended(RunState::Lost, Some(why)) }
}

pub(super) fn about(run: RunFacts) -> Facts {
    facts(Subject::Run(Box::new(run)))
}

pub(super) fn event(what: Befell, from: i64, to: Option<i64>) -> NodeEvent {
    NodeEvent { what, from: s(from), to: to.map(s) }
}

/// A node that started an hour before noon and is there.
pub(super) fn node(name: &str, events: &[NodeEvent]) -> NodeFacts {
    let start = event(Befell::Started { seen_before: None }, -3600, None);
    let events = std::iter::once(start).chain(events.iter().cloned()).collect();
    NodeFacts {
        name: name.to_owned(),
        last_seen: Some(s(899)),
        started_at: Some(s(-3600)),
        serving: None,
        refuses_file: None,
        events,
        is_cut: false,
    }
}

/// A node past its load from just before noon on.
pub(super) fn loaded(until: Option<i64>) -> NodeEvent {
    event(Befell::Held { why: "load 9.1 > 8".to_owned() }, -5, until)
}

/// A node that serves this queue, or all.
pub(super) fn serving(queue: Option<&str>) -> NodeFacts {
    let queues = queue.map(|queue| [queue.parse().unwrap()].into());
    NodeFacts { serving: Some(Serving { queues, ..Serving::default() }), ..node("n1", &[]) }
}

/// A run due at noon in this lane that has not been claimed.
pub(super) fn requiring(lane: &str) -> RunFacts {
    RunFacts { lane: lane.parse().unwrap(), ..fresh() }
}

pub(super) fn on(nodes: Vec<NodeFacts>, run: RunFacts) -> Facts {
    Facts { nodes, ..about(run) }
}

pub(super) fn with_spec(mut facts: Facts, change: impl Fn(&mut JobSpec)) -> Facts {
    let job = facts.job.as_mut().unwrap();
    let (spec, timetable) = job.definition.as_mut().unwrap();
    change(spec);
    *timetable = Timetable::shaped(spec.schedule.clone(), &spec.shape, Zone::utc(), s(-3600));
    facts
}

pub(super) fn with_job(mut facts: Facts, change: impl Fn(&mut JobFacts)) -> Facts {
    change(facts.job.as_mut().unwrap());
    facts
}

pub(super) fn deed(what: &str, at: i64) -> Deed {
    Deed {
        at: s(at),
        what: what.to_owned(),
        by: Some(ana()),
        run: Some(format!("j@{NOON}000")),
        count: None,
        schedules: None,
        dues: None,
    }
}

pub(super) fn done_by_ana(what: &str, at: i64, facts: Facts) -> Facts {
    Facts { deeds: vec![deed(what, at)], ..facts }
}

pub(super) fn not_due() -> Facts {
    let edit = Deed { schedules: Some(("@daily in UTC".to_owned(), "* * * * * in UTC".to_owned())), ..deed(Deed::EDITED, 60) };
    Facts { deeds: vec![edit], ..facts(Subject::NotDue { at: s(30), before: Some(s(0)), after: Some(s(60)) }) }
}

pub(super) fn the_job(open: Vec<RunFacts>, last: Option<RunFacts>) -> Facts {
    facts(Subject::Job { open, more: 0, last: last.map(Box::new) })
}

pub(super) fn slots(from: i64, to: Option<i64>) -> NodeEvent {
    event(Befell::SlotsTaken { queue: QueueName::default_queue() }, from, to)
}

/// All was deleted a minute after noon; no journal has told anything yet.
pub(super) fn flush() -> Loss {
    Loss {
        noticed: s(60),
        by: "n1".to_owned(),
        what: "its data was deleted",
        kept: None,
        whole: Some(s(50)),
        told_by: Vec::new(),
    }
}

/// A snapshot of a minute before noon was put back; two nodes told what they knew.
pub(super) fn snapshot() -> Loss {
    let told_by = vec!["n1".to_owned(), "n2".to_owned()];
    Loss { what: "an older state came back", kept: Some(s(-60)), told_by, ..flush() }
}

/// A run skipped after that.
pub(super) fn missed_since() -> Facts {
    let run = RunFacts { finished_at: Some(s(65)), ..ended(RunState::Skipped, Some("missed")) };
    Facts { losses: vec![snapshot()], ..about(run) }
}

pub(super) fn paused() -> Befell {
    Befell::QueuePaused { queue: QueueName::default_queue(), by: "ana@h".to_owned() }
}

pub(super) fn full(limit: u32) -> Befell {
    Befell::QueueFull { queue: QueueName::default_queue(), limit }
}

pub(super) fn rated(rate: &str) -> Befell {
    Befell::QueueRated { queue: QueueName::default_queue(), rate: rate.to_owned() }
}
