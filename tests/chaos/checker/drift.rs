//! DRIFT: the due times of recurring jobs against the reference, by id and, independently, by the
//! times at which jobs began.

use super::accounts::seen_due;
use super::timing::latest_first;
use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{Attempt, Micros, span};
use crate::world::jobs::Job;

/// DRIFT: a due time that the reference does not have, a skipped range of another length, or starts
/// that do not fit the due times.
pub(super) fn drift(view: &View<'_>, findings: &mut Vec<Finding>) {
    let begun = view.evidence.attempts.iter().map(|attempt| &attempt.run);
    let mut runs: Vec<_> =
        begun.chain(view.evidence.history.iter().map(|recorded| &recorded.run)).collect();
    runs.sort();
    runs.dedup();
    for run in runs {
        let Some(job) = view.evidence.jobs.get(&run.job) else {
            findings.push(Finding::new(
                Verdict::Drift,
                run.due,
                format!("{}: nobody made a job of that name", run.id),
                &[],
            ));
            continue;
        };
        let seen = seen_due(view, job);
        let is_allowed = |phase: &crate::world::schedule::Phase| {
            (phase.maybe_from..phase.maybe_to).contains(&run.due)
                && phase.when.allows(run.due, seen)
        };
        if !run.is_manual && !job.phases.iter().any(is_allowed) {
            let what = format!("{} is no due time of its schedule {:?}", run.id, job.phases);
            findings.push(Finding::new(Verdict::Drift, run.due, what, view.attempts_of(&run.id)));
        }
    }
    for recorded in &view.evidence.history {
        let (Some((last, count)), Some(job)) =
            (recorded.skipped_range, view.evidence.jobs.get(&recorded.run.job))
        else {
            continue;
        };
        // If the schedule changed within a range, the schedule that counted it is unknown.
        if let [phase] = &*job.phases {
            let dues = phase.when.dues(recorded.run.due, last + 1, seen_due(view, job)).len();
            if dues as u64 != count {
                let what = format!(
                    "{}: a skipped stretch of {count} up to {}, which has {dues} dues",
                    recorded.run.id,
                    last / 1000
                );
                findings.push(Finding::new(Verdict::Drift, recorded.run.due, what, &[]));
            }
        }
    }
    let has_times = |job: &&Job| job.is_recurring() && job.after.is_empty();
    for job in view.evidence.jobs.values().filter(has_times) {
        by_time(view, job, findings);
    }
}

/// Assigns to each due time that was begun by its id one start within its window, whichever run
/// that start belongs to.
/// Windows are intervals. Each start, in order of time, takes the window that closes first, which
/// fills as many as possible.
fn by_time(view: &View<'_>, job: &Job, findings: &mut Vec<Finding>) {
    let attempts = view.of_job.get(&*job.name).map_or(&[][..], Vec::as_slice);
    let firsts =
        attempts.iter().filter(|attempt| !attempt.run.is_manual && is_first(view, attempt));
    let mut windows: Vec<(Micros, Micros)> =
        firsts.map(|first| (first.run.due, latest_first(view, first))).collect();
    windows.sort_unstable();
    let mut open: Vec<(Micros, Micros)> = Vec::new();
    let mut next = windows.into_iter().peekable();
    let mut closed = Vec::new();
    for begin in
        attempts.iter().filter(|attempt| !attempt.run.is_manual).map(|attempt| attempt.began)
    {
        while let Some(window) = next.next_if(|window| window.0 <= begin) {
            open.push(window);
        }
        open.retain(|window| {
            if window.1 < begin {
                closed.push(*window);
                false
            } else {
                true
            }
        });
        if let Some(at) = (0..open.len()).min_by_key(|at| open[*at].1) {
            open.swap_remove(at);
        }
    }
    for (due, latest) in closed.into_iter().chain(open).chain(next) {
        let what = format!(
            "{}: by the times alone, no start belongs to the due at {} (within {:.3} s)",
            job.name,
            due / 1000,
            span(latest - due)
        );
        findings.push(Finding::new(Verdict::Drift, due, what, &[]));
    }
}

fn is_first(view: &View<'_>, attempt: &Attempt) -> bool {
    view.attempts_of(&attempt.run.id)
        .first()
        .is_some_and(|first| first.fence == attempt.fence && first.began == attempt.began)
}
