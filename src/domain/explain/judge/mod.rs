//! Judges the facts: all findings, in the order in which they answer.

mod blocker;
mod deadline;
mod gate;
mod loss;
mod next;
mod node_life;
mod nodes;
mod obstacle;
mod outcome;
mod plan;
mod rule;
mod timing;

use super::facts::Facts;
use super::finding::Finding;

/// Codes of outcomes that say what a run waits for.
const WAITS: [&str; 7] = ["waits", "waits_at", "let_in", "gave_up_place", "retry_at", "ask_at", "held"];

/// Codes of timing that name no cause.
const NO_CAUSE: [&str; 6] = ["on_time", "late", "not_started", "late_unexplained", "timing_lost", "caught_up"];

/// All findings about what is asked.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let outcome = outcome::outcome(facts);
    let timing = timing::timing(facts);
    let rules = rule::rules(facts, &outcome, &timing);
    let mut found = plan::plan(facts);
    found.extend(outcome);
    found.extend(loss::losses(facts));
    found.extend(nodes::nodes(facts));
    found.extend(timing);
    found.extend(deadline::deadlines(facts));
    found.extend(rules);
    found.extend(next::next(facts));
    found
}

/// Why the run asked about has not started, or started late; empty if nothing on record says why.
pub fn causes(facts: &Facts) -> Vec<Finding> {
    let waits = outcome::outcome(facts).into_iter().filter(|found| WAITS.contains(&found.code));
    waits.chain(timing::timing(facts).into_iter().filter(|found| !NO_CAUSE.contains(&found.code))).collect()
}
