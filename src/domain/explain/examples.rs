//! For each sentence `explain` can say the facts that make it true. A finding without an example fails here.

use std::collections::BTreeSet;
use std::time::Duration;

use super::became::Became;
use super::planned::Planned;
use super::rules::{Next, Rule};
use super::saw::Saw;
use super::timing::Timing;
use super::{AtGate, AttemptFacts, Facts, JobFacts, NodeFacts, Place, RunFacts, Source, Subject, judge};
use crate::domain::days::Days;
use crate::domain::deed::Deed;
use crate::domain::ids::{QueueName, RunId};
use crate::domain::job::{Action, CatchUpMode, Delivery, DoneCheck, JobSpec, Overlap};
use crate::domain::lane::Lane;
use crate::domain::node_event::{Befell, NodeEvent};
use crate::domain::run::RunState;
use crate::domain::schedule::{Schedule, Timetable};
use crate::domain::serving::Serving;
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

const ANA: &str = "ana@h1";
/// 2026-11-21 12:00:00 UTC.
const NOON: i64 = 1_795_262_400;

/// So many seconds after noon.
fn s(seconds: i64) -> UnixMillis {
    UnixMillis::new((NOON + seconds) * 1000).unwrap()
}

fn ana() -> String {
    ANA.to_owned()
}

/// A job of every minute, of node n1's file, asked about at a quarter past twelve.
fn facts(subject: Subject) -> Facts {
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
        spoilt_deeds: None,
        losses: Vec::new(),
        making_up: 0,
        nodes: vec![node("n1", &[])],
    }
}

/// A run due at noon that has not been claimed.
fn fresh() -> RunFacts {
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
        handed_back: None,
        skipped: None,
        run,
    }
}

fn attempt(end: Option<&str>) -> AttemptFacts {
    let end = end.map(str::to_owned);
    AttemptFacts { number: 1, node: Some("n1".to_owned()), started_at: Some(s(0)), finished_at: Some(s(5)), end }
}

/// The same, over in this state and for this reason.
fn ended(state: RunState, reason: Option<&str>) -> RunFacts {
    RunFacts { state, reason: reason.map(str::to_owned), finished_at: Some(s(5)), ready: None, ..fresh() }
}

/// The same, started so many seconds late.
fn started(seconds: i64) -> RunFacts {
    RunFacts { first_start: Some(s(seconds)), attempts: vec![attempt(Some("succeeded"))], ..ended(RunState::Succeeded, None) }
}

/// The same, of which only its check was asked.
fn asked_in_vain() -> RunFacts {
    let why = "done_check unclear 4 times in a row: exit code 9";
    RunFacts { first_start: Some(s(0)), ..ended(RunState::Lost, Some(why)) }
}

fn about(run: RunFacts) -> Facts {
    facts(Subject::Run(Box::new(run)))
}

fn event(what: Befell, from: i64, to: Option<i64>) -> NodeEvent {
    NodeEvent { what, from: s(from), to: to.map(s) }
}

/// A node that started an hour before noon and is there.
fn node(name: &str, events: &[NodeEvent]) -> NodeFacts {
    let start = event(Befell::Started { seen_before: None }, -3600, None);
    let events = std::iter::once(start).chain(events.iter().cloned()).collect();
    NodeFacts { name: name.to_owned(), last_seen: Some(s(899)), started_at: Some(s(-3600)), serving: None, events }
}

/// A node past its load from just before noon on.
fn loaded(until: Option<i64>) -> NodeEvent {
    event(Befell::Held { why: "load 9.1 > 8".to_owned() }, -5, until)
}

/// A node that serves this queue, or all.
fn serving(queue: Option<&str>) -> NodeFacts {
    let queues = queue.map(|queue| [queue.parse().unwrap()].into());
    NodeFacts { serving: Some(Serving { queues, ..Serving::default() }), ..node("n1", &[]) }
}

/// A run due at noon in this lane that has not been claimed.
fn requiring(lane: &str) -> RunFacts {
    RunFacts { lane: lane.parse().unwrap(), ..fresh() }
}

fn on(nodes: Vec<NodeFacts>, run: RunFacts) -> Facts {
    Facts { nodes, ..about(run) }
}

fn with_spec(mut facts: Facts, change: impl Fn(&mut JobSpec)) -> Facts {
    let job = facts.job.as_mut().unwrap();
    let (spec, timetable) = job.definition.as_mut().unwrap();
    change(spec);
    *timetable = Timetable::shaped(spec.schedule.clone(), &spec.shape, Zone::utc(), s(-3600));
    facts
}

fn with_job(mut facts: Facts, change: impl Fn(&mut JobFacts)) -> Facts {
    change(facts.job.as_mut().unwrap());
    facts
}

fn deed(what: &str, at: i64) -> Deed {
    Deed { at: s(at), what: what.to_owned(), by: Some(ana()), run: Some(format!("j@{NOON}000")), schedules: None }
}

fn done_by_ana(what: &str, at: i64, facts: Facts) -> Facts {
    Facts { deeds: vec![deed(what, at)], ..facts }
}

fn not_due() -> Facts {
    let edit = Deed { schedules: Some(("@daily in UTC".to_owned(), "* * * * * in UTC".to_owned())), ..deed(Deed::EDITED, 60) };
    Facts { deeds: vec![edit], ..facts(Subject::NotDue { at: s(30), before: Some(s(0)), after: Some(s(60)) }) }
}

fn the_job(open: Vec<RunFacts>, last: Option<RunFacts>) -> Facts {
    facts(Subject::Job { open, last: last.map(Box::new) })
}

fn slots(from: i64, to: Option<i64>) -> NodeEvent {
    event(Befell::SlotsTaken { queue: QueueName::default_queue() }, from, to)
}

type Example = (&'static str, fn() -> Facts, &'static str);

const PLANNED: &[Example] = &[
    ("schedule", || about(started(0)), "Its schedule is * * * * * in UTC, since Sat 2026-11-21 11:00:00 UTC."),
    (
        "schedule",
        || {
            let resumed = with_job(about(started(0)), |job| job.since = s(300));
            Facts { deeds: vec![deed(Deed::ADDED, -60), deed(Deed::RESUMED, 300)], ..resumed }
        },
        "Its schedule is * * * * * in UTC, since Sat 2026-11-21 11:59:00 UTC.",
    ),
    (
        "schedule_unknown",
        || with_job(about(started(0)), |job| job.since = s(300)),
        "Which schedule it had at that time is not known; that of now, * * * * * in UTC, holds since Sat 2026-11-21 12:05:00 UTC.",
    ),
    ("schedule_then", not_due, "Its schedule at that time was @daily in UTC."),
    (
        "left_out",
        || {
            let asked = facts(Subject::NotDue { at: s(0), before: None, after: None });
            with_spec(asked, |spec| spec.shape.exclude = Days::of(["2026-11-20..2026-11-22".parse().unwrap()]))
        },
        "Its schedule names that time, and exclude = 2026-11-20..2026-11-22 leaves it out.",
    ),
    (
        "manual",
        || with_spec(the_job(vec![], None), |spec| spec.schedule = Schedule::Manual),
        "It has no schedule: it runs only when asked.",
    ),
    (
        "unreadable",
        || with_job(the_job(vec![], None), |job| job.definition = Err("it is damaged".to_owned())),
        "Its definition cannot be read, so nothing of it runs: it is damaged.",
    ),
    ("of_file", || about(started(0)), "It is set in [jobs.j] of the file of node n1."),
    (
        "of_file",
        || with_job(about(started(0)), |job| job.source = Source::File(vec!["n1".to_owned(), "n2".to_owned()])),
        "It is set in [jobs.j] of the files of nodes n1 and n2.",
    ),
    (
        "added",
        || with_job(about(started(0)), |job| job.source = Source::Api),
        "It was added by ana@h1 on Sat 2026-11-21 11:00:00 UTC.",
    ),
    (
        "added",
        || with_job(about(started(0)), |job| (job.source, job.created) = (Source::Api, None)),
        "It was added by schedctl; by whom is not known.",
    ),
    (
        "finished",
        || with_job(about(started(0)), |job| job.ended = Some(("finished".to_owned(), Some(s(5))))),
        "It was a one-shot and is over on Sat 2026-11-21 12:00:05 UTC.",
    ),
    (
        "removed",
        || {
            let removed = with_job(about(started(0)), |job| job.ended = Some(("cancelled".to_owned(), Some(s(9)))));
            done_by_ana(Deed::REMOVED, 9, removed)
        },
        "The job is no longer defined: it was removed by ana@h1 on Sat 2026-11-21 12:00:09 UTC.",
    ),
    (
        "forgotten",
        || Facts { job: None, ..about(started(0)) },
        "The job is no longer defined, and its definition is no longer kept.",
    ),
    (
        "paused",
        || done_by_ana(Deed::PAUSED, 60, with_job(the_job(vec![], None), |job| job.paused_at = Some(s(60)))),
        "It is paused by ana@h1 since Sat 2026-11-21 12:01:00 UTC.",
    ),
    (
        "asked_for",
        || {
            let run = RunId::manual("j".parse().unwrap(), s(0), "x").unwrap();
            about(RunFacts { run, asked_by: Some(ana()), ..started(0) })
        },
        "It was asked for by hand by ana@h1 on Sat 2026-11-21 12:00:00 UTC.",
    ),
    (
        "made_up",
        || about(RunFacts { run: RunId::backfill("j".parse().unwrap(), s(0)), ..started(0) }),
        "It makes up for the occurrence of Sat 2026-11-21 12:00:00 UTC: schedctl backfill asked for it.",
    ),
    (
        "done_anew",
        || {
            let run = RunId::rerun("j".parse().unwrap(), s(0), "abc123").unwrap();
            about(RunFacts { run, asked_by: Some(ana()), ..started(0) })
        },
        "It does the work of Sat 2026-11-21 12:00:00 UTC anew: schedctl rerun asked for it by ana@h1.",
    ),
    (
        "booted",
        || about(RunFacts { run: RunId::boot("j".parse().unwrap(), s(0), "abc12345").unwrap(), ..started(0) }),
        "It came with a boot of its host: the first schedd there started on Sat 2026-11-21 12:00:00 UTC.",
    ),
    (
        "spoilt_deeds",
        || Facts { spoilt_deeds: Some("key k holds a string".to_owned()), ..about(started(0)) },
        "What was done to it, and by whom, cannot be told: key k holds a string.",
    ),
    ("not_due", not_due, "It was not due at Sat 2026-11-21 12:00:30 UTC."),
    ("nearest", not_due, "The time before is Sat 2026-11-21 12:00:00 UTC, the time after is Sat 2026-11-21 12:01:00 UTC."),
    (
        "nearest",
        || facts(Subject::NotDue { at: s(30), before: None, after: Some(s(60)) }),
        "There is no time before, the time after is Sat 2026-11-21 12:01:00 UTC.",
    ),
    (
        "edited",
        not_due,
        "Its schedule was changed by ana@h1 on Sat 2026-11-21 12:01:00 UTC from @daily in UTC to * * * * * in UTC.",
    ),
];

const BECAME: &[Example] = &[
    ("attempt", || about(started(0)), "Attempt 1 on n1 started Sat 2026-11-21 12:00:00 UTC, ended after 5s: succeeded."),
    (
        "attempt",
        || about(RunFacts { attempts: vec![attempt(None)], state: RunState::Running, first_start: Some(s(0)), ..fresh() }),
        "Attempt 1 on n1 started Sat 2026-11-21 12:00:00 UTC and is running.",
    ),
    (
        "handed_back",
        || about(RunFacts { handed_back: Some("shutdown".to_owned()), ..started(0) }),
        "A node had claimed it and handed it back unexecuted: shutdown.",
    ),
    (
        "retried",
        || done_by_ana(Deed::RUN_RETRIED, 60, about(started(0))),
        "It was tried again by ana@h1 on Sat 2026-11-21 12:01:00 UTC.",
    ),
    ("succeeded", || about(started(0)), "It succeeded on Sat 2026-11-21 12:00:05 UTC."),
    (
        "already_done",
        || about(RunFacts { reason: Some("done_check: already done".to_owned()), ..started(0) }),
        "It succeeded: its done_check said that the work was already done.",
    ),
    ("failed", || about(ended(RunState::Failed, None)), "It failed."),
    ("failed", || about(ended(RunState::Failed, Some("poison"))), "It failed: poison."),
    ("timed_out", || about(ended(RunState::TimedOut, None)), "It took longer than its timeout and was stopped."),
    (
        "lost",
        || about(ended(RunState::Lost, Some("its node was lost while it ran"))),
        "It is lost, for it may or may not have done its work: its node was lost while it ran.",
    ),
    ("lost", || about(ended(RunState::Lost, None)), "It is lost: it may or may not have done its work."),
    (
        "cancelled",
        || about(RunFacts { by: Some(ana()), ..ended(RunState::Cancelled, Some("cancelled")) }),
        "It was cancelled by ana@h1 on Sat 2026-11-21 12:00:05 UTC.",
    ),
    (
        "cancelled",
        || about(ended(RunState::Cancelled, Some("cancelled"))),
        "It was cancelled on Sat 2026-11-21 12:00:05 UTC; by whom is not known.",
    ),
    (
        "replaced",
        || about(ended(RunState::Cancelled, Some("replaced"))),
        "It was stopped because the next run of its job took its place.",
    ),
    (
        "removed_with_job",
        || about(RunFacts { by: Some(ana()), ..ended(RunState::Cancelled, Some("removed")) }),
        "It ended because its job was removed by ana@h1.",
    ),
    (
        "skipped_overlap",
        || about(RunFacts { behind: Some("j@5".parse().unwrap()), ..ended(RunState::Skipped, Some("overlap")) }),
        "It was skipped because the run j@5 was still open.",
    ),
    (
        "skipped_overlap",
        || about(ended(RunState::Skipped, Some("overlap"))),
        "It was skipped because an earlier run was still open.",
    ),
    (
        "skipped_used_up",
        || about(ended(RunState::Skipped, Some("max_runs"))),
        "It was skipped because as many runs had begun as max_runs lets.",
    ),
    (
        "skipped_missed",
        || about(ended(RunState::Skipped, Some("missed"))),
        "It was skipped because it was missed: it could not be started in time.",
    ),
    (
        "skipped_paused",
        || done_by_ana(Deed::PAUSED, -60, about(ended(RunState::Skipped, Some("paused")))),
        "It was skipped because its job was paused by ana@h1 on Sat 2026-11-21 11:59:00 UTC.",
    ),
    ("skipped_paused", || about(ended(RunState::Skipped, Some("paused"))), "It was skipped because its job was paused."),
    ("skipped", || about(ended(RunState::Skipped, Some("calendar"))), "It was skipped: calendar."),
    (
        "in_stretch",
        || {
            let run = RunFacts { skipped: Some((s(120), 3)), ..ended(RunState::Skipped, Some("missed")) };
            facts(Subject::Stretch { at: s(60), run: Box::new(run) })
        },
        "So were all 3 occurrences from Sat 2026-11-21 12:00:00 UTC to Sat 2026-11-21 12:02:00 UTC.",
    ),
    (
        "running",
        || about(RunFacts { attempts: vec![attempt(None)], state: RunState::Running, first_start: Some(s(0)), ..fresh() }),
        "It is running on n1 since Sat 2026-11-21 12:00:00 UTC.",
    ),
    (
        "asked_to_stop",
        || {
            let attempts = vec![attempt(None)];
            about(RunFacts { attempts, state: RunState::Running, is_asked_to_stop: true, by: Some(ana()), ..fresh() })
        },
        "It is asked to stop by ana@h1.",
    ),
    (
        "waits",
        || about(RunFacts { place: Place::Waiting, behind: Some("j@5".parse().unwrap()), ..fresh() }),
        "It waits for the run j@5 to end.",
    ),
    (
        "waits_at",
        || {
            let gate = AtGate { gate: "group night".to_owned(), turn: Some("b".to_owned()), until: None };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), behind: Some("k@5".parse().unwrap()), ..fresh() })
        },
        "It waits for its place at group night, behind k@5 when it came; it is the turn of b.",
    ),
    ("waits", || about(RunFacts { place: Place::Waiting, ..fresh() }), "It waits for an open run of its job to end."),
    (
        "retry_at",
        || {
            about(RunFacts {
                attempts: vec![attempt(Some("exit code 3"))],
                first_start: Some(s(0)),
                ready: Some(s(960)),
                ..fresh()
            })
        },
        "It is tried again on Sat 2026-11-21 12:16:00 UTC.",
    ),
    (
        "ask_at",
        || about(RunFacts { reason: Some("done_check unclear: exit code 2".to_owned()), ready: Some(s(960)), ..fresh() }),
        "Nothing was started, done_check unclear: exit code 2; it is asked again on Sat 2026-11-21 12:16:00 UTC.",
    ),
    (
        "spread_to",
        || about(RunFacts { is_spread: true, ready: Some(s(960)), ..fresh() }),
        "It was missed, and is to start on Sat 2026-11-21 12:16:00 UTC so that not all start at once.",
    ),
    ("to_make_up", || facts(Subject::ToMakeUp { at: s(-60) }), "It waits to be made up for, as schedctl backfill asked."),
    (
        "asked_in_vain",
        || about(asked_in_vain()),
        "It is lost, and this time nothing was started: done_check unclear 4 times in a row: exit code 9; whether its work is done is not known.",
    ),
    ("held", || about(RunFacts { place: Place::Held, ..fresh() }), "The pause of its job holds it."),
    ("to_come", || facts(Subject::ToCome { at: s(1020) }), "It is still to come, on Sat 2026-11-21 12:17:00 UTC."),
    ("owed", || about(fresh()), "It is owed: ready since Sat 2026-11-21 12:00:00 UTC, and no node has claimed it yet."),
    (
        "behind_owed",
        || facts(Subject::Behind { at: s(60), run: Box::new(fresh()) }),
        "It has not been dealt with yet: the run due Sat 2026-11-21 12:00:00 UTC is still owed.",
    ),
    (
        "trimmed",
        || {
            let (state, reason) = ("skipped".to_owned(), "overlap".to_owned());
            facts(Subject::Ledger { at: s(60), state, reason, first: s(0), last: s(120), count: 3, is_sure: true })
        },
        "It ended skipped (overlap); its record is no longer kept. So did 3 runs due between Sat 2026-11-21 12:00:00 UTC and Sat 2026-11-21 12:02:00 UTC.",
    ),
    (
        "trimmed",
        || {
            let (state, reason) = ("timed_out".to_owned(), String::new());
            facts(Subject::Ledger { at: s(60), state, reason, first: s(60), last: s(60), count: 1, is_sure: true })
        },
        "It ended timed out; its record is no longer kept.",
    ),
    (
        "perhaps_trimmed",
        || {
            let (state, reason) = ("succeeded".to_owned(), String::new());
            facts(Subject::Ledger { at: s(60), state, reason, first: s(0), last: s(120), count: 2, is_sure: false })
        },
        "Of the runs due between Sat 2026-11-21 12:00:00 UTC and Sat 2026-11-21 12:02:00 UTC 2 ended succeeded; whether one was due then, and was among them, is no longer known.",
    ),
    (
        "counted",
        || {
            let counts = vec![("failed".to_owned(), 2), ("succeeded".to_owned(), 40)];
            facts(Subject::BeforeLedger { at: s(0), counts, until: s(60) })
        },
        "It is older than what is kept; of the runs due up to Sat 2026-11-21 12:01:00 UTC only counts are left: 2 failed, 40 succeeded.",
    ),
    (
        "unrecorded",
        || facts(Subject::Unrecorded { at: s(0) }),
        "Nothing of it is kept: it was purged, is past the bounds of history, or was before the job was added.",
    ),
    (
        "data_lost",
        || Facts { losses: vec![(s(-60), None), (s(60), Some(s(50)))], ..facts(Subject::Unrecorded { at: s(0) }) },
        "Redis lost data, noticed on Sat 2026-11-21 12:01:00 UTC; it was last seen whole on Sat 2026-11-21 12:00:50 UTC: what was before is known only as far as journals told.",
    ),
    (
        "data_lost",
        || Facts { losses: vec![(s(60), None)], ..about(ended(RunState::Skipped, Some("missed"))) },
        "Redis lost data, noticed on Sat 2026-11-21 12:01:00 UTC: what was before is known only as far as journals told.",
    ),
    ("never", || facts(Subject::Never), "It has had no occurrence yet."),
    (
        "open",
        || the_job(vec![RunFacts { place: Place::Waiting, ..fresh() }], None),
        "Run j@1795262400000: It waits for an open run of its job to end.",
    ),
    (
        "last",
        || the_job(vec![], Some(ended(RunState::Failed, Some("poison")))),
        "The last to end was j@1795262400000: failed (poison) on Sat 2026-11-21 12:00:05 UTC.",
    ),
];

const SAW: &[Example] = &[
    ("claimed", || about(started(0)), "n1 claimed it."),
    (
        "not_running",
        || {
            let down = [event(Befell::Stopped, -60, None), event(Befell::Started { seen_before: None }, 300, None)];
            on(vec![node("n1", &down)], started(301))
        },
        "n1 was not running since Sat 2026-11-21 11:59:00 UTC; it started on Sat 2026-11-21 12:05:00 UTC.",
    ),
    (
        "not_running",
        || {
            // It died without a word.
            let died = [event(Befell::Started { seen_before: Some(s(-30)) }, 300, None)];
            on(vec![node("n1", &died)], started(301))
        },
        "n1 was not running since Sat 2026-11-21 11:59:30 UTC; it started on Sat 2026-11-21 12:05:00 UTC.",
    ),
    (
        "not_running",
        || on(vec![NodeFacts { last_seen: Some(s(-20)), ..node("n1", &[]) }], fresh()),
        "n1 was not running since Sat 2026-11-21 11:59:40 UTC.",
    ),
    (
        "not_running",
        || on(vec![NodeFacts { last_seen: Some(s(5)), ..node("n1", &[]) }], fresh()),
        "n1 was not running since Sat 2026-11-21 12:00:05 UTC.",
    ),
    (
        "slots_taken",
        || on(vec![NodeFacts { last_seen: Some(s(5)), ..node("n1", &[slots(-5, None)]) }], fresh()),
        "n1 had all its slots of queue default taken from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:05 UTC.",
    ),
    (
        "redis_away",
        || on(vec![node("n1", &[event(Befell::RedisAway, -5, Some(20))])], started(20)),
        "n1 did not reach Redis from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "slots_taken",
        || on(vec![node("n1", &[slots(-5, None)])], fresh()),
        "n1 had all its slots of queue default taken from Sat 2026-11-21 11:59:55 UTC on.",
    ),
    (
        "claims_held",
        || on(vec![node("n1", &[event(Befell::ClaimsHeld, -5, Some(20))])], started(20)),
        "n1 took no runs from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC, because its keeper was not ready.",
    ),
    (
        "held",
        || on(vec![node("n1", &[loaded(Some(20))])], started(20)),
        "n1 took no runs from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC: load 9.1 > 8.",
    ),
    ("not_serving", || on(vec![serving(None)], requiring("default+eu,gpu")), "n1 does not take it: it does not carry eu, gpu."),
    (
        "not_serving",
        || on(vec![serving(Some("mail"))], requiring("default!5")),
        "n1 does not take it: it does not serve queue default.",
    ),
    (
        "settling",
        || on(vec![node("n1", &[event(Befell::Settling, -5, Some(20))])], started(20)),
        "n1 started nothing from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC: Redis had lost data, and nodes gave back what they knew.",
    ),
    (
        "file_refused",
        || {
            let refused = event(Befell::FileRefused { why: "line 3: unknown key".to_owned() }, -60, None);
            Facts { nodes: vec![node("n1", &[refused])], ..facts(Subject::NotDue { at: s(30), before: None, after: None }) }
        },
        "n1 refused its jobs file as it was on Sat 2026-11-21 11:59:00 UTC: line 3: unknown key.",
    ),
    ("free", || on(vec![node("n2", &[])], started(20)), "n2 was running, and nothing that is noted kept it from claiming."),
    (
        "not_known",
        || {
            let unknown =
                NodeFacts { name: "n3".to_owned(), last_seen: None, started_at: None, serving: None, events: Vec::new() };
            on(vec![node("n1", &[]), unknown], started(20))
        },
        "What n3 did then is not known, or no longer.",
    ),
    ("no_nodes", || on(Vec::new(), fresh()), "No node is known to have been there."),
];

const TIMING: &[Example] = &[
    (
        "on_time",
        || about(RunFacts { first_start: UnixMillis::new(s(0).as_i64() + 1_000), ..started(0) }),
        "It started on time, 1s after it was due.",
    ),
    ("late", || about(RunFacts { first_start: UnixMillis::new(s(0).as_i64() + 2_001), ..started(0) }), "It started 2s late."),
    ("not_started", || about(fresh()), "It has been due for 15m and has not started."),
    (
        "late_behind",
        || about(RunFacts { ready_at: s(20), behind: Some("j@5".parse().unwrap()), ..started(20) }),
        "It waited until Sat 2026-11-21 12:00:20 UTC for the run j@5 to end.",
    ),
    (
        "late_at_gate",
        || {
            let gate = AtGate { gate: "key customer-42".to_owned(), turn: None, until: Some(s(20)) };
            about(RunFacts { gate: Some(gate), behind: Some("k@5".parse().unwrap()), ..started(20) })
        },
        "It waited until Sat 2026-11-21 12:00:20 UTC for its place at key customer-42, behind k@5 when it came.",
    ),
    (
        "late_spread",
        || about(RunFacts { ready_at: s(20), is_spread: true, ..started(20) }),
        "It was missed, and catch_up's spread gave it Sat 2026-11-21 12:00:20 UTC to start.",
    ),
    ("late_ready", || about(RunFacts { ready_at: s(20), ..started(20) }), "It was not ready before Sat 2026-11-21 12:00:20 UTC."),
    (
        "late_no_node",
        || {
            let down = [event(Befell::Stopped, -60, None), event(Befell::Started { seen_before: None }, 300, None)];
            on(vec![node("n1", &down)], started(301))
        },
        "No node was running until Sat 2026-11-21 12:05:00 UTC.",
    ),
    ("late_no_node", || on(vec![node("n1", &[event(Befell::Stopped, -60, None)])], fresh()), "No node was running."),
    (
        "late_no_node",
        || on(vec![NodeFacts { last_seen: Some(s(5)), ..node("n1", &[]) }], fresh()),
        "No node was running since Sat 2026-11-21 12:00:05 UTC.",
    ),
    (
        "late_no_node",
        || {
            // The run it waited for was late for that reason.
            let died = [event(Befell::Started { seen_before: Some(s(5)) }, 20, None)];
            on(vec![node("n1", &died)], RunFacts { ready_at: s(25), behind: Some("j@5".parse().unwrap()), ..started(25) })
        },
        "No node was running from Sat 2026-11-21 12:00:05 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "late_redis",
        || {
            let away = [event(Befell::RedisAway, -5, Some(20))];
            on(vec![node("n1", &away), node("n2", &away)], started(20))
        },
        "Redis was out of reach of n1 and n2 from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "late_slots",
        || on(vec![node("n1", &[slots(-5, Some(20))])], started(20)),
        "All slots of queue default were taken on n1 from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "late_held",
        || on(vec![node("n1", &[loaded(None)])], started(20)),
        "A limit of its own held n1 from Sat 2026-11-21 11:59:55 UTC on.",
    ),
    (
        "late_unserved",
        || on(vec![serving(None)], requiring("default+gpu")),
        "Nobody takes it: requires gpu: no node that runs and serves its queue carries it.",
    ),
    ("late_unserved", || on(vec![serving(Some("mail"))], fresh()), "Nobody takes it: no node that runs serves queue default."),
    (
        "late_settling",
        || on(vec![node("n1", &[event(Befell::Settling, -5, Some(20))])], started(20)),
        "Redis had lost data, and nothing was started from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "late_keeper",
        || on(vec![node("n1", &[event(Befell::ClaimsHeld, -5, None)])], started(20)),
        "The keeper was not ready on n1 from Sat 2026-11-21 11:59:55 UTC on.",
    ),
    (
        "late_shifted",
        || with_spec(about(RunFacts { ready_at: s(20), ..started(20) }), |spec| spec.shape.jitter = Duration::from_secs(90)),
        "Its jitter and splay moved its start to Sat 2026-11-21 12:00:20 UTC.",
    ),
    ("caught_up", || about(started(61)), "So late it counted as missed; it ran because catch_up is latest."),
    ("late_unexplained", || about(started(20)), "Nothing that is noted says why."),
];

const RULES: &[Example] = &[
    (
        "set_in_file",
        || {
            let skipped = about(ended(RunState::Skipped, Some("missed")));
            with_spec(skipped, |spec| spec.shape.skip_if_late = Some(Duration::from_secs(20)))
        },
        "skip_if_late = 20s, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
    (
        "set_in_file",
        || with_spec(about(ended(RunState::Skipped, Some("max_runs"))), |spec| spec.shape.max_runs = Some(3)),
        "max_runs = 3, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
    ("default", || about(ended(RunState::Skipped, Some("overlap"))), "overlap = skip, which is the default."),
    (
        "set_in_file",
        || with_spec(about(RunFacts { place: Place::Waiting, ..fresh() }), |spec| spec.overlap = Overlap::Queue { max: 3 }),
        "overlap = queue, at most 3 waiting, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
    (
        "set_by",
        || {
            let facts = with_spec(about(ended(RunState::Skipped, Some("missed"))), |spec| spec.catch_up.mode = CatchUpMode::Skip);
            with_job(facts, |job| job.source = Source::Api)
        },
        "catch_up = skip, set with schedctl add by ana@h1.",
    ),
    (
        "set_in_file",
        || with_spec(about(ended(RunState::Lost, None)), |spec| spec.delivery = Delivery::AtMostOnce),
        "delivery = at-most-once, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
    ("default", || about(ended(RunState::TimedOut, None)), "timeout = 1h, which is the default."),
    ("default", || about(ended(RunState::Failed, None)), "retry = 0, which is the default."),
    ("default", || on(vec![node("n1", &[slots(-5, Some(20))])], started(20)), "queue = default, which is the default."),
    (
        "set_in_file",
        || {
            let facts = on(vec![serving(None)], requiring("default+gpu"));
            with_spec(facts, |spec| spec.requires = ["gpu".parse().unwrap()].into())
        },
        "requires = gpu, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
    (
        "set_in_file",
        || {
            let done = about(RunFacts { reason: Some("done_check: already done".to_owned()), ..started(0) });
            with_spec(done, |spec| {
                let question = Action::Shell("true".to_owned());
                spec.done_check =
                    Some(DoneCheck { question, on: crate::domain::job::AskedOn::Always, timeout: Duration::from_secs(1) });
            })
        },
        "done_check = a question of its own, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
];

const AFTER_END: &str = "The next is due 5m after the end of a run that is not over.";

fn delayed(spec: &mut JobSpec) {
    spec.schedule = Schedule::Delay(Duration::from_secs(300));
}

const NEXT: &[Example] = &[
    ("next", || about(started(0)), "The next occurrence is due Sat 2026-11-21 12:16:00 UTC."),
    (
        "next_owed",
        || with_job(about(started(0)), |job| job.pending = Some(s(60))),
        "The next to start has been due since Sat 2026-11-21 12:01:00 UTC.",
    ),
    (
        "next_paused",
        || with_job(about(started(0)), |job| job.paused_at = Some(s(60))),
        "Nothing comes by its schedule while it is paused; schedctl resume lets it go on.",
    ),
    (
        "next_made_up",
        || Facts { making_up: 1, ..about(started(0)) },
        "One past occurrence is still to be made up for, which no pause holds.",
    ),
    (
        "next_made_up",
        || Facts { making_up: 3, ..with_job(about(started(0)), |job| job.paused_at = Some(s(60))) },
        "3 past occurrences are still to be made up for, one after the other, which no pause holds.",
    ),
    (
        "next_manual",
        || with_spec(the_job(vec![], None), |spec| spec.schedule = Schedule::Manual),
        "Nothing comes by itself; schedctl run j runs it.",
    ),
    ("next_over", || Facts { job: None, ..about(started(0)) }, "Nothing comes any more."),
    (
        "next_boot",
        || {
            let boot = || Schedule::Cron(vec!["@reboot".parse().unwrap()]);
            with_job(with_spec(the_job(vec![], None), |spec| spec.schedule = boot()), |job| job.pending = None)
        },
        "It runs again after the next boot of a host.",
    ),
    ("next_none", || with_job(about(started(0)), |job| job.pending = None), "Its schedule has no further time."),
    (
        "next_after_end",
        || with_job(with_spec(the_job(vec![], None), delayed), |job| job.pending = None),
        "The next is due 5m after the end of a run that is not over.",
    ),
    ("next_after_end", || with_job(with_spec(about(fresh()), delayed), |job| job.pending = Some(s(0))), AFTER_END),
    (
        "next_used_up",
        || with_job(the_job(vec![], None), |job| (job.pending, job.runs_left) = (None, Some(0))),
        "As many of its runs have begun as max_runs lets.",
    ),
];

fn hold(codes: &[&'static str], examples: &[Example]) {
    for (code, facts, sentence) in examples {
        let facts = facts();
        let found: Vec<(&str, String)> = judge(&facts).iter().map(|found| (found.code(), found.sentence(&facts.zone))).collect();
        assert!(
            found.iter().any(|(word, said)| word == code && said == sentence),
            "{code}: wanted {sentence:?}, found {found:#?}"
        );
    }
    let wanted: BTreeSet<&str> = codes.iter().copied().collect();
    let shown: BTreeSet<&str> = examples.iter().map(|(code, ..)| *code).collect();
    assert_eq!(wanted, shown, "a sentence without an example");
}

#[test]
fn every_sentence_about_what_was_planned_is_made_true() {
    hold(Planned::CODES, PLANNED);
}

#[test]
fn every_sentence_about_what_became_of_it_is_made_true() {
    hold(Became::CODES, BECAME);
}

#[test]
fn every_sentence_about_what_a_node_saw_is_made_true() {
    hold(Saw::CODES, SAW);
}

#[test]
fn every_sentence_about_being_on_time_is_made_true() {
    hold(Timing::CODES, TIMING);
}

#[test]
fn every_sentence_about_a_rule_is_made_true() {
    hold(Rule::CODES, RULES);
}

#[test]
fn every_sentence_about_what_comes_next_is_made_true() {
    hold(Next::CODES, NEXT);
}

#[test]
fn the_answers_come_in_the_order_of_the_questions() {
    let late = on(vec![node("n1", &[slots(-5, Some(20))])], started(20));
    let parts: Vec<&str> = judge(&late).iter().map(|found| found.part().as_str()).collect();
    let mut once = parts.clone();
    once.dedup();
    assert_eq!(once, ["planned", "became", "nodes", "timing", "rule", "next"]);
}

#[test]
fn an_obstacle_outside_the_time_of_waiting_is_no_reason() {
    for events in [[slots(-50, Some(-40))], [slots(30, Some(40))]] {
        let found = judge(&on(vec![node("n1", &events)], started(20)));
        assert!(found.iter().all(|found| found.code() != "late_slots" && found.code() != "slots_taken"), "{events:?}");
    }
    // One that was never said to be over ended with the process that noted it.
    let events = [slots(-50, None), event(Befell::Started { seen_before: Some(s(-45)) }, -40, None)];
    let found = judge(&on(vec![node("n1", &events)], started(20)));
    assert!(found.iter().any(|found| found.code() == "late_unexplained"), "{found:?}");
}

#[test]
fn a_node_seen_a_moment_before_a_run_was_due_and_gone_now_was_not_running_and_one_seen_lately_was() {
    for (seen, code) in [(-10, "not_running"), (890, "free")] {
        let told = judge(&on(vec![NodeFacts { last_seen: Some(s(seen)), ..node("n1", &[]) }], fresh()));
        assert!(told.iter().any(|found| found.code() == code), "{seen}: {told:?}");
    }
}

#[test]
fn what_comes_next_is_never_in_the_past() {
    for (mode, code, wanted) in [
        (CatchUpMode::Latest, "next", "The next occurrence is due Sat 2026-11-21 12:16:00 UTC."),
        (CatchUpMode::All, "next_owed", "The next to start has been due since Sat 2026-11-21 12:01:00 UTC."),
    ] {
        let owed = with_job(about(fresh()), |job| job.pending = Some(s(0)));
        let told = judge(&with_spec(owed, |spec| spec.catch_up.mode = mode));
        let next = told.last().unwrap();
        assert_eq!((next.code(), next.sentence(&Zone::utc()).as_str()), (code, wanted));
    }
}

#[test]
fn a_run_whose_check_was_asked_in_vain_is_not_told_to_have_started() {
    let asked = with_spec(about(asked_in_vain()), |spec| {
        let question = Action::Shell("exit 9".to_owned());
        spec.done_check = Some(DoneCheck { question, on: crate::domain::job::AskedOn::Always, timeout: Duration::from_secs(1) });
    });
    let told = judge(&asked);
    assert!(told.iter().all(|found| !["attempt", "on_time", "lost"].contains(&found.code())), "{told:?}");
    let rules: Vec<String> =
        told.iter().filter(|found| found.part().as_str() == "rule").map(|rule| rule.sentence(&asked.zone)).collect();
    assert!(rules[0].starts_with("done_check =") && rules[1].starts_with("retry =") && rules.len() == 2, "{rules:?}");
}
