//! Findings about the deadlines that a run missed, and about their `on_late` notices.

use super::timing_findings::latest_shift;
use crate::domain::explain::explain_words::after;
use crate::domain::explain::facts::{Facts, LateNotice, Place, RunFacts, Subject};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::job::job_spec::JobSpec;
use crate::domain::job::notice::Deadline;
use crate::domain::run::run_state::RunState;
use schedd_schedule::names::RunKind;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;

/// Returns the findings about the deadlines that the run missed, and about the `on_late` notices of
/// these deadlines.
pub(super) fn deadlines(facts: &Facts) -> Vec<Finding> {
    let run = match &facts.subject {
        Subject::Run(run) | Subject::InRange { run, .. } => run,
        Subject::Job { open, .. } => {
            match open.iter().find(|run| !run.late_notices.is_empty() || run.is_owed(facts.now)) {
                Some(run) => run,
                None => return Vec::new(),
            }
        }
        _ => return Vec::new(),
    };
    let spec = facts.definition().map(|(spec, _)| spec);
    Deadline::ALL.into_iter().flat_map(|kind| of_deadline(facts, run, spec, kind)).collect()
}

fn of_deadline(
    facts: &Facts,
    run: &RunFacts,
    spec: Option<&JobSpec>,
    kind: Deadline,
) -> Vec<Finding> {
    let notice = run.late_notices.iter().find(|notice| notice.of == kind);
    let within = spec.and_then(|spec| match kind {
        Deadline::Start => spec.must_start_within,
        Deadline::Finish => spec.must_finish_within,
    });
    // A skipped run has no deadline, unless it was skipped because an open run took too long.
    let within = within
        .filter(|_| run.state != RunState::Skipped || notice.is_some() && run.behind.is_some());
    let missed = within.and_then(|within| {
        let by = run.run.due().saturating_add(within.saturating_add(latest_shift(facts, run)));
        (notice.is_some() || is_missed(facts, run, kind, by))
            .then_some((facts.shown(by), span(within)))
    });
    let of_notice = notice.map(|notice| of_notice(facts, notice)).or_else(|| {
        let why = "Redis has no on_late notice for this deadline. The notice was not made yet, was left out because of too many notices, or was deleted.";
        missed.as_ref().map(|_| Part::Timing.finding("unknown_late", why))
    });
    let missed = missed.map(|(by, within)| match kind {
        Deadline::Start => Part::Timing.finding(
            "missed_start",
            format!("The run had not started by {by}, the deadline that must_start_within = {within} sets."),
        ),
        Deadline::Finish => Part::Timing.finding(
            "missed_finish",
            format!("The run had not ended by {by}, the deadline that must_finish_within = {within} sets."),
        ),
    });
    missed.into_iter().chain(of_notice).collect()
}

/// Returns true if the run had not started or ended, depending on `kind`, by its deadline `by`.
/// Returns false for a run that is not regular, and for the kept run of a paused job.
fn is_missed(facts: &Facts, run: &RunFacts, kind: Deadline, by: UnixMillis) -> bool {
    if run.run.kind() != RunKind::Regular || run.place == Place::Paused {
        return false;
    }
    let open_until = if run.state.is_final() { run.finished_at } else { Some(facts.now) };
    let until = match kind {
        Deadline::Start => run.first_start.or(open_until),
        Deadline::Finish => open_until,
    };
    until.is_some_and(|until| until > by)
}

fn of_notice(facts: &Facts, notice: &LateNotice) -> Finding {
    let LateNotice { run, state, node, finished_at, end, .. } = notice;
    let (code, text) = match (state, finished_at) {
        (RunState::Succeeded, Some(at)) => {
            let by_node = after(" by node ", node.as_ref());
            (
                "reported_late",
                format!(
                    "The on_late notice {run} was delivered on {time}{by_node}.",
                    time = facts.shown(*at)
                ),
            )
        }
        (state, _) if state.is_final() => {
            let why = end.clone().unwrap_or_else(|| state.as_str().replace('_', " "));
            (
                "unreported_late",
                format!(
                    "The on_late notice {run} was not delivered. Its last attempt ended with: {why}."
                ),
            )
        }
        _ => {
            let last_end = after(". Its last attempt ended with: ", end.as_ref());
            (
                "reporting_late",
                format!("The on_late notice {run} has not been delivered yet{last_end}."),
            )
        }
    };
    Part::Timing.finding(code, text)
}
