//! Which of what may become of an occurrence became of the one asked about.

use super::GONE_AFTER;
use super::became::Became;
use super::facts::{Facts, Passed, Place, RunFacts, Subject};
use super::loss::hidden;
use crate::domain::deed::Deed;
use crate::domain::ids::{RunId, RunKind};
use crate::domain::lane::Lane;
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;
use crate::domain::wording::shown;

/// What became of what is asked about.
pub(super) fn became(facts: &Facts) -> Vec<Became> {
    let made_up = facts
        .made_up_by
        .as_ref()
        .map(|(run, state)| Became::MadeUpBy { run: run.to_string(), state: state.as_str().replace('_', " ") });
    let mut found = of_subject(facts);
    found.extend(made_up.or_else(|| given_up(facts)));
    found
}

/// That an occurrence which did not succeed was to be made up for, and was not.
fn given_up(facts: &Facts) -> Option<Became> {
    let timetable = facts.job.as_ref().and_then(|job| job.definition.as_ref().ok()).map(|(_, timetable)| timetable);
    let is_of_schedule = |at: UnixMillis| timetable.is_some_and(|timetable| timetable.count_in(at, at) == 1);
    let at = match &facts.subject {
        Subject::Run(run) if run.run.kind() == RunKind::Regular && run.state != RunState::Succeeded => run.run.due(),
        Subject::Ledger { at, state, .. } if state != RunState::Succeeded.as_str() => *at,
        Subject::Stretch { at, .. } | Subject::BeforeLedger { at, .. } => *at,
        Subject::Unrecorded { at } | Subject::NotDue { at, .. } if is_of_schedule(*at) => *at,
        _ => return None,
    };
    let covers =
        |deed: &&Deed| deed.what == Deed::BACKFILL_DROPPED && deed.dues.is_some_and(|(first, last)| first <= at && at <= last);
    facts.deeds.iter().rev().find(covers).map(|deed| Became::MadeUpDropped { by: deed.by.clone(), at: deed.at })
}

fn of_subject(facts: &Facts) -> Vec<Became> {
    match &facts.subject {
        Subject::Run(run) | Subject::Stretch { run, .. } => of_run(facts, run),
        Subject::Ledger { state, reason, first, last, count, is_sure, .. } => {
            let state = state.replace('_', " ");
            let state = if reason.is_empty() { state } else { format!("{state} ({reason})") };
            let (first, last, count) = (*first, *last, *count);
            vec![if *is_sure {
                Became::Trimmed { state, first, last, count }
            } else {
                Became::PerhapsTrimmed { state, first, last, count }
            }]
        }
        Subject::BeforeLedger { counts, until, .. } => vec![Became::Counted { counts: counts.clone(), until: *until }],
        Subject::Behind { run, .. } => vec![Became::BehindOwed { due: run.run.due() }],
        Subject::Unrecorded { .. } if facts.not_there_yet().is_some() => Vec::new(),
        Subject::Unrecorded { .. } if hidden(facts).is_some() => vec![Became::GoneWithData],
        Subject::Unrecorded { .. } => vec![Became::Unrecorded],
        Subject::Over { .. } => vec![Became::Over { why: over(facts) }],
        Subject::ToCome { at } => vec![Became::ToCome { at: *at }],
        Subject::ToMakeUp { .. } => vec![Became::ToMakeUp],
        Subject::NotDue { .. } => Vec::new(),
        Subject::Never => vec![Became::Never],
        Subject::Job { open, more, last } => of_job(facts, open, *more, last.as_deref()),
    }
}

fn of_job(facts: &Facts, open: &[RunFacts], more: u64, last: Option<&RunFacts>) -> Vec<Became> {
    let mut found = Vec::new();
    for run in open {
        let mut states = standing(facts, run);
        if let Some(why) = run.handed_back.as_ref().filter(|_| run.is_back(facts.now)) {
            let what = Box::new(Became::HandedBack { why: why.clone() });
            found.push(Became::Open { run: run.run.to_string(), what });
        }
        if let Some(what) = (!states.is_empty()).then(|| states.remove(0)) {
            found.push(Became::Open { run: run.run.to_string(), what: Box::new(what) });
        }
    }
    if more > 0 {
        found.push(Became::MoreOpen { count: more });
    }
    match last {
        Some(run) => {
            let state = run.state.as_str().replace('_', " ");
            let reason = run.reason.clone().or_else(|| run.attempts.last()?.end.clone());
            let state = match reason {
                None => state,
                Some(reason) if reason.starts_with(&*state) => reason,
                Some(reason) => format!("{state} ({reason})"),
            };
            found.push(Became::Last { run: run.run.to_string(), state, at: run.finished_at });
        }
        None if open.is_empty() && facts.gone.is_some() => found.push(Became::GoneWithData),
        None if open.is_empty() => found.push(Became::Never),
        None => {}
    }
    found
}

fn of_run(facts: &Facts, run: &RunFacts) -> Vec<Became> {
    // Of one that may not be running any more nothing else is known.
    let told = if unseen(facts, run).is_some() { run.attempts.len().saturating_sub(1) } else { run.attempts.len() };
    let mut found: Vec<Became> =
        run.attempts.iter().take(told).map(|attempt| Became::Attempt { attempt: attempt.clone() }).collect();
    if let Some(why) = &run.handed_back {
        found.push(Became::HandedBack { why: why.clone() });
    }
    let id = run.run.to_string();
    let retries = facts.deeds.iter().filter(|deed| deed.what == Deed::RUN_RETRIED && deed.run.as_ref() == Some(&id));
    found.extend(retries.map(|deed| Became::Retried { by: deed.by.clone(), at: deed.at }));
    found.extend(standing(facts, run));
    found
}

/// The node a run is running on, and when that was last seen, if that is a while ago.
fn unseen(facts: &Facts, run: &RunFacts) -> Option<(String, UnixMillis)> {
    let node = run.attempts.last().filter(|_| run.state == RunState::Running)?.node.as_ref()?;
    let seen = facts.nodes.iter().find(|known| known.name == *node)?.last_seen?;
    (facts.now.since(seen) > GONE_AFTER).then(|| (node.clone(), seen))
}

/// Why nothing of the job was due any more.
fn over(facts: &Facts) -> String {
    let Some((how, at)) = facts.job.as_ref().and_then(|job| job.ended.as_ref()) else {
        return "as many runs had begun as max_runs lets".to_owned();
    };
    let at = at.map_or_else(String::new, |at| format!(" on {}", shown(at, &facts.zone)));
    if how == "finished" { format!("its job was over{at}") } else { format!("its job was {how}{at}") }
}

/// How a run stands, in a sentence or two.
fn standing(facts: &Facts, run: &RunFacts) -> Vec<Became> {
    let at = run.finished_at;
    let reason = run.reason.clone();
    let one = match run.state {
        RunState::Succeeded if reason.as_deref().is_some_and(|reason| reason.starts_with("done_check")) => Became::AlreadyDone,
        RunState::Succeeded => Became::Succeeded { at },
        RunState::Failed => Became::Failed { reason },
        RunState::TimedOut => Became::TimedOut,
        RunState::Lost => match reason {
            Some(why) if why.starts_with("done_check unclear") => Became::AskedInVain { why },
            reason => Became::Lost { reason },
        },
        RunState::Cancelled => match reason.as_deref() {
            Some("replaced") => Became::Replaced,
            Some("of an earlier job of this name") => Became::OfEarlierJob,
            Some("removed" | "job removed") => Became::RemovedWithJob { by: run.by.clone() },
            _ => Became::Cancelled { by: run.by.clone(), at },
        },
        RunState::Skipped => skipped(facts, run),
        RunState::Running if let Some((node, seen)) = unseen(facts, run) => Became::RunningUnseen { node, seen },
        RunState::Running => Became::Running {
            node: run.attempts.last().and_then(|attempt| attempt.node.clone()),
            since: run.attempts.last().and_then(|attempt| attempt.started_at),
        },
        RunState::Scheduled => scheduled(facts, run),
    };
    let mut found = vec![one];
    if run.is_asked_to_stop {
        found.push(Became::AskedToStop { by: run.by.clone() });
    }
    if let Some((last, count)) = run.skipped.filter(|(_, count)| *count > 1) {
        found.push(Became::InStretch { first: run.run.due(), last, count });
    }
    found
}

fn skipped(facts: &Facts, run: &RunFacts) -> Became {
    match run.reason.as_deref() {
        Some("overlap") => Became::SkippedOverlap { behind: run.behind.as_ref().map(ToString::to_string) },
        Some("missed") if hidden(facts).is_some() => Became::SkippedAfterLoss,
        Some("missed") | None => Became::SkippedMissed,
        Some("max_runs") => Became::SkippedUsedUp,
        Some("paused") => {
            let paused = facts.deed_before(Deed::PAUSED, run.finished_at.unwrap_or(facts.now));
            Became::SkippedPaused { by: paused.and_then(|deed| deed.by.clone()), at: paused.map(|deed| deed.at) }
        }
        Some(reason) => Became::Skipped { reason: reason.to_owned() },
    }
}

/// Who has a place at a gate: one that has begun, or else one that has not.
fn holders(holder: Option<&(RunId, bool)>) -> (Option<String>, Option<String>) {
    match holder {
        Some((run, true)) => (Some(run.to_string()), None),
        Some((run, false)) => (None, Some(run.to_string())),
        None => (None, None),
    }
}

/// How a run stands that was let in at a gate and has not begun.
fn let_in(passed: &Passed, ready: UnixMillis) -> Became {
    let gate = passed.gate.clone();
    if let Some(since) = passed.since {
        return Became::LetIn { gate, since };
    }
    let (holder, let_in) = holders(passed.holder.as_ref());
    Became::GaveUpPlace { gate, holder, let_in, since: ready, unserved: passed.unserved.as_ref().map(Lane::to_string) }
}

fn scheduled(facts: &Facts, run: &RunFacts) -> Became {
    let ready = run.ready.unwrap_or_else(|| run.run.due());
    let unclear = run.reason.as_ref().filter(|reason| reason.starts_with("done_check unclear"));
    match unclear {
        _ if run.place == Place::AtGate => {
            let (holder, let_in) = holders(run.gate.as_ref().and_then(|at| at.holder.as_ref()));
            Became::WaitsAt {
                gate: run.gate.as_ref().map_or_else(String::new, |at| at.gate.clone()),
                behind: run.behind.as_ref().map(ToString::to_string),
                holder,
                let_in,
                stuck: run.gate.as_ref().and_then(|at| at.stuck.as_ref()).map(|(run, until)| (run.to_string(), *until)),
                hindrance: run.gate.as_ref().and_then(|at| at.hindrance.clone()),
                rate: run.gate.as_ref().and_then(|at| at.rate),
                turn: run.gate.as_ref().and_then(|at| at.turn.clone()),
                shut: run.gate.as_ref().map(|at| at.shut.clone()).unwrap_or_default(),
                unserved: run.gate.as_ref().and_then(|at| at.unserved.as_ref()).map(|(lane, why)| format!("{lane}: {why}")),
                passed_over: run.gate.iter().flat_map(|at| &at.passed_over).map(Lane::to_string).collect(),
            }
        }
        _ if run.place == Place::Waiting => Became::Waits { behind: run.behind.as_ref().map(ToString::to_string) },
        _ if run.place == Place::Held => Became::Held,
        Some(why) if ready > facts.now => Became::AskAt { at: ready, why: why.clone() },
        _ if ready > facts.now && !run.attempts.is_empty() => Became::RetryAt { at: ready },
        _ if ready > facts.now && run.is_spread => Became::SpreadTo { at: ready },
        _ if ready > facts.now => Became::ToCome { at: ready },
        _ if let Some(passed) = &run.passed => let_in(passed, ready),
        _ => Became::Owed { since: ready },
    }
}
