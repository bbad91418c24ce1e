//! MISSING and EARLY of chains: each end of a parent has one run of its child, which begins when the
//! parent has succeeded, and is skipped when it has not.
//!
//! The other checks judge the attempts of a child as those of any run, so a child that was done
//! twice is a DUP.

use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{Micros, Recorded};
use crate::world::jobs::Job;

/// MISSING: a child has no run for an occurrence that its parent ended, or was skipped although its
/// parent succeeded. EARLY: a child began before its parent had succeeded.
pub(super) fn chain(view: &View<'_>, findings: &mut Vec<Finding>) {
    for job in view.evidence.jobs.values() {
        let Some(parent) = &job.after else { continue };
        for ended in view.evidence.history.iter().filter(|run| run.run.job == *parent) {
            if ended.run.is_manual {
                continue;
            }
            owed(view, job, ended, findings);
        }
    }
}

fn owed(view: &View<'_>, job: &Job, parent: &Recorded, findings: &mut Vec<Finding>) {
    let due = parent.run.due;
    let id = format!("{}@{}", job.name, due / 1000);
    let is_owed = job.phases.iter().any(|phase| due < phase.sure_to);
    let attempts = view.attempts_of(&id);
    let Some(recorded) = view.recorded.get(&*id) else {
        if is_owed && !view.is_forgotten(&id) {
            let what =
                format!("{id} has no run, and its parent {} ended {}", parent.run.id, parent.state);
            findings.push(Finding::new(Verdict::Missing, due, what, attempts));
        }
        return;
    };
    let has_succeeded = parent.state == "succeeded";
    if recorded.state == "skipped" && recorded.reason == "parent" && has_succeeded {
        let what = format!("{id} was skipped because of a parent, and {} succeeded", parent.run.id);
        findings.push(Finding::new(Verdict::Missing, due, what, attempts));
    }
    let first = view
        .attempts_of(&parent.run.id)
        .iter()
        .filter_map(|attempt| attempt.ended.filter(|(_, code)| *code == 0).map(|(at, _)| at));
    let done: Option<Micros> = first.min();
    if let Some(first) = attempts.first()
        && done.is_none_or(|done| first.began < done)
    {
        let what = format!("{id} began before its parent {} had succeeded", parent.run.id);
        findings.push(Finding::new(Verdict::Early, first.began, what, attempts));
    }
}

/// Returns when the parent of this run ended by the records. Returns `None` for a run of a job
/// without a parent, or whose parent is not recorded.
pub(super) fn parent_ended(view: &View<'_>, job: &Job, due: Micros) -> Option<Micros> {
    let parent = format!("{}@{}", job.after.as_ref()?, due / 1000);
    view.recorded.get(&*parent)?.finished
}
