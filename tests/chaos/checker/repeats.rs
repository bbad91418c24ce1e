//! DUP, OVERLAP and STALE: the comparison of attempts of one run, and of runs of one job.

use std::collections::BTreeSet;

use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{Attempt, Micros, Reach, SECOND, span};
use crate::world::jobs::{Check, Overlap};

/// DUP: an attempt followed another without a cause.
pub(super) fn dup(view: &View<'_>, findings: &mut Vec<Finding>) {
    for (run, attempts) in &view.attempts {
        let Some(job) =
            attempts.first().and_then(|attempt| view.evidence.jobs.get(&attempt.run.job))
        else {
            continue;
        };
        let mut failures = 0;
        for pair in attempts.windows(2) {
            let (before, next) = (pair[0], pair[1]);
            let code = before.ended.map_or(0, |(_, code)| code);
            let has_failed = code != 0;
            failures += u32::from(has_failed);
            let is_unchecked = job.check != Check::Never
                && before.is_done()
                && !view.is_frozen(before, next.began);
            let why = if view.is_forgotten(run) && view.cause(before, next).is_some() {
                continue;
            } else if job.is_at_most_once {
                "at-most-once, and begun a second time"
            } else if is_unchecked {
                "begun again though a check would have found it done"
            } else if has_failed && failures <= job.retries && job.is_retried_on(code)
                || view.cause(before, next).is_some()
            {
                continue;
            } else if has_failed {
                "begun again though its code is not retried, or no retries were left"
            } else if before.is_done() {
                "begun again though it was done and nothing kept that from being told"
            } else {
                "begun again though nothing happened to its node"
            };
            findings.push(Finding::new(Verdict::Dup, next.began, format!("{run}: {why}"), pair));
        }
    }
}

/// OVERLAP: an attempt lived after a later attempt of its run began, or after a run that excludes
/// it.
pub(super) fn overlap(view: &View<'_>, findings: &mut Vec<Finding>) {
    for (job, attempts) in &view.of_job {
        let excludes =
            view.evidence.jobs.get(*job).is_some_and(|job| job.overlap != Overlap::Allow);
        let processes: Vec<&Attempt> =
            attempts.iter().copied().filter(|attempt| attempt.reach == Reach::Process).collect();
        for (at, later) in processes.iter().enumerate() {
            for earlier in &processes[..at] {
                let is_same = earlier.run.id == later.run.id;
                // A manual run blocks no other run, whichever begins first; a retry of it is not
                // blocked either.
                let was_first = later.fence < earlier.fence;
                let is_by_hand =
                    earlier.run.is_manual || later.run.is_manual && (was_first || later.number > 1);
                if !is_same && (!excludes || is_by_hand) {
                    continue;
                }
                let beyond = earlier.last_sign - later.began;
                // Once its host has thawed, it is stopped as any process that lost its lease.
                let is_frozen = view.thawed(earlier, later.began).is_some_and(|thawed| {
                    let stopped = thawed + view.timing.kill_grace + SECOND;
                    earlier.last_sign <= view.put_off(thawed, stopped)
                });
                if beyond > 0 && !is_frozen && !view.is_unaware(earlier, later.began) {
                    let both = if is_same {
                        "two attempts of one run"
                    } else {
                        "two runs of a job that forbids it"
                    };
                    let what = format!(
                        "{both} at once, for {:.3} s: {} and {}",
                        span(beyond),
                        earlier.run.id,
                        later.run.id
                    );
                    findings.push(Finding::new(
                        Verdict::Overlap,
                        later.began,
                        what,
                        &[earlier, later],
                    ));
                }
            }
        }
    }
}

/// STALE: an end recorded during the trial differs from the final record.
/// schedd then accepted an end from a node that had lost the run, or that took it over after it was
/// over.
pub(super) fn unsteady(view: &View<'_>, findings: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for reported in view
        .evidence
        .reported
        .iter()
        .filter(|reported| !matches!(&*reported.state, "running" | "scheduled"))
    {
        let Some(last) = view.recorded.get(&*reported.run.id) else { continue };
        let is_same = (&reported.state, reported.fence, reported.finished)
            == (&last.state, last.fence, last.finished);
        if !is_same && !view.is_forgotten(&reported.run.id) && seen.insert(&*reported.run.id) {
            let ends = [reported, *last].map(|end| {
                format!("{} by attempt {} under fence {:?}", end.state, end.attempt, end.fence)
            });
            let what = format!(
                "{}: its end was told as {}, later as {}",
                reported.run.id, ends[0], ends[1]
            );
            let at = reported.finished.unwrap_or(reported.run.due);
            findings.push(Finding::new(
                Verdict::Stale,
                at,
                what,
                view.attempts_of(&reported.run.id),
            ));
        }
    }
}

/// STALE: an effect or an end was accepted under a fence while a later one existed, or a fence did
/// not rise.
pub(super) fn stale(view: &View<'_>, findings: &mut Vec<Finding>) {
    for (run, attempts) in &view.attempts {
        let mut highest: Option<&Attempt> = None;
        for &attempt in attempts {
            if let Some(other) = highest.filter(|other| other.fence > attempt.fence) {
                match attempt.reach {
                    // The receiver refused the effect, as it must.
                    Reach::Request { accepted: false } => {}
                    Reach::Request { accepted: true } => {
                        let what = format!(
                            "{run}: an effect under fence {} was taken after one under {}",
                            attempt.fence, other.fence
                        );
                        findings.push(Finding::new(
                            Verdict::Stale,
                            attempt.began,
                            what,
                            &[other, attempt],
                        ));
                    }
                    Reach::Process => {
                        let what = format!(
                            "{run}: attempt {} has a lower fence than the one before",
                            attempt.number
                        );
                        findings.push(Finding::new(
                            Verdict::Stale,
                            attempt.began,
                            what,
                            &[other, attempt],
                        ));
                    }
                }
            } else if let Some(other) = highest.filter(|other| other.fence == attempt.fence) {
                let what = format!("{run}: begun twice under fence {}", attempt.fence);
                findings.push(Finding::new(Verdict::Stale, attempt.began, what, &[other, attempt]));
            }
            if highest.is_none_or(|other| other.fence < attempt.fence) {
                highest = Some(attempt);
            }
        }
        let Some(recorded) = view.recorded.get(run) else { continue };
        let (Some(fence), Some(highest)) = (recorded.fence, highest) else { continue };
        // The record has milliseconds.
        let begun_before = highest.began <= recorded.finished.unwrap_or(Micros::MAX);
        if highest.fence > fence && begun_before && !view.is_forgotten(run) {
            let what = format!(
                "{run}: its end is recorded under fence {fence}, when {} was out",
                highest.fence
            );
            findings.push(Finding::new(Verdict::Stale, highest.began, what, &[highest]));
        }
    }
}
