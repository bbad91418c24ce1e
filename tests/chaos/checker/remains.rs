//! LEAK of processes: a process that a job leaves behind, or that outlives its timeout, must be
//! killed within the kill grace and 2 s.

use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{Attempt, Delay, Reach, SECOND, span};
use crate::world::jobs::Act;

/// LEAK: a process of an attempt lived long after the attempt's end or timeout.
pub(super) fn outlived(view: &View<'_>, findings: &mut Vec<Finding>) {
    for &attempt in
        view.attempts.values().flatten().filter(|attempt| attempt.reach == Reach::Process)
    {
        let Some(job) = view.evidence.jobs.get(&attempt.run.job) else { continue };
        let over = match attempt.ended {
            Some((at, _)) => at,
            None if job.act == Act::Deaf => attempt.began + job.timeout,
            None => continue,
        };
        let latest = view.put_off(over, over + view.timing.kill_grace + 2 * SECOND);
        if attempt.last_sign > latest && !was_stopped(view, attempt) {
            let what = format!(
                "a process of {} lived {:.3} s after it was over",
                attempt.run.id,
                span(attempt.last_sign - over)
            );
            findings.push(Finding::new(Verdict::Leak, latest, what, &[attempt]));
        }
    }
}

/// Returns true if the node could not act in this time.
fn was_stopped(view: &View<'_>, attempt: &Attempt) -> bool {
    view.evidence.faults.iter().any(|fault| {
        let is_hit = fault.harm.hit.is_on(&attempt.node) && fault.harm.delay != Delay::None;
        is_hit && fault.from <= attempt.last_sign && attempt.began <= fault.to
    })
}
