//! Findings about the delay of a run and its causes.
//!
//! Invariant: each cause is a recorded fact. If no cause is recorded, a finding says this.

use std::time::Duration;

use super::blocker_findings::{blockers, paused_queue};
use super::loss_findings::hidden;
use super::node_life::Window;
use super::obstacle::Delay;
use crate::domain::explain::explain_words::after;
use crate::domain::explain::facts::{Facts, ON_TIME, RunFacts, Subject};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::job::job_spec::Overlap;
use schedd_schedule::lateness::CatchUpMode;
use schedd_schedule::names::RunKind;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;

fn finding(code: &'static str, text: impl Into<String>) -> Finding {
    Part::Timing.finding(code, text)
}

/// Returns the findings about the delay of the run and its causes.
pub(super) fn timing(facts: &Facts) -> Vec<Finding> {
    match &facts.subject {
        // Later obstacles do not explain why the run did not start before the data loss.
        _ if hidden(facts).is_some() => {
            vec![finding(
                "timing_lost",
                "Redis lost the data that shows whether the run started on time.",
            )]
        }
        Subject::Run(run) => of_run(facts, run),
        Subject::InRange { run, .. } | Subject::Behind { run, .. } => {
            Delay::of(facts, run).findings(facts, run)
        }
        Subject::Job { open, .. } => match open.iter().find(|run| run.is_owed(facts.now)) {
            Some(run) => of_run(facts, run),
            None => paused_queue(facts),
        },
        _ => Vec::new(),
    }
}

fn of_run(facts: &Facts, run: &RunFacts) -> Vec<Finding> {
    // A backfill or rerun has the due time of an earlier occurrence, so it cannot be late.
    if matches!(run.run.kind(), RunKind::Backfill | RunKind::Rerun) {
        return Vec::new();
    }
    // A child starts when its parents have ended, however long after its due time.
    if !run.parents.is_empty() && !run.is_owed(facts.now) {
        return Vec::new();
    }
    // The run was claimed for its `done_check` only, and no attempt started.
    if run.first_start.is_some() && run.attempts.is_empty() {
        return Vec::new();
    }
    let mut found = match run.late() {
        Some(late) if late <= ON_TIME => {
            vec![finding(
                "on_time",
                format!("The run started on time, {} after it was due.", span(late)),
            )]
        }
        Some(late) => started_late(facts, run, late),
        None if run.is_owed(facts.now) => not_started(facts, run),
        None if run.state.is_final() => Delay::of(facts, run).findings(facts, run),
        None => Vec::new(),
    };
    if run.first_start.is_some() && run.is_owed(facts.now) && !run.is_back(facts.now) {
        found.extend(not_retried(facts, run));
    }
    found
}

/// Returns what keeps a run that has not started.
fn not_started(facts: &Facts, run: &RunFacts) -> Vec<Finding> {
    let due = run.run.due();
    keeps(facts, run, ("The run", run.ready.unwrap_or(due).max(due)), &Delay::of(facts, run))
}

/// Returns what keeps the next attempt of a run that has started before.
fn not_retried(facts: &Facts, run: &RunFacts) -> Vec<Finding> {
    let ready = run.ready.unwrap_or(facts.now);
    keeps(facts, run, ("The next attempt", ready), &Delay::of_next_attempt(facts, run))
}

/// Returns since when `what` is ready and has not started, and the reasons: what blocks the run now,
/// and `delay`.
fn keeps(
    facts: &Facts,
    run: &RunFacts,
    (what, ready): (&str, UnixMillis),
    delay: &Delay,
) -> Vec<Finding> {
    let late = facts.now.since(ready);
    let mut found = Vec::new();
    if late > ON_TIME {
        found.push(finding(
            "not_started",
            format!("{what} has been due for {} and has not started.", span(late)),
        ));
    }
    if facts.owed().is_some_and(|owed| owed.run == run.run) {
        found.extend(blockers(facts, run, delay));
    }
    found.extend(delay.findings(facts, run));
    found
}

fn started_late(facts: &Facts, run: &RunFacts, late: Duration) -> Vec<Finding> {
    let due = run.run.due();
    let mut found = vec![finding("late", format!("The run started {} late.", span(late)))];
    let mut no_nodes = Vec::new();
    let gate = run.gate.as_ref().and_then(|at| Some((&at.gate, at.until?)));
    if let Some((gate, until)) = gate {
        let behind = after(", at first behind run ", run.behind.as_ref());
        let until = facts.shown(until);
        found.push(finding(
            "late_at_gate",
            format!("The run waited until {until} for a place at {gate}{behind}."),
        ));
    } else if run.ready_at.since(due) > ON_TIME {
        found.push(late_ready(facts, run));
        if run.behind.is_some() {
            let delay = Delay::of_earlier_run(facts, run, Window { from: due, to: run.ready_at });
            found.extend(delay.findings(facts, run));
            no_nodes.extend(delay.no_node);
        }
    }
    let ready = gate.map_or(run.ready_at, |(_, until)| until).max(due);
    if run.first_start.is_some_and(|start| start.since(ready) > ON_TIME) {
        let delay = Delay::of(facts, run);
        let causes = delay.findings(facts, run);
        let is_unexplained = causes.is_empty();
        found.extend(causes);
        found.extend(
            is_unexplained
                .then(|| finding("late_unexplained", "No record shows the reason for the delay.")),
        );
        no_nodes.extend(delay.no_node);
    }
    let down_until =
        no_nodes.iter().filter(|no_node| no_node.since.is_none()).find_map(|no_node| no_node.until);
    if let Some(mode) = caught_up(facts, run, late, down_until) {
        let text = format!(
            "The run was later than late_after allows. \
             The run started nevertheless, because catch_up is {mode}."
        );
        found.push(finding("caught_up", text));
    }
    found
}

/// Returns the finding that gives the reason why the run became ready after its due time.
fn late_ready(facts: &Facts, run: &RunFacts) -> Finding {
    let until = facts.shown(run.ready_at);
    match &run.behind {
        Some(open) => {
            finding("late_behind", format!("The run waited until {until} for run {open} to end."))
        }
        None if run.is_spread => finding(
            "late_spread",
            format!(
                "No node started the run in time. The spread of catch_up moved its start to {until}."
            ),
        ),
        None if run.ready_at.since(run.run.due()) <= latest_shift(facts, run) => finding(
            "late_shifted",
            format!("The jitter and splay of the job moved the start to {until}."),
        ),
        None => finding("late_ready", format!("The run was not ready before {until}.")),
    }
}

/// Returns the maximum time by which `jitter` and `splay` delay the run. Returns 0 for a run that
/// is not regular, or if the definition of the job is unreadable.
pub(super) fn latest_shift(facts: &Facts, run: &RunFacts) -> Duration {
    let definition = facts.definition().filter(|_| !run.run.is_manual());
    definition.map_or(Duration::ZERO, |(spec, _)| spec.shape.latest_shift(&facts.name))
}

/// Returns the mode of `catch_up` because of which a missed run started. Returns `None` if the run
/// was not missed, or if `catch_up` does not apply to it.
///
/// `down_until` is the time when a node was running again. It is `None` if a node was running when
/// the run was due.
fn caught_up(
    facts: &Facts,
    run: &RunFacts,
    late: Duration,
    down_until: Option<UnixMillis>,
) -> Option<&'static str> {
    let (spec, timetable) = facts.definition()?;
    if run.run.is_manual() || timetable.is_one_shot() {
        return None;
    }
    let is_long = |late: Duration| late.saturating_sub(latest_shift(facts, run)) > spec.late_after;
    // A run that waited for an open run was missed only in two cases. In mode `all`, missed runs
    // wait for each other. Or no node was running when the run was due.
    let is_one_of_all = run.gate.is_none()
        && spec.catch_up.mode == CatchUpMode::All
        && spec.overlap == Overlap::Skip;
    let was_missed = || down_until.is_some_and(|until| is_long(until.since(run.run.due())));
    let is_missed = is_long(late) && (run.behind.is_none() || is_one_of_all || was_missed());
    is_missed.then_some(mode_word(spec.catch_up.mode))
}

/// Returns the name of a `catch_up` mode in `jobs.toml`.
pub(super) fn mode_word(mode: CatchUpMode) -> &'static str {
    match mode {
        CatchUpMode::Skip => "skip",
        CatchUpMode::Latest => "latest",
        CatchUpMode::All => "all",
    }
}
