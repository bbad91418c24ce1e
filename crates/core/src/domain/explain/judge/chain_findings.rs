//! Findings about a job in a chain: which parents it awaits, and how its parents ended.

use crate::domain::explain::facts::{ChainFacts, Facts, RunFacts};
use crate::domain::explain::finding::{Finding, Part};
use schedd_schedule::chain::chain_end::ParentEnd;
use schedd_schedule::chain::parents::Parents;
use schedd_schedule::names::JobName;

/// Returns the finding for the parents of the job, which take the place of a schedule.
pub(super) fn parents(parents: &Parents) -> Finding {
    let text = format!(
        "The job has no schedule of its own. It runs {}, when {}.",
        parents.text(),
        parents.rule.condition()
    );
    Part::Planned.finding("parents", text)
}

/// Returns the finding that parents of the job no longer exist. Returns `None` if all exist.
pub(super) fn lost_parents(facts: &Facts) -> Option<Finding> {
    let names: Vec<&str> = facts.lost_parents.iter().map(JobName::as_str).collect();
    if names.is_empty() {
        return None;
    }
    let text = format!(
        "Of its parents, {} no longer exist, so the job does not run until they are added again or its parents are edited.",
        names.join(", ")
    );
    Some(Part::Planned.finding("lost_parents", text))
}

/// Returns the finding for an occurrence that waits for parents, or `None`.
pub(super) fn awaits(facts: &Facts) -> Option<Finding> {
    let ChainFacts { run, ends, awaited, is_stuck } = facts.chain.as_ref()?;
    let awaited: Vec<String> = awaited
        .iter()
        .map(|(job, state)| match state {
            Some(state) => format!("{job} ({})", state.as_str().replace('_', " ")),
            None => format!("{job} (no run yet)"),
        })
        .collect();
    let stuck = if *is_stuck {
        " It waits in vain, because no run of the chain goes on for this occurrence: schedctl doctor --fix ends it."
    } else {
        ""
    };
    let text = format!(
        "Run {run} waits for the end of {}. Parents that have ended: {}.{stuck}",
        awaited.join(", "),
        in_words(ends)
    );
    Some(Part::Became.finding("awaits_parents", text))
}

/// Returns the finding that says how the parents of a run ended. Returns `None` if no parent started
/// the run, or if the run was skipped because of a parent, which another finding says.
pub(super) fn parents_ended(run: &RunFacts) -> Option<Finding> {
    if run.parents.is_empty() || run.reason.as_deref() == Some("parent") {
        return None;
    }
    let text = format!("The parents of the run ended: {}.", in_words(&run.parents));
    Some(Part::Became.finding("parents_ended", text))
}

/// Returns the sentence about a run that was skipped because of the ends of its parents.
pub(super) fn skipped(facts: &Facts, run: &RunFacts) -> String {
    let rule = facts.definition().and_then(|(spec, _)| spec.schedule.parents());
    let wanted = rule.map_or_else(String::new, |parents| {
        format!(" The job runs when {}.", parents.rule.condition())
    });
    format!(
        "The run was skipped because of the ends of its parents: {}.{wanted}",
        in_words(&run.parents)
    )
}

/// Returns the ends as text, such as `extract@5 succeeded, load@5 failed (exit code 3)`.
fn in_words(ends: &[ParentEnd]) -> String {
    let words = |end: &ParentEnd| {
        let reason = match (end.exit_code.filter(|_| end.state == "failed"), &*end.reason) {
            (Some(code), _) => format!(" (exit code {code})"),
            (None, "") => String::new(),
            (None, reason) => format!(" ({reason})"),
        };
        format!("{} {}{reason}", end.run, end.state.replace('_', " "))
    };
    if ends.is_empty() {
        return "none".to_owned();
    }
    ends.iter().map(words).collect::<Vec<_>>().join(", ")
}
