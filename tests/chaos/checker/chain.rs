//! MISSING and EARLY of chains: each occurrence that all parents of a child ended has one run of the
//! child. This run begins when all parents have succeeded, and is skipped when one has not.
//!
//! The other checks judge the attempts of a child as those of any run, so a child that was done
//! twice is a DUP.

use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{Micros, Recorded};
use crate::world::jobs::Job;

/// MISSING: a child has no run for an occurrence that its parents ended, or was skipped although
/// they succeeded. EARLY: a child began before a parent had succeeded.
pub(super) fn chain(view: &View<'_>, findings: &mut Vec<Finding>) {
    for job in view.evidence.jobs.values() {
        let Some(first) = job.after.first() else { continue };
        let of_first =
            view.evidence.history.iter().filter(|run| run.run.job == *first && !run.run.is_manual);
        for ended in of_first {
            if let Some(parents) = parents_of(view, job, ended.run.due) {
                owed(view, job, &parents, findings);
            }
        }
    }
}

/// Returns the records of the parents of the run of `job` that is due at `due`. Returns `None` if a
/// parent is not recorded.
fn parents_of<'a>(view: &'a View<'_>, job: &Job, due: Micros) -> Option<Vec<&'a Recorded>> {
    let record = |parent: &String| view.recorded.get(&*format!("{parent}@{}", due / 1000)).copied();
    job.after.iter().map(record).collect()
}

fn owed(view: &View<'_>, job: &Job, parents: &[&Recorded], findings: &mut Vec<Finding>) {
    let due = parents[0].run.due;
    let id = format!("{}@{}", job.name, due / 1000);
    let is_owed = job.phases.iter().any(|phase| due < phase.sure_to);
    let attempts = view.attempts_of(&id);
    let ends: Vec<String> =
        parents.iter().map(|parent| format!("{} {}", parent.run.id, parent.state)).collect();
    let ends = ends.join(", ");
    let Some(recorded) = view.recorded.get(&*id) else {
        if is_owed && !view.is_forgotten(&id) {
            let what = format!("{id} has no run, and its parents ended: {ends}");
            findings.push(Finding::new(Verdict::Missing, due, what, attempts));
        }
        return;
    };
    let have_succeeded = parents.iter().all(|parent| parent.state == "succeeded");
    if recorded.state == "skipped" && recorded.reason == "parent" && have_succeeded {
        let what = format!("{id} was skipped because of a parent, and they ended: {ends}");
        findings.push(Finding::new(Verdict::Missing, due, what, attempts));
    }
    let Some(first) = attempts.first() else { return };
    for parent in parents {
        let first_done = view
            .attempts_of(&parent.run.id)
            .iter()
            .filter_map(|attempt| attempt.ended.filter(|(_, code)| *code == 0).map(|(at, _)| at))
            .min();
        if first_done.is_none_or(|done| first.began < done) {
            let what = format!("{id} began before its parent {} had succeeded", parent.run.id);
            findings.push(Finding::new(Verdict::Early, first.began, what, attempts));
        }
    }
}

/// Returns when the last parent of this run ended by the records. Returns `None` for a run of a job
/// without parents, or with a parent that is not recorded.
pub(super) fn parents_ended(view: &View<'_>, job: &Job, due: Micros) -> Option<Micros> {
    let ended = parents_of(view, job, due)?.into_iter().map(|parent| parent.finished);
    ended.collect::<Option<Vec<Micros>>>()?.into_iter().max()
}
