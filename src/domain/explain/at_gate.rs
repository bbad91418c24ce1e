//! What became of a run that stands at a gate, or was let in there and has not begun, in plain words.

use super::became::Became;
use super::sentences::names;
use crate::domain::group::Shut;
use crate::domain::wording::shown;
use crate::domain::zone::Zone;

/// Lanes named of those that are passed.
const NAMED: usize = 3;

impl Became {
    /// The sentence of one that says so; nothing of any other.
    pub(super) fn at_gate(&self, zone: &Zone) -> String {
        match self {
            Self::WaitsAt { gate, behind, holder, let_in, stuck, hindrance, rate, turn, shut, unserved, passed_over } => {
                let hindrance = hindrance.as_ref().map_or_else(String::new, |why| format!(": {why}"));
                let behind = match (holder, let_in, stuck, behind) {
                    (Some(run), ..) => format!(", behind {run}"),
                    (None, Some(run), ..) => format!(", behind {run}, which was let in and has not begun{hindrance}"),
                    (None, None, Some((run, next)), _) => {
                        let next = shown(*next, zone);
                        format!(
                            ", behind {run} of its queue, which was let in and did not begin{hindrance}; the next is tried on {next}"
                        )
                    }
                    // What time alone keeps shut is shut by nobody any more.
                    (None, None, None, Some(run)) if rate.is_none() && *shut == Shut::default() => {
                        format!(", behind {run} when it came")
                    }
                    _ => String::new(),
                };
                let gap = shut.gap_words(zone).map_or_else(String::new, |words| format!("; {words}"));
                let turn = turn.as_ref().map_or_else(String::new, |job| format!("; {}", shut.turn_words(job, zone)));
                let rate = rate.as_ref().map_or_else(String::new, |(rate, opens)| {
                    format!("; its rate of {rate} lets one more begin on {}", shown(*opens, zone))
                });
                let own = unserved.as_ref().map_or_else(String::new, |lane| format!(" Nobody takes runs of its lane {lane}."));
                format!("It waits for its place at {gate}{behind}{rate}{gap}{turn}.{own}{}", passed_over_words(passed_over))
            }
            Self::LetIn { gate, since } => {
                format!("It was let in at {gate} on {}, and has not begun: no node has claimed it yet.", shown(*since, zone))
            }
            Self::GaveUpPlace { gate, holder, let_in, since, unserved } => {
                let now = match (holder, let_in) {
                    (Some(run), _) => format!("; {run} has it now"),
                    (None, Some(run)) => format!("; {run} was let in after it and has not begun"),
                    (None, None) => String::new(),
                };
                let since = shown(*since, zone);
                if let Some(lane) = unserved {
                    return format!(
                        "No node serves its lane {lane}, and others pass it at {gate}{now}. It is ready since {since}, and needs a place there when a node can claim it."
                    );
                }
                format!(
                    "It was let in at {gate}, did not begin while others waited, and gave its place up{now}. It is ready since {since}, and needs a place anew when a node can claim it."
                )
            }
            _ => String::new(),
        }
    }
}

/// That runs of lanes which no node serves stand before it and keep it out no longer; nothing if there are none.
fn passed_over_words(lanes: &[String]) -> String {
    let mut named: Vec<String> = lanes.iter().take(NAMED).cloned().collect();
    let more = lanes.len().saturating_sub(NAMED);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    match lanes {
        [] => String::new(),
        [lane] => format!(" Runs of lane {lane} stand before it there; no node serves that lane, and it passes them."),
        _ => format!(" Runs of lanes {} stand before it there; no node serves those lanes, and it passes them.", names(&named)),
    }
}
