//! Findings about a run that waits at a gate, or that a gate let in and that has not begun.

use crate::domain::explain::explain_words::{after, list};
use crate::domain::explain::facts::{Facts, Passed, RunFacts};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::queue::group_rules::Shut;
use crate::domain::time::unix_millis::UnixMillis;

/// The maximum number of lanes that a sentence names.
const NAMED: usize = 3;

/// Returns the finding for a run that waits at a gate.
pub(super) fn waits_at(facts: &Facts, run: &RunFacts) -> Finding {
    let Some(at) = &run.gate else { return Part::Became.finding("waits_at", "It waits for its place at a gate.") };
    let hindrance = after(": ", at.hindrance.as_ref());
    let behind = match (&at.holder, &at.stuck, &run.behind) {
        (Some((holder, true)), ..) => format!(", behind {holder}"),
        (Some((let_in, false)), ..) => format!(", behind {let_in}, which was let in and has not begun{hindrance}"),
        (None, Some((stuck, next)), _) => format!(
            ", behind {stuck} of its queue, which was let in and did not begin{hindrance}; the next is tried on {}",
            facts.shown(*next)
        ),
        // A gate that only time keeps shut has no holder any more.
        (None, None, Some(behind)) if at.rate.is_none() && at.shut == Shut::default() => {
            format!(", behind {behind} when it came")
        }
        _ => String::new(),
    };
    let rate = at.rate.map(|(rate, opens)| format!("{rate} lets one more begin on {}", facts.shown(opens)));
    let rate = after("; its rate of ", rate);
    let gap = after("; ", at.shut.gap_words(&facts.zone));
    let turn = after("; ", at.turn.as_ref().map(|job| at.shut.turn_words(job, &facts.zone)));
    let unserved = at.unserved.as_ref().map(|(lane, why)| format!("{lane}: {why}."));
    let unserved = after(" No node takes runs of its lane ", unserved);
    let passed_over = passed_over(at.passed_over.iter().map(ToString::to_string).collect());
    let text = format!("It waits for its place at {}{behind}{rate}{gap}{turn}.{unserved}{passed_over}", at.gate);
    Part::Became.finding("waits_at", text)
}

/// Returns a sentence about lanes with earlier runs that no node serves. Returns an empty text if
/// `lanes` is empty.
fn passed_over(mut lanes: Vec<String>) -> String {
    let more = lanes.len().saturating_sub(NAMED);
    if more > 0 {
        lanes.truncate(NAMED);
        lanes.push(format!("{more} more"));
    }
    match lanes.as_slice() {
        [] => String::new(),
        [lane] => format!(" Runs of lane {lane} stand before it there; no node serves that lane, and it passes them."),
        _ => format!(" Runs of lanes {} stand before it there; no node serves those lanes, and it passes them.", list(&lanes)),
    }
}

/// Returns the finding for a run that a gate let in and that has not begun. `ready` is when the run
/// became ready.
pub(super) fn let_in(facts: &Facts, passed: &Passed, ready: UnixMillis) -> Finding {
    let Passed { gate, since, holder, unserved } = passed;
    if let Some(since) = since {
        let since = facts.shown(*since);
        let text = format!("It was let in at {gate} on {since}, and has not begun: no node has claimed it yet.");
        return Part::Became.finding("let_in", text);
    }
    let now = match holder {
        Some((run, true)) => format!("; {run} has it now"),
        Some((run, false)) => format!("; {run} was let in after it and has not begun"),
        None => String::new(),
    };
    let ready = format!("It is ready since {}, and needs a place", facts.shown(ready));
    let text = match unserved {
        Some(lane) => {
            format!("No node serves its lane {lane}, and others pass it at {gate}{now}. {ready} there when a node can claim it.")
        }
        None => format!(
            "It was let in at {gate}, did not begin while others waited, and gave its place up{now}. {ready} again when a node can claim it."
        ),
    };
    Part::Became.finding("gave_up_place", text)
}
