//! The findings of `explain`, made from the facts. Each module makes one kind of findings.

mod blocker_findings;
mod chain_findings;
mod clock_findings;
mod deadline_findings;
mod gate_findings;
mod loss_findings;
mod next_findings;
mod node_findings;
mod node_life;
mod obstacle;
mod outcome_findings;
mod plan_findings;
mod rule_findings;
mod timing_findings;

use super::facts::Facts;
use super::finding::Finding;

/// The codes of outcome findings that give the reason why a run waits.
const WAITS: [&str; 7] =
    ["waits", "waits_at", "let_in", "gave_up_place", "retry_at", "ask_at", "job_paused"];

/// The codes of timing findings that give no cause for a delay.
const NO_CAUSE: [&str; 6] =
    ["on_time", "late", "not_started", "late_unexplained", "timing_lost", "caught_up"];

/// Returns all findings of `explain` about `facts`, in the order of the answer.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let outcome = outcome_findings::outcome(facts);
    let timing = timing_findings::timing(facts);
    let mut found = plan_findings::plan(facts);
    let rules = rule_findings::rules(facts, &found, &outcome, &timing);
    found.extend(outcome);
    found.extend(loss_findings::losses(facts));
    found.extend(node_findings::nodes(facts));
    found.extend(timing);
    found.extend(deadline_findings::deadlines(facts));
    found.extend(rules);
    found.extend(next_findings::next(facts));
    found
}

/// Returns the findings that give the reasons why a run started late or has not started. Empty if
/// no reason is known.
pub fn causes(facts: &Facts) -> Vec<Finding> {
    let waits =
        outcome_findings::outcome(facts).into_iter().filter(|found| WAITS.contains(&found.code));
    waits
        .chain(
            timing_findings::timing(facts)
                .into_iter()
                .filter(|found| !NO_CAUSE.contains(&found.code)),
        )
        .collect()
}
