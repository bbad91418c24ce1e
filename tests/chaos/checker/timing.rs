//! EARLY and LATE: the times at which attempts began, by the jobs' own reports.

use super::chain::parents_ended;
use super::shared::begins_by;
use super::small;
use super::view::View;
use super::wrong::is_readded;
use super::{Finding, Verdict};
use crate::evidence::{Attempt, Delay, Inflicted, Micros, Recorded, SECOND, span};
use crate::world::jobs::{Check, Overlap};
use crate::world::small::SMALL;

/// EARLY: an attempt began before its due time, or a retry before its delay.
pub(super) fn early(view: &View<'_>, findings: &mut Vec<Finding>) {
    for attempt in &view.evidence.attempts {
        if attempt.began < attempt.run.due {
            let what = format!(
                "{} began {:.3} s before it was due",
                attempt.run.id,
                span(attempt.run.due - attempt.began)
            );
            findings.push(Finding::new(Verdict::Early, attempt.began, what, &[attempt]));
        }
    }
    for pair in view.attempts.values().flat_map(|attempts| attempts.windows(2)) {
        let Some((ended, wait, _)) = retry_wait(view, pair[0], pair[1]) else { continue };
        if pair[1].began < ended + wait && view.cause(pair[0], pair[1]).is_none() {
            let what = format!(
                "{} was tried again {:.3} s before its delay was over",
                pair[1].run.id,
                span(ended + wait - pair[1].began)
            );
            findings.push(Finding::new(Verdict::Early, pair[1].began, what, pair));
        }
    }
}

/// LATE: a first attempt began later than the faults of its time allow, or a later attempt later
/// than its cause allows.
pub(super) fn late(view: &View<'_>, findings: &mut Vec<Finding>) {
    for attempts in view.attempts.values() {
        let Some((first, _)) = attempts.split_first() else { continue };
        let latest = latest_first(view, first);
        // A manual run may also wait for the open run of a removed job, which may still wait for
        // its next attempt.
        let is_judged = !first.run.is_manual || !is_readded(view, &first.run.job);
        if is_judged && first.began > latest {
            let what = format!(
                "{} began {:.3} s after it was due, {:.3} s after the latest allowed",
                first.run.id,
                span(first.began - first.run.due),
                span(first.began - latest)
            );
            findings.push(Finding::new(Verdict::Late, first.began, what, &[first]));
        }
        for pair in attempts.windows(2) {
            let latest = latest_next(view, pair[0], pair[1]);
            if pair[1].began > latest {
                let what = format!(
                    "{} was tried again {:.3} s later than allowed",
                    pair[1].run.id,
                    span(pair[1].began - latest)
                );
                findings.push(Finding::new(Verdict::Late, pair[1].began, what, pair));
            }
        }
    }
}

/// Returns when a first attempt must have begun.
pub(super) fn latest_first(view: &View<'_>, first: &Attempt) -> Micros {
    let timing = view.timing;
    let job = view.evidence.jobs.get(&first.run.job);
    let of_job = view.of_job.get(&*first.run.job).map_or(&[][..], Vec::as_slice);
    if let Some(ended) = job.and_then(|job| parents_ended(view, job, first.run.due)) {
        return view.latest(ended.max(first.run.due), timing.clean + SECOND);
    }
    if job.is_some_and(|job| job.is_in_crowd) {
        return view.latest(super::crowd::moved(view, first), timing.clean);
    }
    if job.is_some_and(|job| job.sharing.requires == Some(SMALL)) {
        return small::latest(view, first.run.due, first);
    }
    // A run that waited for an earlier run of its job could begin when that was over.
    let others =
        of_job.iter().filter(|other| other.run.id != first.run.id && other.began < first.began);
    let free = others.map(|other| other.last_sign.max(other.ended.map_or(0, |(at, _)| at))).max();
    let waits = job.is_some_and(|job| {
        matches!(job.overlap, Overlap::Queue | Overlap::Replace) || job.catch_up == "all"
    });
    // A run behind a lost attempt waits too: the lost run is open until its lease is given up.
    let others =
        of_job.iter().filter(|other| other.run.id != first.run.id && other.began < first.began);
    let given_up =
        others.filter_map(|other| given_up(view, other, first)).chain(never_begun(view, first));
    let given_up = given_up.max().filter(|at| waits && *at > first.run.due);
    let behind = given_up.map_or(0, |at| view.put_off(first.run.due, at + timing.clean));
    let latest = behind.max(match free {
        Some(free) if waits && free > first.run.due => {
            view.latest(free, timing.clean + timing.kill_grace + SECOND)
        }
        _ if waits => view.latest(first.run.due, timing.clean),
        _ if job.is_some_and(|job| job.sharing.requires.is_some())
            && view.only_node(&first.run).is_none() =>
        {
            view.latest_of_few(first, timing.clean)
        }
        // Nothing blocked it, so only a fault of a node that held it excuses it.
        _ => view.latest_of(first, timing.clean),
    });
    let shared = job.and_then(|job| begins_by(view, job, first.run.due, first.began));
    let latest = latest.max(shared.unwrap_or(0));
    // The check is the test's own, and reads all reports of jobs so far.
    let checking = if job.is_some_and(|job| job.check == Check::Always) { SECOND } else { 0 };
    let latest = latest + checking + view.asked_again(&first.run, latest);
    let spread = job.map_or(0, |job| job.spread);
    // A missed run is spread from the time when nothing blocks it any more.
    if spread > 0 && latest > first.run.due + timing.clean {
        view.put_off(first.run.due, latest + spread)
    } else {
        latest
    }
}

/// Returns until when the run of `other` may be open although it does nothing: its node was lost,
/// or could not report its end.
pub(super) fn given_up(view: &View<'_>, other: &Attempt, next: &Attempt) -> Option<Micros> {
    let Some((ended, _)) = other.ended else {
        return Some(view.latest(other.last_sign, view.timing.clean));
    };
    let is_reported = |run: &&Recorded| {
        run.fence == Some(other.fence) && run.finished.is_none_or(|at| at <= ended + SECOND)
    };
    if view.recorded.get(&*other.run.id).is_some_and(is_reported) {
        return None;
    }
    view.cause(other, next).map(|fault| recovered_by(view, fault, other, other.last_sign))
}

/// Returns until when earlier runs of the same job may be open that were lost with their node
/// before they could begin.
/// Only their attempt numbers show them.
fn never_begun(view: &View<'_>, first: &Attempt) -> impl Iterator<Item = Micros> {
    let before = view
        .recorded
        .values()
        .filter(|other| other.run.job == first.run.job && other.run.due < first.run.due);
    before.filter_map(|other| lost_unseen(view, other, first.began))
}

/// Returns until when a node that was lost may hold a run of which an attempt could not begin.
/// Returns `None` if each attempt reported its begin. Only attempts that began before `until`
/// count.
pub(super) fn lost_unseen(view: &View<'_>, run: &Recorded, until: Micros) -> Option<Micros> {
    let reported = view.attempts_of(&run.run.id);
    let is_reported = |number: u32| reported.iter().any(|attempt| attempt.number == number);
    if (1..=run.attempt).all(is_reported) {
        return None;
    }
    let since = reported
        .iter()
        .filter(|attempt| attempt.began < until)
        .map(|attempt| attempt.last_sign)
        .max();
    Some(view.latest(run.run.due.max(since.unwrap_or(0)), view.timing.clean))
}

/// Returns when a run that a fault took from this attempt is taken back at the latest; the attempt
/// was over at `ready`.
/// A run that is cut off but not dead is killed when its lease ends, and another node sees the
/// lease end.
fn recovered_by(view: &View<'_>, fault: &Inflicted, attempt: &Attempt, ready: Micros) -> Micros {
    let lost = if fault.harm.delay == Delay::Throughout {
        fault.to.max(ready)
    } else {
        fault.from.max(attempt.began)
    };
    view.taken_back(lost)
}

/// Returns when `before` failed, and how long its job waits then at least and at most.
/// Returns `None` if it reported no failure.
/// A failure whose report a fault stopped counts as a lost node, and does not lengthen the delay.
fn retry_wait(
    view: &View<'_>,
    before: &Attempt,
    next: &Attempt,
) -> Option<(Micros, Micros, Micros)> {
    let (ended, _) = before.ended.filter(|(_, code)| *code != 0)?;
    let job = view.evidence.jobs.get(&next.run.job)?;
    let (mut least, mut most) = (1, 1);
    for pair in
        view.attempts_of(&next.run.id).windows(2).filter(|pair| pair[1].began <= before.began)
    {
        if pair[0].ended.is_some_and(|(_, code)| code != 0) {
            most += 1;
            least += u32::from(view.cause(pair[0], pair[1]).is_none());
        }
    }
    Some((ended, job.waits_after(least), job.waits_after(most)))
}

/// Returns when the attempt after `before` must have begun.
fn latest_next(view: &View<'_>, before: &Attempt, next: &Attempt) -> Micros {
    let timing = view.timing;
    let ready =
        retry_wait(view, before, next).map_or(before.last_sign, |(ended, _, wait)| ended + wait);
    let slack = timing.clean + timing.kill_grace + SECOND;
    let lost = view
        .causes(before, next)
        .map(|fault| recovered_by(view, fault, before, ready))
        .max()
        .unwrap_or(ready);
    let only = view.only_node(&next.run);
    let latest = view.put_off_on(only, ready, lost.max(ready + slack));
    // The next attempt waits again for the things it shares.
    let job = view.evidence.jobs.get(&next.run.job);
    let shared = job.and_then(|job| begins_by(view, job, ready, next.began));
    let of_small = job
        .filter(|job| job.sharing.requires == Some(SMALL))
        .map(|_| small::latest(view, ready, next));
    let latest = latest.max(shared.unwrap_or(0)).max(of_small.unwrap_or(0));
    latest + view.asked_again(&next.run, latest)
}
