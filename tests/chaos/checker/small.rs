//! ABOVE, RANK, STARVED and LATE of the small node: never more runs at once than its room, and the
//! order in which it takes them.
//!
//! The order is judged by the times of the claims in Redis.
//! It is judged for runs that only this node may take, that were claimed once, while no fault hit
//! the node since their due time.
//! A lost node forgets the state of its rounds, and claims anew what it had.
//! A round sees all runs that are due when it begins. It takes as many as there is room for, one
//! queue after the other.
//! So of runs that were due together only [`ROOM`] can be claimed in another order than that of the
//! rounds.

use std::collections::BTreeSet;

use super::shared::counts;
use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{Attempt, Delay, Inflicted, Micros, span};
use crate::world::jobs::Job;
use crate::world::small::{RANKED, ROOM, SHARES, SMALL, STRICT};

/// One of this many starts of a queue goes to the run that has been ready longest, whatever its
/// priority.
const OLDEST_EVERY: usize = 10;
/// The allowed difference between a queue's slots and its share, in parts of a slot; a slot has as
/// many parts as the weights add up to.
/// It is two slots and a half: one for each of the two queues, and the rest for where the interval
/// is cut off.
const ODD_PARTS: i64 = 10;

/// The only claim of a run of the small node.
#[derive(Clone, Copy)]
struct Claim<'a> {
    at: Micros,
    due: Micros,
    queue: &'static str,
    priority: i64,
    attempt: &'a Attempt,
}

/// ABOVE: a run began on the small node while it executed as many as it has room for.
/// A fault that took one of these runs from the daemon, which may then have begun again, excuses
/// it.
pub(super) fn above(view: &View<'_>, findings: &mut Vec<Finding>) {
    let attempts = on_it(view);
    for (at, &later) in attempts.iter().enumerate() {
        let lives = |other: &&&Attempt| {
            other.last_sign > later.began
                && counts(view, other, later.began)
                && view.cause(other, later).is_none()
        };
        let mut alive: Vec<&Attempt> = attempts[..at].iter().filter(lives).copied().collect();
        if alive.len() >= ROOM {
            let what = format!(
                "{} began when {} of {ROOM} runs lived on {}",
                later.run.id,
                alive.len(),
                later.node
            );
            alive.push(later);
            findings.push(Finding::new(Verdict::Above, later.began, what, &alive));
        }
    }
}

/// RANK: a run was taken before runs of a strict queue or of a greater priority, or not by the
/// weights of two queues.
/// STARVED: a run waited longer than the turn of the oldest allows.
pub(super) fn rank(view: &View<'_>, findings: &mut Vec<Finding>) {
    let claims = calm_claims(view);
    for later in claims.iter().filter(|claim| claim.queue != STRICT) {
        let passed = passed_over(&claims, later, |first| first.queue == STRICT);
        if passed.len() >= ROOM {
            findings.push(reported(later, &passed, "of the strict queue"));
        }
    }
    let ranked: Vec<Claim<'_>> =
        claims.iter().filter(|claim| claim.queue == RANKED).copied().collect();
    let mut oldest: Option<(usize, &Claim<'_>)> = None;
    for (at, later) in ranked.iter().enumerate() {
        let passed = passed_over(&ranked, later, |first| first.priority > later.priority);
        if passed.len() < ROOM {
            continue;
        }
        let is_too_soon = oldest
            .is_some_and(|(before, of)| of.due == later.due && at - before < OLDEST_EVERY - ROOM);
        if is_too_soon {
            findings.push(reported(
                later,
                &passed,
                "of greater priority, sooner than at each tenth start",
            ));
        }
        oldest = Some((at, later));
    }
    starved(&ranked, findings);
    shares(&claims, findings);
}

/// Returns the number of runs of the small node whose order was judged, for the report.
pub(super) fn judged(view: &View<'_>) -> usize {
    calm_claims(view).len()
}

/// Returns when a run that only the small node may take must have begun, if it could from `ready`
/// on.
/// That is soon after the node last ended another run, or returned.
pub(super) fn latest(view: &View<'_>, ready: Micros, next: &Attempt) -> Micros {
    let moved = on_it(view)
        .into_iter()
        .map(|other| other.last_sign)
        .filter(|at| *at <= next.began)
        .max()
        .unwrap_or(0);
    let mut end = moved.max(ready) + view.timing.clean;
    let back = || hits(view).map(|(from, until)| (from, until + view.timing.clean));
    while let Some((_, until)) =
        back().find(|(from, until)| *from <= end && ready <= *until && *until > end)
    {
        end = until;
    }
    view.put_off(end, end)
}

/// Returns all attempts on the small node, in the order they began.
fn on_it<'a>(view: &View<'a>) -> Vec<&'a Attempt> {
    let is_there = |attempt: &&Attempt| view.evidence.small.as_ref() == Some(&attempt.node);
    let mut all: Vec<&Attempt> = view.evidence.attempts.iter().filter(is_there).collect();
    all.sort_by_key(|attempt| (attempt.began, attempt.fence));
    all
}

/// Returns the intervals in which a fault may have affected the runs of the small node.
fn hits(view: &View<'_>) -> impl Iterator<Item = (Micros, Micros)> {
    let small = view.evidence.small.as_deref().unwrap_or_default();
    let concerns = move |fault: &&Inflicted| {
        fault.harm.hit.is_on(small) && (fault.harm.may_repeat || fault.harm.delay != Delay::None)
    };
    view.evidence.faults.iter().filter(concerns).map(|fault| match fault.harm.delay {
        Delay::Brief(slack) => (fault.from, fault.to + slack),
        Delay::AtBegin => {
            (fault.from, fault.to.max(view.taken_back(fault.from)) + view.timing.recovery())
        }
        _ => (fault.from, fault.to + view.timing.recovery()),
    })
}

/// Returns the claims whose order can be judged, in that order.
fn calm_claims<'a>(view: &View<'a>) -> Vec<Claim<'a>> {
    let claim = |attempts: &Vec<&'a Attempt>| {
        let [attempt] = attempts[..] else { return None };
        let job: &Job = view.evidence.jobs.get(&attempt.run.job)?;
        let reported = view
            .recorded
            .get(&*attempt.run.id)
            .filter(|reported| reported.fence == Some(attempt.fence) && attempt.number == 1)?;
        let (due, at, queue) = (attempt.run.due, reported.started?, job.sharing.queue?);
        let is_calm =
            job.added < due && !hits(view).any(|(from, until)| from <= at && due <= until);
        let is_its_own = job.sharing.requires == Some(SMALL);
        (is_calm && is_its_own).then_some(Claim {
            at,
            due,
            queue,
            priority: job.sharing.priority,
            attempt,
        })
    };
    let mut claims: Vec<Claim<'a>> = view.attempts.values().filter_map(claim).collect();
    claims.sort_by_key(|claim| (claim.at, claim.attempt.fence));
    claims
}

/// Returns the claims that come first, were due whenever `later` was, and were made after it.
fn passed_over<'a>(
    claims: &[Claim<'a>],
    later: &Claim<'_>,
    comes_first: impl Fn(&Claim<'_>) -> bool,
) -> Vec<Claim<'a>> {
    let is_passed =
        |first: &&Claim<'_>| comes_first(first) && first.due <= later.due && first.at > later.at;
    claims.iter().filter(is_passed).copied().collect()
}

fn reported(later: &Claim<'_>, passed: &[Claim<'_>], which: &str) -> Finding {
    let what = format!("{} was taken while {} {which} waited", later.attempt.run.id, passed.len());
    let about: Vec<&Attempt> =
        passed.iter().take(ROOM).map(|claim| claim.attempt).chain([later.attempt]).collect();
    Finding::new(Verdict::Rank, later.at, what, &about)
}

/// STARVED: a run with n other runs ready before it began after more than ten starts for each of
/// these and itself.
fn starved(ranked: &[Claim<'_>], findings: &mut Vec<Finding>) {
    for claim in ranked {
        let others = || {
            ranked.iter().filter(|other| {
                other.attempt.run.id != claim.attempt.run.id && other.at > claim.due
            })
        };
        let before = others().filter(|other| other.due <= claim.due).count();
        let starts = others().filter(|other| other.at < claim.at).count();
        if starts > OLDEST_EVERY * (before + 1) + ROOM {
            let what = format!(
                "{} began {:.3} s after it was due, after {starts} others of its queue, though {before} were ready before it",
                claim.attempt.run.id,
                span(claim.at - claim.due)
            );
            findings.push(Finding::new(Verdict::Starved, claim.at, what, &[claim.attempt]));
        }
    }
}

/// RANK of two queues: while both had runs that were due at the same time, each must get its share
/// by weight.
fn shares(claims: &[Claim<'_>], findings: &mut Vec<Finding>) {
    let (heavy, light, times) = SHARES;
    let of = |queue: &str, due: Micros| -> Vec<&Claim<'_>> {
        claims.iter().filter(|claim| claim.queue == queue && claim.due == due).collect()
    };
    let dues: BTreeSet<Micros> =
        claims.iter().filter(|claim| claim.queue == heavy).map(|claim| claim.due).collect();
    for due in dues {
        let both = [of(heavy, due), of(light, due)];
        let [Some(end), Some(other)] =
            [&both[0], &both[1]].map(|of| of.last().map(|claim| claim.at))
        else {
            continue;
        };
        let end = end.min(other);
        let [first, second] =
            both.map(|of| of.into_iter().filter(|claim| claim.at <= end).collect::<Vec<_>>());
        let (got, all) = (wide(first.len()), wide(first.len() + second.len()));
        if (got * (times + 1) - all * times).abs() > ODD_PARTS {
            let what = format!(
                "{heavy} got {got} of {all} slots, where it has {times} parts of {}",
                times + 1
            );
            let about: Vec<&Attempt> = second.iter().map(|claim| claim.attempt).collect();
            findings.push(Finding::new(Verdict::Rank, end, what, &about));
        }
    }
}

fn wide(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
