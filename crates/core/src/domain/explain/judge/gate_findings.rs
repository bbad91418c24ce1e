//! Findings about a run that waits at a gate, or that a gate let in but no node has started.

use crate::domain::explain::explain_words::{after, list};
use crate::domain::explain::facts::{Facts, Passed, RunFacts};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::queue::group_rules::Shut;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The maximum number of lanes that a sentence names.
const NAMED: usize = 3;

/// Returns the finding for a run that waits at a gate.
pub(super) fn waits_at(facts: &Facts, run: &RunFacts) -> Finding {
    let Some(at) = &run.gate else {
        return Part::Became.finding("waits_at", "The run waits for a place at a gate.");
    };
    let hindrance = after(": ", at.hindrance.as_ref());
    let behind = match (&at.holder, &at.stuck, &run.behind) {
        (Some((holder, true)), ..) => format!(", behind run {holder}"),
        (Some((let_in, false)), ..) => {
            format!(", behind run {let_in}, which has a place but has not started{hindrance}")
        }
        (None, Some((stuck, _)), _) => {
            format!(
                ", behind run {stuck} of its queue, which got a place but did not start{hindrance}"
            )
        }
        // A gate that a rate limit, a gap or a turn timeout keeps closed has no holder.
        (None, None, Some(behind)) if at.rate.is_none() && at.shut == Shut::default() => {
            format!(", at first behind run {behind}")
        }
        _ => String::new(),
    };
    let next = at.stuck.as_ref().filter(|_| at.holder.is_none());
    let next =
        next.map(|(_, next)| format!("The next run gets a place on {}.", facts.shown(*next)));
    let rate = at.rate.map(|(rate, opens)| {
        format!(
            "The rate {rate} of the gate allows the next start on {time}.",
            time = facts.shown(opens)
        )
    });
    let gap = at.shut.gap_words(&facts.local);
    let turn = at.turn.as_ref().map(|job| at.shut.turn_words(job, &facts.local));
    let unserved = at
        .unserved
        .as_ref()
        .map(|(lane, why)| format!("No node takes runs of lane {lane}: {why}."));
    let passed_over = passed_over(at.passed_over.iter().map(ToString::to_string).collect());
    let mut sentences = vec![format!("The run waits for a place at {}{behind}.", at.gate)];
    sentences.extend([next, rate, gap, turn, unserved].into_iter().flatten());
    let text = format!("{}{passed_over}", sentences.join(" "));
    Part::Became.finding("waits_at", text)
}

/// Returns a sentence about `lanes`, which no node serves and whose runs wait longer at the gate.
/// Empty if `lanes` is empty.
fn passed_over(mut lanes: Vec<String>) -> String {
    let more = lanes.len().saturating_sub(NAMED);
    if more > 0 {
        lanes.truncate(NAMED);
        lanes.push(format!("{more} more"));
    }
    match lanes.as_slice() {
        [] => String::new(),
        [lane] => format!(
            " Runs of lane {lane} wait before this run. No node serves that lane, so this run passes them."
        ),
        _ => {
            format!(
                " Runs of lanes {} wait before this run. No node serves those lanes, so this run passes them.",
                list(&lanes)
            )
        }
    }
}

/// Returns the finding for a run that a gate let in but no node has started. `ready` is the ready
/// time of the run.
pub(super) fn let_in(facts: &Facts, passed: &Passed, ready: UnixMillis) -> Finding {
    let Passed { gate, since, holder, unserved } = passed;
    if let Some(since) = since {
        let since = facts.shown(*since);
        let text =
            format!("The run got a place at {gate} on {since}. No node has claimed the run yet.");
        return Part::Became.finding("let_in", text);
    }
    let holder_now = match holder {
        Some((run, true)) => format!(". Run {run} has the place now"),
        Some((run, false)) => format!(". Run {run} got the place next and has not started"),
        None => String::new(),
    };
    let needs_place = format!(
        "The run has been ready since {time}, and needs a place",
        time = facts.shown(ready)
    );
    let text = match unserved {
        Some(lane) => {
            format!(
                "No node serves the lane {lane} of the run, so other runs pass the run at {gate}{holder_now}. {needs_place} there when a node can claim the run."
            )
        }
        None => format!(
            "The run got a place at {gate}, but did not start while other runs waited. The run lost the place{holder_now}. {needs_place} again when a node can claim the run."
        ),
    };
    Part::Became.finding("gave_up_place", text)
}
