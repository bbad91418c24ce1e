//! ABOVE of jobs on each node: a run of an instance begins on the node of the instance, and nowhere
//! else.
//!
//! An instance is a job of its own. So the other checks find an occurrence that one node lacks, or
//! has twice.

use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::RunName;

/// ABOVE: an attempt of an instance began on another node, or is recorded as if it had.
pub(super) fn elsewhere(view: &View<'_>, findings: &mut Vec<Finding>) {
    let node_of = |run: &RunName| view.evidence.jobs.get(&run.job)?.only_node();
    for attempt in &view.evidence.attempts {
        if let Some(node) = node_of(&attempt.run)
            && attempt.node != node
        {
            let what = format!("{} began on {}", attempt.run.id, attempt.node);
            findings.push(Finding::new(Verdict::Above, attempt.began, what, &[attempt]));
        }
    }
    for recorded in &view.evidence.history {
        if let (Some(node), Some(other)) = (node_of(&recorded.run), &recorded.node)
            && other != node
        {
            let what = format!("{} is recorded as executed by {other}", recorded.run.id);
            let attempts = view.attempts_of(&recorded.run.id);
            findings.push(Finding::new(Verdict::Above, recorded.run.due, what, attempts));
        }
    }
}
