//! Findings about the outcome: how a run ended, or why it waits or did not start.

use super::chain_findings;
use super::gate_findings::{let_in, waits_at};
use super::loss_findings::hidden;
use super::timing_findings::mode_word;
use crate::domain::explain::explain_words::{after, by};
use crate::domain::explain::facts::{AttemptFacts, Facts, GONE_AFTER, Place, RunFacts, Subject};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::job::job_spec::Overlap;
use crate::domain::run::run_state::RunState;
use schedd_schedule::lateness::{Due, SkipCause, skip_cause};
use schedd_schedule::names::{RunId, RunKind};
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;
use schedd_schedule::timetable::Timetable;
use schedd_schedule::timetable::skipped_count;

/// The last sentence of a finding about a lost run.
const UNKNOWN: &str = "schedd does not know if the work of the run is done.";

fn finding(code: &'static str, text: impl Into<String>) -> Finding {
    Part::Became.finding(code, text)
}

/// Returns the text ` on ` followed by the time `at`, or an empty text if the time is not known.
fn on(facts: &Facts, at: Option<UnixMillis>) -> String {
    after(" on ", at.map(|at| facts.shown(at)))
}

/// Returns the findings that say how a run ended, or why it waits or did not start.
pub(super) fn outcome(facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> = chain_findings::awaits(facts).into_iter().collect();
    // An occurrence that waits for parents has no record yet.
    if found.is_empty() || matches!(facts.subject, Subject::Job { .. }) {
        found.extend(of_subject(facts));
    }
    let backfill = facts.made_up_by.as_ref().map(|(run, state)| {
        let state = state.as_str().replace('_', " ");
        finding("made_up_by", format!("schedctl backfill made run {run} for this occurrence. The state of that run is: {state}."))
    });
    found.extend(backfill.or_else(|| dropped_backfill(facts)));
    found
}

/// Returns the rule because of which a missed run was skipped. Returns `None` if the present
/// definition does not skip the run.
pub(super) fn cause_of_skip(facts: &Facts, run: &RunFacts) -> Option<SkipCause> {
    let ((spec, timetable), job) = (facts.definition()?, facts.job.as_ref()?);
    let set = job.next_set.as_ref();
    skip_cause(Due {
        timetable,
        since: job.since,
        taken: run.run.due(),
        catch_up: &spec.catch_up,
        skip_if_late: spec.shape.skip_if_late,
        late_after: spec.late_after,
        due: run.run.due(),
        not_before: set.map_or(UnixMillis::EPOCH, |(at, _)| *at),
        now: run.finished_at?,
    })
}

/// Returns the codes of the findings in `outcome`. For a question about the job as a whole, returns
/// only the codes of the findings about its open runs.
pub(super) fn decided(facts: &Facts, outcome: &[Finding]) -> Vec<&'static str> {
    match &facts.subject {
        Subject::Job { open, .. } => open.iter().map(|run| state_of(facts, run).code).collect(),
        _ => outcome.iter().map(|found| found.code).collect(),
    }
}

/// Returns the finding that a backfill of the occurrence was cancelled. Returns `None` if the
/// occurrence succeeded or no backfill of it was cancelled.
fn dropped_backfill(facts: &Facts) -> Option<Finding> {
    // The backfill may be of a schedule that the job no longer has.
    let is_of_schedule = |at| {
        let past = facts.past.iter().filter_map(|one| one.definition.as_ref());
        past.chain(facts.definition()).any(|(_, timetable)| timetable.count_in(at, at) == 1)
    };
    let at = match &facts.subject {
        Subject::Run(run)
            if run.run.kind() == RunKind::Regular && run.state != RunState::Succeeded =>
        {
            run.run.due()
        }
        Subject::Ledger { at, state, .. } if state != RunState::Succeeded.as_str() => *at,
        Subject::InRange { at, .. } | Subject::BeforeLedger { at, .. } => *at,
        Subject::Unrecorded { at } | Subject::NotDue { at, .. } if is_of_schedule(*at) => *at,
        _ => return None,
    };
    let covers = |entry: &&AuditEntry| {
        entry.what == AuditEntry::BACKFILL_DROPPED
            && entry.dues.is_some_and(|(first, last)| first <= at && at <= last)
    };
    let entry = facts.audit_log.iter().rev().find(covers)?;
    let (by, at) = (by(entry.by.as_ref()), facts.shown(entry.at));
    Some(finding(
        "made_up_dropped",
        format!("The backfill of this occurrence was cancelled{by} on {at}."),
    ))
}

fn of_subject(facts: &Facts) -> Vec<Finding> {
    let (code, text) = match &facts.subject {
        Subject::Run(run) | Subject::InRange { run, .. } => return of_run(facts, run),
        Subject::Job { open, more, last } => return of_job(facts, open, *more, last.as_deref()),
        Subject::Ledger { .. } => return in_ledger(facts).into_iter().collect(),
        Subject::NotDue { .. } => return Vec::new(),
        Subject::BeforeLedger { counts, until, .. } => {
            let counts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
            let (counts, until) = (counts.join(", "), facts.shown(*until));
            (
                "counted",
                format!("The record of this run is no longer kept. Only counts remain of the runs due up to {until}: {counts}."),
            )
        }
        Subject::Behind { run, .. } => {
            let due = facts.shown(run.run.due());
            ("behind_owed", format!("This occurrence has no run yet, because the earlier run, due on {due}, has not started."))
        }
        Subject::Unrecorded { .. } if facts.added_later().is_some() => return Vec::new(),
        Subject::Unrecorded { .. } if hidden(facts).is_some() => return vec![gone_with_data()],
        Subject::Unrecorded { .. } => (
            "unrecorded",
            "Redis has no record of this occurrence: the record was purged or trimmed, or the job was added later.".to_owned(),
        ),
        Subject::Over { .. } => ("over", format!("This occurrence has no run: {reason}.", reason = over(facts))),
        Subject::ToCome { at } => return vec![to_come(facts, *at)],
        Subject::ToMakeUp { .. } => {
            ("to_make_up", "This occurrence waits for its backfill, which was requested with schedctl backfill.".to_owned())
        }
        Subject::Never => return vec![never()],
    };
    vec![finding(code, text)]
}

fn gone_with_data() -> Finding {
    finding("gone_with_data", "Redis lost the records of the job's runs in a data loss.")
}

fn never() -> Finding {
    finding("never", "The job has not been due yet.")
}

fn to_come(facts: &Facts, at: UnixMillis) -> Finding {
    finding("to_come", format!("The run is planned for {}.", facts.shown(at)))
}

/// Returns the finding for the ledger range that contains, or may contain, the occurrence. Returns
/// `None` if the user does not ask about an occurrence in the ledger.
fn in_ledger(facts: &Facts) -> Option<Finding> {
    let Subject::Ledger { state, reason, first, last, count, is_sure, .. } = &facts.subject else {
        return None;
    };
    let is_missed = state == RunState::Skipped.as_str() && reason == "missed";
    // The count of a skipped range is exact only up to a maximum.
    let all = if state.starts_with(RunState::Skipped.as_str()) {
        skipped_count(*count)
    } else {
        count.to_string()
    };
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let state = format!("{}{reason}", state.replace('_', " "));
    let due = format!("due between {} and {}", facts.shown(*first), facts.shown(*last));
    if !is_sure {
        let runs = if *count == 1 { "run" } else { "runs" };
        let text = format!(
            "{all} {runs} {due} ended as {state}. The ledger does not show whether this occurrence was one of them."
        );
        return Some(finding("perhaps_trimmed", text));
    }
    let why = if is_missed { ", nor is the reason why it did not start" } else { "" };
    let others = if *count == 1 {
        String::new()
    } else {
        format!(" In all, {all} runs {due} ended that way.")
    };
    Some(finding(
        "trimmed",
        format!("The run ended as {state}. Its record is no longer kept{why}.{others}"),
    ))
}

fn of_job(facts: &Facts, open: &[RunFacts], more: u64, last: Option<&RunFacts>) -> Vec<Finding> {
    let mut found = Vec::new();
    for run in open {
        let back = handed_back(run).filter(|_| run.is_back(facts.now));
        let states = back.into_iter().chain([state_of(facts, run)]);
        let named = |state: Finding| state.text.replacen("The run", &format!("Run {}", run.run), 1);
        found.extend(states.map(|state| finding("open", named(state))));
    }
    match more {
        0 => {}
        1 => found.push(finding("more_open", "1 more run of the job has not ended.")),
        _ => {
            found
                .push(finding("more_open", format!("{more} more runs of the job have not ended.")));
        }
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
            found.push(finding(
                "last",
                format!("Run {} was the last to end: {state}{on}.", run.run),
            ));
        }
        None if open.is_empty() && facts.gone.is_some() => found.push(gone_with_data()),
        None if open.is_empty() => found.push(never()),
        None => {}
    }
    found
}

fn of_run(facts: &Facts, run: &RunFacts) -> Vec<Finding> {
    // If the node of the last attempt is gone, the state of the run already describes that attempt.
    let known = run.attempts.len().saturating_sub(usize::from(unseen(facts, run).is_some()));
    let mut found: Vec<Finding> =
        run.attempts.iter().take(known).map(|attempt| of_attempt(facts, attempt)).collect();
    found.splice(0..0, chain_findings::parents_ended(run));
    found.extend(handed_back(run));
    let id = run.run.to_string();
    let retries = facts
        .audit_log
        .iter()
        .filter(|entry| entry.what == AuditEntry::RUN_RETRIED && entry.run.as_ref() == Some(&id));
    found.extend(retries.map(|entry| {
        let (by, at) = (by(entry.by.as_ref()), facts.shown(entry.at));
        finding("retried", format!("The run was retried{by} on {at}."))
    }));
    found.push(state_of(facts, run));
    if run.is_asked_to_stop {
        found.push(finding(
            "asked_to_stop",
            format!("The run was asked to stop{}.", by(run.by.as_ref())),
        ));
    }
    if let Some((last, count)) = run.skipped.filter(|(_, count)| *count > 1) {
        let all = if count < u64::from(Timetable::COUNTED) { "all " } else { "" };
        let (count, first, last) =
            (skipped_count(count), facts.shown(run.run.due()), facts.shown(last));
        found.push(finding(
            "in_range",
            format!(
                "For the same reason, {all}{count} occurrences from {first} to {last} were skipped."
            ),
        ));
    }
    found
}

fn of_attempt(facts: &Facts, attempt: &AttemptFacts) -> Finding {
    let AttemptFacts { number, node, started_at, finished_at, end, is_end_known } = attempt;
    let node = after(" on ", node.as_ref());
    let start = after(" started on ", started_at.map(|at| facts.shown(at)));
    let took =
        after(" after ", started_at.zip(*finished_at).map(|(from, to)| span(to.since(from))));
    let end = match end {
        Some(why) if !is_end_known => format!(". Its end is not known: {why}."),
        Some(end) => format!(", ended{took}: {end}."),
        None => " and is running.".to_owned(),
    };
    finding("attempt", format!("Attempt {number}{node}{start}{end}"))
}

fn handed_back(run: &RunFacts) -> Option<Finding> {
    let why = run.handed_back.as_ref()?;
    Some(finding(
        "handed_back",
        format!("The run was claimed by a node and handed back without a start: {why}."),
    ))
}

/// Returns the node of a running run and the node's last heartbeat, if the node is gone. Returns
/// `None` otherwise.
fn unseen<'f>(facts: &Facts, run: &'f RunFacts) -> Option<(&'f String, UnixMillis)> {
    let node = run.attempts.last().filter(|_| run.state == RunState::Running)?.node.as_ref()?;
    let seen = facts.nodes.iter().find(|known| known.name == *node)?.last_seen?;
    (facts.now.since(seen) > GONE_AFTER).then_some((node, seen))
}

/// Returns the reason why the job had already ended at the time that the user asks about, as a
/// clause.
fn over(facts: &Facts) -> String {
    let Some((how, at)) = facts.job.as_ref().and_then(|job| job.ended.as_ref()) else {
        return "as many runs had started as max_runs allows".to_owned();
    };
    let on = on(facts, *at);
    if how == "finished" { format!("the job ended{on}") } else { format!("the job was {how}{on}") }
}

/// Returns the finding for the state of a run, with the reason why the run is in this state.
fn state_of(facts: &Facts, run: &RunFacts) -> Finding {
    let reason = run.reason.as_deref();
    let on = on(facts, run.finished_at);
    let (code, text) = match run.state {
        RunState::Succeeded if reason.is_some_and(|reason| reason.starts_with("done_check")) => (
            "already_done",
            "The run succeeded: its done_check reported that the work was already done.".to_owned(),
        ),
        RunState::Succeeded => ("succeeded", format!("The run succeeded{on}.")),
        RunState::Failed => ("failed", format!("The run failed{}.", after(": ", reason))),
        RunState::TimedOut => {
            ("timed_out", "The run exceeded its timeout and was stopped.".to_owned())
        }
        RunState::Lost => match reason {
            Some(why) if why.starts_with("done_check gave no clear answer") => (
                "asked_in_vain",
                format!("The run is lost. No further attempt was started: {why}. {UNKNOWN}"),
            ),
            Some(why) => ("lost", format!("The run is lost: {why}. {UNKNOWN}")),
            None => ("lost", format!("The run is lost. {UNKNOWN}")),
        },
        RunState::Cancelled => match (reason, &run.by) {
            (Some("replaced"), _) => (
                "replaced",
                "The run was stopped because the next run of its job replaced it.".to_owned(),
            ),
            (Some("of an earlier job of this name"), _) => (
                "of_earlier_job",
                "The run was cancelled because it belongs to an earlier job of this name."
                    .to_owned(),
            ),
            (Some("removed" | "job removed"), who) => (
                "removed_with_job",
                format!("The run ended because its job was removed{}.", by(who.as_ref())),
            ),
            (_, Some(who)) => ("cancelled", format!("The run was cancelled by {who}{on}.")),
            (_, None) => (
                "cancelled",
                format!("The run was cancelled{on}. The user who cancelled the run is not known."),
            ),
        },
        RunState::Skipped => skipped(facts, run),
        RunState::Running if let Some((node, seen)) = unseen(facts, run) => {
            let seen = facts.shown(seen);
            let text = format!(
                "The run was running on node {node}, which was last seen on {seen}. Another node recovers the run when its lease expires."
            );
            ("running_unseen", text)
        }
        RunState::Running => {
            let last = run.attempts.last();
            let node = after(" on ", last.and_then(|attempt| attempt.node.as_ref()));
            let since = after(
                ", started on ",
                last.and_then(|attempt| attempt.started_at).map(|at| facts.shown(at)),
            );
            ("running", format!("The run is running{node}{since}."))
        }
        RunState::Scheduled => return scheduled(facts, run),
    };
    finding(code, text)
}

fn skipped(facts: &Facts, run: &RunFacts) -> (&'static str, String) {
    match run.reason.as_deref() {
        Some("overlap") => {
            let open = run.behind.as_ref().map_or_else(|| "an earlier run".to_owned(), |run| format!("run {run}"));
            let is_full = facts.definition().and_then(|(spec, _)| match spec.overlap {
                Overlap::Queue { max } => Some(format!(", and max = {max} allows no more waiting runs")),
                _ => None,
            });
            let is_full = is_full.unwrap_or_default();
            ("skipped_overlap", format!("The run was skipped because {open} was still open{is_full}."))
        }
        Some("missed") if hidden(facts).is_some() => (
            "skipped_after_loss",
            "The run was skipped after Redis had lost data: when nodes started runs again, the run counted as missed.".to_owned(),
        ),
        Some("missed") | None => {
            ("skipped_missed", missed(facts, run))
        }
        Some("max_runs") => {
            ("skipped_used_up", "The run was skipped because as many runs had started as max_runs allows.".to_owned())
        }
        Some("parent") => ("skipped_parent", chain_findings::skipped(facts, run)),
        Some("paused") => {
            let paused = facts.entry_before(AuditEntry::PAUSED, run.finished_at.unwrap_or(facts.now));
            let by = by(paused.and_then(|entry| entry.by.as_ref()));
            let on = on(facts, paused.map(|entry| entry.at));
            ("skipped_paused", format!("The run was skipped because its job was paused{by}{on}."))
        }
        Some(reason) => ("skipped", format!("The run was skipped: {reason}.")),
    }
}

/// Returns the sentences about a run that was skipped as missed, with the rule that decided.
fn missed(facts: &Facts, run: &RunFacts) -> String {
    let late = run.finished_at.map(|ended| span(ended.since(run.run.due()))).unwrap_or_default();
    let rule = facts.definition().map(|(spec, _)| &spec.catch_up);
    match cause_of_skip(facts, run).zip(rule) {
        Some((SkipCause::NewerDue(at), rule)) => {
            let (newer, mode) = (RunId::regular(facts.name.clone(), at), mode_word(rule.mode));
            format!(
                "The run was skipped because a newer occurrence, {newer}, was due before the run could start. \
                 catch_up = {mode} starts only the newest occurrence."
            )
        }
        Some((SkipCause::TooMany, rule)) => format!(
            "The run was skipped because more than {most} occurrences were due before the run could start. \
             max_count = {most} of catch_up starts only the newest {most}.",
            most = rule.max_count
        ),
        Some((SkipCause::OlderThanMaxAge(most), _)) => format!(
            "The run was skipped because it was {late} late. catch_up starts no run that is more than max_age = {} late.",
            format_duration(most)
        ),
        Some((SkipCause::OlderThanSkipIfLate(most), _)) => format!(
            "The run was skipped because it was {late} late. skip_if_late = {} allows no later start.",
            format_duration(most)
        ),
        Some((SkipCause::Late, _)) => format!(
            "The run was skipped because it was {late} late. catch_up = skip starts no run that is later than late_after."
        ),
        None => "The run was skipped as missed: it could not start in time.".to_owned(),
    }
}

fn scheduled(facts: &Facts, run: &RunFacts) -> Finding {
    let ready = run.ready.unwrap_or_else(|| run.run.due());
    let at = facts.shown(ready);
    let unclear =
        run.reason.as_ref().filter(|reason| reason.starts_with("done_check gave no clear answer"));
    let (code, text) = match (run.place, unclear) {
        (Place::AtGate, _) => return waits_at(facts, run),
        (Place::Waiting, _) => {
            let open = run
                .behind
                .as_ref()
                .map_or_else(|| "an open run of its job".to_owned(), |run| format!("run {run}"));
            ("waits", format!("The run waits for {open} to end."))
        }
        (Place::Paused, _) => ("job_paused", "The run waits because its job is paused.".to_owned()),
        (Place::Queue, Some(why)) if ready > facts.now => (
            "ask_at",
            format!("The run has not started: {why}. The done_check is asked again on {at}."),
        ),
        (Place::Queue, _) if ready > facts.now && !run.attempts.is_empty() => {
            ("retry_at", format!("The run is retried on {at}."))
        }
        (Place::Queue, _) if ready > facts.now && run.is_spread => (
            "spread_to",
            format!(
                "No node started the run in time. The spread of catch_up moved its start to {at}."
            ),
        ),
        (Place::Queue, _) if ready > facts.now => return to_come(facts, ready),
        (Place::Queue, _) => match &run.passed {
            Some(passed) => return let_in(facts, passed, ready),
            None => (
                "owed",
                format!("The run has been ready since {at}. No node has claimed the run yet."),
            ),
        },
    };
    finding(code, text)
}
