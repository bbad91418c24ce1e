//! Findings about the outcome: how the run in question ended, why it did not start, or what it
//! waits for.

use super::gate_findings::{let_in, waits_at};
use super::loss_findings::hidden;
use crate::domain::explain::explain_words::{after, by};
use crate::domain::explain::facts::{AttemptFacts, Facts, GONE_AFTER, Place, RunFacts, Subject};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::name::names::RunKind;
use crate::domain::run::run_state::RunState;
use crate::domain::schedule::timetable::Timetable;
use crate::domain::schedule::timetable::skipped_count;
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::wording::span;

fn finding(code: &'static str, text: impl Into<String>) -> Finding {
    Part::Became.finding(code, text)
}

/// Returns the text ` on ` with the time `at`, or an empty text if the time is not known.
fn on(facts: &Facts, at: Option<UnixMillis>) -> String {
    after(" on ", at.map(|at| facts.shown(at)))
}

/// Returns the findings about the outcome of the job, run or occurrence in question.
pub(super) fn outcome(facts: &Facts) -> Vec<Finding> {
    let mut found = of_subject(facts);
    let backfill = facts.made_up_by.as_ref().map(|(run, state)| {
        let state = state.as_str().replace('_', " ");
        finding("made_up_by", format!("schedctl backfill made the run {run} for it: {state}."))
    });
    found.extend(backfill.or_else(|| dropped_backfill(facts)));
    found
}

/// Returns the codes of outcomes that rules may have decided. For a job, these are the codes of its
/// open runs.
pub(super) fn decided(facts: &Facts, outcome: &[Finding]) -> Vec<&'static str> {
    match &facts.subject {
        Subject::Job { open, .. } => open.iter().map(|run| state_of(facts, run).code).collect(),
        _ => outcome.iter().map(|found| found.code).collect(),
    }
}

/// Returns the finding for a dropped backfill that was to run an occurrence without success.
fn dropped_backfill(facts: &Facts) -> Option<Finding> {
    let is_of_schedule = |at| facts.definition().is_some_and(|(_, timetable)| timetable.count_in(at, at) == 1);
    let at = match &facts.subject {
        Subject::Run(run) if run.run.kind() == RunKind::Regular && run.state != RunState::Succeeded => run.run.due(),
        Subject::Ledger { at, state, .. } if state != RunState::Succeeded.as_str() => *at,
        Subject::Stretch { at, .. } | Subject::BeforeLedger { at, .. } => *at,
        Subject::Unrecorded { at } | Subject::NotDue { at, .. } if is_of_schedule(*at) => *at,
        _ => return None,
    };
    let covers = |deed: &&AuditEntry| {
        deed.what == AuditEntry::BACKFILL_DROPPED && deed.dues.is_some_and(|(first, last)| first <= at && at <= last)
    };
    let deed = facts.deeds.iter().rev().find(covers)?;
    let (by, at) = (by(deed.by.as_ref()), facts.shown(deed.at));
    Some(finding("made_up_dropped", format!("Its backfill was cancelled{by} on {at}.")))
}

fn of_subject(facts: &Facts) -> Vec<Finding> {
    let (code, text) = match &facts.subject {
        Subject::Run(run) | Subject::Stretch { run, .. } => return of_run(facts, run),
        Subject::Job { open, more, last } => return of_job(facts, open, *more, last.as_deref()),
        Subject::Ledger { .. } => return in_ledger(facts).into_iter().collect(),
        Subject::NotDue { .. } => return Vec::new(),
        Subject::BeforeLedger { counts, until, .. } => {
            let counts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
            let (counts, until) = (counts.join(", "), facts.shown(*until));
            ("counted", format!("Its record is no longer kept. Of the runs due up to {until} only counts are left: {counts}."))
        }
        Subject::Behind { run, .. } => {
            let due = facts.shown(run.run.due());
            ("behind_owed", format!("No run exists for it yet: the earlier run due {due} has not started."))
        }
        Subject::Unrecorded { .. } if facts.added_later().is_some() => return Vec::new(),
        Subject::Unrecorded { .. } if hidden(facts).is_some() => return vec![gone_with_data()],
        Subject::Unrecorded { .. } => (
            "unrecorded",
            "No record of it is kept: it was purged, is older than the retention, or was due before the job was added."
                .to_owned(),
        ),
        Subject::Over { .. } => ("over", format!("It was not due any more: {}.", over(facts))),
        Subject::ToCome { at } => return vec![to_come(facts, *at)],
        Subject::ToMakeUp { .. } => ("to_make_up", "It waits for its backfill, which schedctl backfill asked for.".to_owned()),
        Subject::Never => return vec![never()],
    };
    vec![finding(code, text)]
}

fn gone_with_data() -> Finding {
    finding("gone_with_data", "Nothing of it is kept since Redis lost data.")
}

fn never() -> Finding {
    finding("never", "It has had no occurrence yet.")
}

fn to_come(facts: &Facts, at: UnixMillis) -> Finding {
    finding("to_come", format!("It is still to come, on {}.", facts.shown(at)))
}

/// Returns the finding for the ledger range that contains, or may contain, the occurrence.
fn in_ledger(facts: &Facts) -> Option<Finding> {
    let Subject::Ledger { state, reason, first, last, count, is_sure, .. } = &facts.subject else { return None };
    let is_missed = state == RunState::Skipped.as_str() && reason == "missed";
    // Runs that were skipped together are counted only up to a bound.
    let all = if state.starts_with(RunState::Skipped.as_str()) { skipped_count(*count) } else { count.to_string() };
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let state = format!("{}{reason}", state.replace('_', " "));
    let due = format!("due between {} and {}", facts.shown(*first), facts.shown(*last));
    if !is_sure {
        let text = format!(
            "Of the runs {due}, {all} ended {state}. Whether this occurrence was due, and was among them, is no longer known."
        );
        return Some(finding("perhaps_trimmed", text));
    }
    let why = if is_missed { ", nor is what kept it from starting" } else { "" };
    let others = if *count == 1 { String::new() } else { format!(" So did {all} runs {due}.") };
    Some(finding("trimmed", format!("It ended {state}; its record is no longer kept{why}.{others}")))
}

fn of_job(facts: &Facts, open: &[RunFacts], more: u64, last: Option<&RunFacts>) -> Vec<Finding> {
    let mut found = Vec::new();
    for run in open {
        let back = handed_back(run).filter(|_| run.is_back(facts.now));
        let states = back.into_iter().chain([state_of(facts, run)]);
        found.extend(states.map(|state| finding("open", format!("Run {}: {}", run.run, state.text))));
    }
    match more {
        0 => {}
        1 => found.push(finding("more_open", "And 1 more run of it has not ended.")),
        _ => found.push(finding("more_open", format!("And {more} more runs of it have not ended."))),
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
            let on = on(facts, run.finished_at);
            found.push(finding("last", format!("The last to end was {}: {state}{on}.", run.run)));
        }
        None if open.is_empty() && facts.gone.is_some() => found.push(gone_with_data()),
        None if open.is_empty() => found.push(never()),
        None => {}
    }
    found
}

fn of_run(facts: &Facts, run: &RunFacts) -> Vec<Finding> {
    // Nothing else is known of an attempt whose node is gone.
    let known = run.attempts.len().saturating_sub(usize::from(unseen(facts, run).is_some()));
    let mut found: Vec<Finding> = run.attempts.iter().take(known).map(|attempt| of_attempt(facts, attempt)).collect();
    found.extend(handed_back(run));
    let id = run.run.to_string();
    let retries = facts.deeds.iter().filter(|deed| deed.what == AuditEntry::RUN_RETRIED && deed.run.as_ref() == Some(&id));
    found.extend(retries.map(|deed| {
        let (by, at) = (by(deed.by.as_ref()), facts.shown(deed.at));
        finding("retried", format!("It was tried again{by} on {at}."))
    }));
    found.push(state_of(facts, run));
    if run.is_asked_to_stop {
        found.push(finding("asked_to_stop", format!("It is asked to stop{}.", by(run.by.as_ref()))));
    }
    if let Some((last, count)) = run.skipped.filter(|(_, count)| *count > 1) {
        let all = if count < u64::from(Timetable::COUNTED) { "all " } else { "" };
        let (count, first, last) = (skipped_count(count), facts.shown(run.run.due()), facts.shown(last));
        found.push(finding("in_stretch", format!("So were {all}{count} occurrences from {first} to {last}.")));
    }
    found
}

fn of_attempt(facts: &Facts, attempt: &AttemptFacts) -> Finding {
    let AttemptFacts { number, node, started_at, finished_at, end, is_end_known } = attempt;
    let node = after(" on ", node.as_ref());
    let start = after(" started ", started_at.map(|at| facts.shown(at)));
    let took = after(" after ", started_at.zip(*finished_at).map(|(from, to)| span(to.since(from))));
    let end = match end {
        Some(why) if !is_end_known => format!("; how it ended is not known: {why}."),
        Some(end) => format!(", ended{took}: {end}."),
        None => " and is running.".to_owned(),
    };
    finding("attempt", format!("Attempt {number}{node}{start}{end}"))
}

fn handed_back(run: &RunFacts) -> Option<Finding> {
    let why = run.handed_back.as_ref()?;
    Some(finding("handed_back", format!("A node had claimed it and handed it back unexecuted: {why}.")))
}

/// Returns the node of a running run and the time when the node was last seen, if the node is gone.
fn unseen<'f>(facts: &Facts, run: &'f RunFacts) -> Option<(&'f String, UnixMillis)> {
    let node = run.attempts.last().filter(|_| run.state == RunState::Running)?.node.as_ref()?;
    let seen = facts.nodes.iter().find(|known| known.name == *node)?.last_seen?;
    (facts.now.since(seen) > GONE_AFTER).then_some((node, seen))
}

/// Returns the reason why no run of the job was due any more.
fn over(facts: &Facts) -> String {
    let Some((how, at)) = facts.job.as_ref().and_then(|job| job.ended.as_ref()) else {
        return "as many runs had begun as max_runs allows".to_owned();
    };
    let how = if how == "finished" { "over" } else { how };
    format!("its job was {how}{}", on(facts, *at))
}

/// Returns the finding for the state of a run, with the reason why the run is in this state.
fn state_of(facts: &Facts, run: &RunFacts) -> Finding {
    let reason = run.reason.as_deref();
    let on = on(facts, run.finished_at);
    let (code, text) = match run.state {
        RunState::Succeeded if reason.is_some_and(|reason| reason.starts_with("done_check")) => {
            ("already_done", "It succeeded: its done_check said that the work was already done.".to_owned())
        }
        RunState::Succeeded => ("succeeded", format!("It succeeded{on}.")),
        RunState::Failed => ("failed", format!("It failed{}.", after(": ", reason))),
        RunState::TimedOut => ("timed_out", "It took longer than its timeout and was stopped.".to_owned()),
        RunState::Lost => match reason {
            Some(why) if why.starts_with("done_check unclear") => {
                let unknown = "whether its work is done is not known";
                ("asked_in_vain", format!("It is lost, and this time nothing was started: {why}; {unknown}."))
            }
            Some(why) => ("lost", format!("It is lost, for it may or may not have done its work: {why}.")),
            None => ("lost", "It is lost: it may or may not have done its work.".to_owned()),
        },
        RunState::Cancelled => match (reason, &run.by) {
            (Some("replaced"), _) => ("replaced", "It was stopped because the next run of its job took its place.".to_owned()),
            (Some("of an earlier job of this name"), _) => {
                ("of_earlier_job", "It was cancelled because it belongs to an earlier job of this name.".to_owned())
            }
            (Some("removed" | "job removed"), who) => {
                ("removed_with_job", format!("It ended because its job was removed{}.", by(who.as_ref())))
            }
            (_, Some(who)) => ("cancelled", format!("It was cancelled by {who}{on}.")),
            (_, None) => ("cancelled", format!("It was cancelled{on}; by whom is not known.")),
        },
        RunState::Skipped => skipped(facts, run),
        RunState::Running if let Some((node, seen)) = unseen(facts, run) => {
            let seen = facts.shown(seen);
            let text =
                format!("It was running on {node}, which was last seen on {seen}; it is taken back when its lease is over.");
            ("running_unseen", text)
        }
        RunState::Running => {
            let last = run.attempts.last();
            let node = after(" on ", last.and_then(|attempt| attempt.node.as_ref()));
            let since = after(" since ", last.and_then(|attempt| attempt.started_at).map(|at| facts.shown(at)));
            ("running", format!("It is running{node}{since}."))
        }
        RunState::Scheduled => return scheduled(facts, run),
    };
    finding(code, text)
}

fn skipped(facts: &Facts, run: &RunFacts) -> (&'static str, String) {
    match run.reason.as_deref() {
        Some("overlap") => {
            let open = run.behind.as_ref().map_or_else(|| "an earlier run".to_owned(), |run| format!("the run {run}"));
            ("skipped_overlap", format!("It was skipped because {open} was still open."))
        }
        Some("missed") if hidden(facts).is_some() => (
            "skipped_after_loss",
            "It was skipped when work began again after Redis had lost data: by then it counted as missed.".to_owned(),
        ),
        Some("missed") | None => {
            ("skipped_missed", "It was skipped because it was missed: it could not be started in time.".to_owned())
        }
        Some("max_runs") => ("skipped_used_up", "It was skipped because as many runs had begun as max_runs allows.".to_owned()),
        Some("paused") => {
            let paused = facts.deed_before(AuditEntry::PAUSED, run.finished_at.unwrap_or(facts.now));
            let by = by(paused.and_then(|deed| deed.by.as_ref()));
            let on = on(facts, paused.map(|deed| deed.at));
            ("skipped_paused", format!("It was skipped because its job was paused{by}{on}."))
        }
        Some(reason) => ("skipped", format!("It was skipped: {reason}.")),
    }
}

fn scheduled(facts: &Facts, run: &RunFacts) -> Finding {
    let ready = run.ready.unwrap_or_else(|| run.run.due());
    let at = facts.shown(ready);
    let unclear = run.reason.as_ref().filter(|reason| reason.starts_with("done_check unclear"));
    let (code, text) = match (run.place, unclear) {
        (Place::AtGate, _) => return waits_at(facts, run),
        (Place::Waiting, _) => {
            let open = run.behind.as_ref().map_or_else(|| "an open run of its job".to_owned(), |run| format!("the run {run}"));
            ("waits", format!("It waits for {open} to end."))
        }
        (Place::Held, _) => ("held", "It waits because its job is paused.".to_owned()),
        (Place::Queue, Some(why)) if ready > facts.now => {
            ("ask_at", format!("Nothing was started, {why}; it is asked again on {at}."))
        }
        (Place::Queue, _) if ready > facts.now && !run.attempts.is_empty() => ("retry_at", format!("It is tried again on {at}.")),
        (Place::Queue, _) if ready > facts.now && run.is_spread => {
            ("spread_to", format!("It was missed, and is to start on {at} so that not all start at once."))
        }
        (Place::Queue, _) if ready > facts.now => return to_come(facts, ready),
        (Place::Queue, _) => match &run.passed {
            Some(passed) => return let_in(facts, passed, ready),
            None => ("owed", format!("It is ready since {at}, and no node has claimed it yet.")),
        },
    };
    finding(code, text)
}
