//! The check of the catch-up round after all nodes were down: how many runs were made up for and
//! how many skipped.

use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{Excuse, Inflicted, Micros, Recorded, SECOND, span};
use crate::faults::late_after;
use crate::world::jobs::Job;
use crate::world::schedule::When;

/// MISSING: a missed run is not accounted for in one skipped range. DRIFT: more or fewer runs than
/// the rule allows.
pub(super) fn rounds(view: &View<'_>, findings: &mut Vec<Finding>) {
    for fault in view.evidence.faults.iter().filter(|fault| fault.excuse == Some(Excuse::AllDown)) {
        for job in view.evidence.jobs.values().filter(|job| job.max_count.is_some()) {
            if let Err((verdict, why)) = round(view, fault, job) {
                findings.push(Finding::new(
                    verdict,
                    fault.to,
                    format!("{} ({}): {why}", job.name, job.catch_up),
                    &[],
                ));
            }
        }
    }
}

fn round(view: &View<'_>, fault: &Inflicted, job: &Job) -> Result<(), (Verdict, String)> {
    let (Some(phase), Some(most)) = (job.phases.first(), job.max_count) else { return Ok(()) };
    let When::Every { period, .. } = phase.when else { return Ok(()) };
    let step = period * SECOND;
    if phase.sure_from < fault.from || phase.sure_to > fault.to {
        return Ok(());
    }
    let attempts = view.of_job.get(&*job.name).map_or(&[][..], Vec::as_slice);
    let mut starts: Vec<(Micros, Micros)> =
        attempts.iter().map(|attempt| (attempt.run.due, attempt.began)).collect();
    starts.sort_unstable();
    starts.dedup_by_key(|one| one.0);
    // The round is the first event after the longest silence.
    let Some(at) = (1..starts.len()).max_by_key(|at| starts[*at].1 - starts[*at - 1].1) else {
        return Err((Verdict::Missing, "it did not run before and after".to_owned()));
    };
    let ((last, _), (first, began)) = (starts[at - 1], starts[at]);
    let silent = usize::try_from((first - last) / step - 1).unwrap_or(0);
    let is_of_round = |recorded: &&&Recorded| {
        let is_missed = recorded.run.job == job.name && recorded.reason == "missed";
        is_missed && (last..first).contains(&recorded.run.due)
    };
    let skipped: Vec<&Recorded> = view.recorded.values().filter(is_of_round).copied().collect();
    let counted: u64 =
        skipped.iter().map(|recorded| recorded.skipped_range.map_or(1, |(_, count)| count)).sum();
    if counted != silent as u64 {
        return Err((
            Verdict::Missing,
            format!("{silent} were not run, and {counted} are recorded as skipped"),
        ));
    }
    // The caught-up runs count back from the time of the decision. The records give it, and the
    // first start confirms it.
    let Some(decided) = skipped.iter().filter_map(|recorded| recorded.finished).max() else {
        return Err((Verdict::Missing, "nothing is recorded as skipped".to_owned()));
    };
    if decided > began || view.put_off(decided, decided + view.timing.clean) < began {
        let what = format!(
            "it was decided {:.3} s before the first start of the round",
            span(began - decided)
        );
        return Err((Verdict::Drift, what));
    }
    let run = (decided - first).div_euclid(step) + 1;
    let is_right =
        if most == 0 { decided - first <= late_after(job.catch_up) } else { run == most };
    if !is_right {
        return Err((Verdict::Drift, format!("{run} were caught up with, where {most} are to be")));
    }
    let behind = starts[at..]
        .windows(2)
        .find(|pair| most > 0 && pair[1].0 - pair[0].0 != step && pair[1].0 <= began);
    match behind {
        Some(pair) => Err((
            Verdict::Drift,
            format!("it left out those between {} and {}", pair[0].0 / 1000, pair[1].0 / 1000),
        )),
        None => Ok(()),
    }
}
