//! MISSING, PHANTOM and SILENT: the comparison of what was owed, what was done and what was
//! recorded.

use std::collections::BTreeSet;

use super::shared::begins_by;
use super::view::View;
use super::wrong::{is_readded, was_removed};
use super::{Finding, Verdict};
use crate::evidence::{Attempt, Doing, KILLED, Micros, Reach, Recorded, SECOND};
use crate::world::jobs::{Act, Check, Job, Overlap};

/// The `late_after` of all jobs of the file.
const LATE_AFTER: Micros = 3 * SECOND;

/// MISSING: an owed run was neither done nor ended in a way its rules allow.
pub(super) fn missing(view: &View<'_>, findings: &mut Vec<Finding>) {
    for job in view.evidence.jobs.values() {
        let covered = covered(view, job);
        for due in owed(view, job) {
            let id = format!("{}@{}", job.name, due / 1000);
            if !covered.contains(&due)
                && view.attempts_of(&id).is_empty()
                && !is_lost_one_shot(view, job)
                && !was_superseded(view, job, due)
            {
                let what = format!("{id} was owed, and nothing is known of it");
                findings.push(Finding::new(Verdict::Missing, due, what, &[]));
            }
        }
    }
    for recorded in &view.evidence.history {
        let Some(job) = view.evidence.jobs.get(&recorded.run.job) else { continue };
        if let Err(why) = judge(view, job, recorded) {
            let what = format!(
                "{} ended {} ({}): {why}",
                recorded.run.id, recorded.state, recorded.reason
            );
            findings.push(Finding::new(
                Verdict::Missing,
                recorded.run.due,
                what,
                view.attempts_of(&recorded.run.id),
            ));
        }
    }
    for operation in &view.evidence.operations {
        if let Doing::Ran(run) = &operation.what
            && !view.recorded.contains_key(&**run)
            && !view.is_forgotten(run)
        {
            let what = format!("{run} was asked for by hand and accepted, and is not in history");
            findings.push(Finding::new(
                Verdict::Missing,
                operation.to,
                what,
                view.attempts_of(run),
            ));
        }
    }
}

/// Returns true if an edit left out this occurrence.
/// If an edit finds a run already due, that run stays owed, and the next is the first of the new
/// schedule.
fn was_superseded(view: &View<'_>, job: &Job, due: Micros) -> bool {
    let superseded = job.phases.split_last().map_or(&[][..], |(_, others)| others);
    let attempts = view.of_job.get(&*job.name).map_or(&[][..], Vec::as_slice);
    superseded.iter().filter(|phase| (phase.sure_from..phase.sure_to).contains(&due)).any(|phase| {
        attempts.iter().any(|attempt| {
            attempt.run.due < due && attempt.number == 1 && attempt.began > phase.sure_to
        })
    })
}

/// Returns true if the job is a one-shot, or is removed and added again, and Redis lost its data.
fn is_lost_one_shot(view: &View<'_>, job: &Job) -> bool {
    (!job.is_recurring() || is_readded(view, &job.name)) && view.is_forgotten(&job.name)
}

/// Returns the number of one-shots that were accepted and then lost by Redis without a trace.
pub(super) fn forgotten(view: &View<'_>) -> usize {
    let is_gone = |job: &&Job| {
        job.is_sure && covered(view, job).is_empty() && !view.of_job.contains_key(&*job.name)
    };
    let lost = view
        .evidence
        .jobs
        .values()
        .filter(|job| is_lost_one_shot(view, job) && !job.phases.is_empty());
    lost.filter(|job| !owed(view, job).is_empty()).filter(is_gone).count()
}

/// Returns the due times of a job that are owed for certain.
pub(super) fn owed(view: &View<'_>, job: &Job) -> Vec<Micros> {
    if !job.is_sure {
        return Vec::new();
    }
    let seen = seen_due(view, job);
    let phases = job.phases.iter().filter(|phase| phase.sure_from < phase.sure_to);
    phases
        .flat_map(|phase| match phase.when {
            crate::world::schedule::When::Once(due) => vec![due],
            when => when.dues(phase.sure_from, phase.sure_to, seen),
        })
        .collect()
}

/// Returns any due time of the job that was begun or recorded. It gives the anchor of a period.
/// All instances of a job have the same anchor.
pub(super) fn seen_due(view: &View<'_>, job: &Job) -> Option<Micros> {
    let defined = job.defined();
    let from = view.evidence.jobs.range(defined.to_owned()..);
    from.take_while(|(name, _)| name.starts_with(defined))
        .filter(|(_, other)| other.defined() == defined)
        .find_map(|(name, _)| seen_due_of(view, name))
}

fn seen_due_of(view: &View<'_>, job: &str) -> Option<Micros> {
    let begun = view
        .of_job
        .get(job)
        .into_iter()
        .flatten()
        .find(|attempt| !attempt.run.is_manual)
        .map(|a| a.run.due);
    let recorded = || {
        view.evidence
            .history
            .iter()
            .find(|run| run.run.job == job && !run.run.is_manual)
            .map(|run| run.run.due)
    };
    begun.or_else(recorded)
}

/// Returns the due times that are in history, one by one or in a skipped range.
pub(super) fn covered(view: &View<'_>, job: &Job) -> BTreeSet<Micros> {
    let seen = seen_due(view, job);
    let mut covered = BTreeSet::new();
    for recorded in
        view.evidence.history.iter().filter(|run| run.run.job == job.name && !run.run.is_manual)
    {
        covered.insert(recorded.run.due);
        if let Some((last, _)) = recorded.skipped_range {
            let within = |phase: &crate::world::schedule::Phase| {
                phase.when.dues(recorded.run.due, last + 1, seen)
            };
            covered.extend(job.phases.iter().flat_map(within));
        }
    }
    covered
}

/// Returns an error unless the job's rules and the faults of the time allow this end of a run.
fn judge(view: &View<'_>, job: &Job, recorded: &Recorded) -> Result<(), String> {
    let run = &recorded.run;
    let attempts = view.attempts_of(&run.id);
    let finished = recorded.finished.unwrap_or(run.due);
    let was_disturbed = view.is_disturbed_on(job.only_node(), run.due, finished);
    let allow = |is_allowed: bool, why: &str| if is_allowed { Ok(()) } else { Err(why.to_owned()) };
    match recorded.state.as_str() {
        "succeeded" => allow(job.act != Act::Poison, "it kills its node each time"),
        "skipped" => match recorded.reason.as_str() {
            "overlap" => {
                allow(
                    !matches!(job.overlap, Overlap::Allow | Overlap::Replace),
                    "its overlap rule skips nothing",
                )?;
                allow(
                    was_disturbed || was_open(view, job, recorded),
                    "no other run of its job was open",
                )
            }
            "missed" => {
                let has_waited = begins_by(view, job, run.due, finished)
                    .is_some_and(|latest| latest >= finished.min(run.due + LATE_AFTER));
                allow(
                    was_disturbed
                        || has_waited
                        || has_lagged(view, run.due, finished)
                        || was_removed(view, recorded),
                    "nothing kept it from running",
                )
            }
            "paused" => {
                let paused = |from: Micros, to: Micros| from <= finished && run.due <= to;
                let is_paused = |what: &Doing| *what == Doing::Paused(job.name.clone());
                allow(
                    view.evidence.operations.iter().any(|operation| {
                        is_paused(&operation.what) && paused(operation.from, operation.to)
                    }),
                    "nobody paused it",
                )
            }
            // The check of chains compares it with the end of the parent.
            "parent" => allow(!job.after.is_empty(), "it has no parent"),
            other => Err(format!("{other:?} is no reason the test knows")),
        },
        "cancelled" => {
            let is_asked = view
                .evidence
                .operations
                .iter()
                .any(|operation| operation.what == Doing::Cancelled(run.id.clone()));
            let is_replaced = job.overlap == Overlap::Replace
                && recorded.reason == "replaced"
                && has_newer(view, recorded);
            // The removal of a job also ends a run that is due and not yet claimed: `cancelled`.
            let is_removed = job.phases.iter().all(|phase| phase.sure_to <= finished)
                && (recorded.reason.contains("removed") || recorded.reason == "cancelled");
            allow(
                is_asked || is_replaced || is_removed || was_removed(view, recorded),
                "nobody asked for that",
            )
        }
        "lost" if job.check != Check::Never && recorded.reason.contains("unclear") => {
            let is_near = |fault: &crate::evidence::Inflicted| {
                fault.from <= finished && run.due <= fault.to + SECOND
            };
            allow(view.evidence.faults.iter().any(is_near), "nothing kept its check from answering")
        }
        "lost" => {
            allow(job.is_at_most_once, "only an at-most-once run may end so")?;
            allow(may_be_lost(view, recorded), "nothing happened to its node")
        }
        "failed" => {
            if recorded.reason.contains("poison") {
                let cut = attempts.iter().filter(|attempt| attempt.ended.is_none()).count();
                return allow(
                    job.act == Act::Poison || cut >= 4 || was_disturbed,
                    "it was lost with its node less than four times",
                );
            }
            if view.could_not_start(recorded) {
                return Ok(());
            }
            if attempts
                .last()
                .is_some_and(|last| last.ended.is_some_and(|(_, code)| code == KILLED))
            {
                allow(
                    recorded.reason.contains("KILL"),
                    "it was killed, and the reason does not say so",
                )?;
            }
            if let Some((_, code)) = attempts.last().and_then(|last| last.ended)
                && code != 0
                && attempts.iter().all(|attempt| attempt.reach == Reach::Process)
            {
                let failures = attempts
                    .iter()
                    .filter(|attempt| attempt.ended.is_some_and(|(_, code)| code != 0))
                    .count();
                return allow(
                    failures > job.retries as usize || !job.is_retried_on(code),
                    "it was to be tried again",
                );
            }
            // A request can fail because its node was told to stop, or its lease passed. It is not
            // tried again.
            let is_refused =
                attempts.iter().any(|attempt| attempt.reach == Reach::Request { accepted: false });
            allow(is_refused && was_disturbed, "its work does not fail")
        }
        "timed_out" => allow(job.act == Act::Deaf, "it takes a fraction of its time"),
        other => Err(format!("{other:?} is no final state")),
    }
}

/// Returns true if a fault hit the run while it ran, or while its claim was answered.
fn may_be_lost(view: &View<'_>, recorded: &Recorded) -> bool {
    let attempts = view.attempts_of(&recorded.run.id);
    if view.is_forgotten(&recorded.run.id) {
        return true;
    }
    let hit = |fault: &&crate::evidence::Inflicted| fault.harm.may_repeat;
    if let Some(first) = attempts.first() {
        return is_cut_off(view, first, recorded);
    }
    // The run was claimed but never began.
    let end = recorded.finished.unwrap_or(recorded.run.due);
    let is_near = |fault: &crate::evidence::Inflicted| {
        fault.from <= end && recorded.run.due <= fault.to + view.timing.recovery()
    };
    view.evidence.faults.iter().filter(hit).any(is_near)
}

/// Returns true if a fault kept the node of this attempt from reporting its end.
fn is_cut_off(view: &View<'_>, attempt: &Attempt, recorded: &Recorded) -> bool {
    let end = Attempt { began: recorded.finished.unwrap_or(Micros::MAX), ..attempt.clone() };
    view.cause(attempt, &end).is_some()
}

/// Returns true if another run of the job was open between the due time of this one and its end.
fn was_open(view: &View<'_>, job: &Job, skipped: &Recorded) -> bool {
    let (from, to) = (skipped.run.due, skipped.finished.unwrap_or(skipped.run.due));
    // A run that waits for a clear answer of its check is open, and reports nothing.
    let is_asking = |other: &&Recorded| {
        let (begin, end) = (other.run.due, other.finished.unwrap_or(other.run.due));
        other.run.job == job.name
            && other.run.id != skipped.run.id
            && other.skipped_range.is_none()
            && begin <= to
            && from <= end
    };
    if job.check == Check::Always
        && view
            .recorded
            .values()
            .copied()
            .any(|other| other.state != "skipped" && is_asking(&other))
    {
        return true;
    }
    // A run that waits at a gate is open too, from its due time to its end. Other checks judge
    // whether it began in time and why it ended.
    let at_gate = |other: &&Recorded| {
        other.waited_from.is_some() || !view.attempts_of(&other.run.id).is_empty()
    };
    let has_gates = !job.sharing.things(&job.name).is_empty();
    if has_gates
        && view.recorded.values().copied().any(|other| at_gate(&other) && is_asking(&other))
    {
        return true;
    }
    let others = view.of_job.get(&*job.name).map_or(&[][..], Vec::as_slice);
    others.iter().filter(|other| other.run.id != skipped.run.id).any(|other| {
        let attempts = view.attempts_of(&other.run.id);
        let last = attempts.iter().map(|attempt| attempt.last_sign).max().unwrap_or(other.began);
        // A run that waits for its next attempt is open until it is cancelled.
        let cancelled =
            view.recorded.get(&*other.run.id).filter(|recorded| recorded.state == "cancelled");
        let last = cancelled.and_then(|recorded| recorded.finished).unwrap_or(0).max(last);
        // A claim comes just before the first report, and the end is recorded just after the last.
        attempts[0].began - SECOND / 2 <= to && from <= last + SECOND
    })
}

/// Returns true if a later run of the job was due when this one ended, and could take its place.
fn has_newer(view: &View<'_>, replaced: &Recorded) -> bool {
    let (own, end) = (&replaced.run, replaced.finished.unwrap_or(replaced.run.due));
    view.recorded
        .values()
        .any(|other| other.run.job == own.job && own.due < other.run.due && other.run.due <= end)
}

/// Returns true if this host was so slow that an occurrence could be missed.
fn has_lagged(view: &View<'_>, from: Micros, to: Micros) -> bool {
    view.evidence.host_lags.iter().any(|(at, lag)| from - lag - SECOND <= *at && *at <= to + SECOND)
}

/// PHANTOM: a run is recorded as succeeded, but the job had never reported success.
pub(super) fn phantom(view: &View<'_>, findings: &mut Vec<Finding>) {
    let all = view.evidence.history.iter().chain(&view.evidence.reported);
    let mut found = BTreeSet::new();
    for recorded in all.filter(|recorded| recorded.state == "succeeded") {
        let attempts = view.attempts_of(&recorded.run.id);
        let is_checked =
            view.evidence.jobs.get(&recorded.run.job).is_some_and(|job| job.check != Check::Never);
        // If a check found the work done, an earlier attempt did it.
        let counts = |attempt: &Attempt| is_checked || Some(attempt.fence) == recorded.fence;
        // Both times have at least milliseconds.
        let is_over =
            |end: Micros| recorded.finished.is_none_or(|finished| end <= finished + SECOND / 20);
        let is_done = attempts.iter().any(|attempt| {
            counts(attempt)
                && attempt.is_done()
                && attempt.ended.is_some_and(|(end, _)| is_over(end))
        });
        if !is_done && found.insert(&*recorded.run.id) {
            let what = format!(
                "{} is recorded as succeeded under fence {:?}, and no such attempt had done its work",
                recorded.run.id, recorded.fence
            );
            findings.push(Finding::new(Verdict::Phantom, recorded.run.due, what, attempts));
        }
    }
}

/// SILENT: a run began but is not in history, or its last attempt succeeded but it is recorded as
/// failed.
pub(super) fn silent(view: &View<'_>, findings: &mut Vec<Finding>) {
    for (run, attempts) in &view.attempts {
        let last = attempts[attempts.len() - 1];
        match view.recorded.get(run) {
            None if view.is_forgotten(run) => {}
            None => findings.push(Finding::new(
                Verdict::Silent,
                last.began,
                format!("{run} was begun, and is not in history"),
                attempts,
            )),
            // Its node could not report, and the run was lost once too often.
            Some(recorded)
                if recorded.reason.contains("poison") && is_cut_off(view, last, recorded) => {}
            // Redis lost its end or was away when it came, and the run could not be started again.
            Some(recorded)
                if view.could_not_start(recorded) && is_cut_off(view, last, recorded) => {}
            Some(recorded)
                if last.is_done()
                    && recorded.state == "failed"
                    && last.number >= recorded.attempt =>
            {
                let what =
                    format!("{run} was done, and is recorded as failed ({})", recorded.reason);
                findings.push(Finding::new(Verdict::Silent, last.began, what, attempts));
            }
            Some(recorded) if last.number > recorded.attempt && !view.is_forgotten(run) => {
                let what = format!(
                    "{run} is recorded with {} attempts, and began attempt {}",
                    recorded.attempt, last.number
                );
                findings.push(Finding::new(Verdict::Silent, last.began, what, attempts));
            }
            Some(_) => {}
        }
    }
}
