//! ABOVE, RANK, STARVED and LATE of the small node: never more at once than it has room for, and what it takes in which order.
//!
//! Order is judged by when Redis noted the claims, of runs that only this node may take, that were claimed once, and while no fault
//! hit the node from when they were due: a node that was lost forgets where its rounds stood, and claims anew what it had. A round
//! sees all that is ripe when it begins and takes as many as there is room for, one queue after the other; so of what was ripe
//! together only [`ROOM`] can be claimed in another order than that of the rounds.

use std::collections::BTreeSet;

use super::shared::counts;
use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{Attempt, Delay, Inflicted, Micros, span};
use crate::jobs::Job;
use crate::small::{RANKED, ROOM, SHARES, SMALL, STRICT};

/// Of so many starts of a queue one is that of the run ready longest, whatever its priority.
const OLDEST_EVERY: usize = 10;
/// How many more or fewer than its share a queue may get, in parts of a slot as there are parts by weight: two slots and a half, one
/// for each of the two, and the rest for where the stretch is cut off.
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

/// ABOVE: begun on the small node while it executed as many as it has room for. A fault that took one of these from the daemon, which
/// then may have begun anew, excuses it.
pub(super) fn above(view: &View<'_>, findings: &mut Vec<Finding>) {
    let attempts = on_it(view);
    for (at, &later) in attempts.iter().enumerate() {
        let lives = |other: &&&Attempt| {
            other.last_sign > later.began && counts(view, other, later.began) && view.cause(other, later).is_none()
        };
        let mut alive: Vec<&Attempt> = attempts[..at].iter().filter(lives).copied().collect();
        if alive.len() >= ROOM {
            let what = format!("{} began when {} of {ROOM} runs lived on {}", later.run.id, alive.len(), later.node);
            alive.push(later);
            findings.push(Finding::new(Verdict::Above, later.began, what, &alive));
        }
    }
}

/// RANK: taken before what is of a strict queue or of a greater priority, or not by the weights of two queues; STARVED: kept out for
/// longer than the turn of the oldest allows.
pub(super) fn rank(view: &View<'_>, findings: &mut Vec<Finding>) {
    let claims = calm_claims(view);
    for later in claims.iter().filter(|claim| claim.queue != STRICT) {
        let passed = passed_over(&claims, later, |first| first.queue == STRICT);
        if passed.len() >= ROOM {
            findings.push(told(later, &passed, "of the strict queue"));
        }
    }
    let ranked: Vec<Claim<'_>> = claims.iter().filter(|claim| claim.queue == RANKED).copied().collect();
    let mut oldest: Option<(usize, &Claim<'_>)> = None;
    for (at, later) in ranked.iter().enumerate() {
        let passed = passed_over(&ranked, later, |first| first.priority > later.priority);
        if passed.len() < ROOM {
            continue;
        }
        let is_too_soon = oldest.is_some_and(|(before, of)| of.due == later.due && at - before < OLDEST_EVERY - ROOM);
        if is_too_soon {
            findings.push(told(later, &passed, "of greater priority, sooner than at each tenth start"));
        }
        oldest = Some((at, later));
    }
    starved(&ranked, findings);
    shares(&claims, findings);
}

/// How many runs of the small node were judged in their order, for the report.
pub(super) fn judged(view: &View<'_>) -> usize {
    calm_claims(view).len()
}

/// When a run only the small node may take must have begun, if it could from `ready` on: soon after the node last came to the end of
/// another, or was back.
pub(super) fn latest(view: &View<'_>, ready: Micros, next: &Attempt) -> Micros {
    let moved = on_it(view).into_iter().map(|other| other.last_sign).filter(|at| *at <= next.began).max().unwrap_or(0);
    let mut end = moved.max(ready) + view.timing.clean;
    let back = || hits(view).map(|(from, until)| (from, until + view.timing.clean));
    while let Some((_, until)) = back().find(|(from, until)| *from <= end && ready <= *until && *until > end) {
        end = until;
    }
    view.put_off(end, end)
}

/// All that ran on it, in the order they began.
fn on_it<'a>(view: &View<'a>) -> Vec<&'a Attempt> {
    let is_there = |attempt: &&Attempt| view.evidence.small.as_ref() == Some(&attempt.node);
    let mut all: Vec<&Attempt> = view.evidence.attempts.iter().filter(is_there).collect();
    all.sort_by_key(|attempt| (attempt.began, attempt.fence));
    all
}

/// From when to when it may not have been as it is: each fault that hit it and could do something to its runs.
fn hits(view: &View<'_>) -> impl Iterator<Item = (Micros, Micros)> {
    let small = view.evidence.small.as_deref().unwrap_or_default();
    let concerns =
        move |fault: &&Inflicted| fault.harm.hit.is_on(small) && (fault.harm.may_repeat || fault.harm.delay != Delay::None);
    view.evidence.faults.iter().filter(concerns).map(|fault| match fault.harm.delay {
        Delay::Brief(slack) => (fault.from, fault.to + slack),
        Delay::AtBegin => (fault.from, fault.to.max(view.taken_back(fault.from)) + view.timing.recovery()),
        _ => (fault.from, fault.to + view.timing.recovery()),
    })
}

/// The claims of which the order can be judged, in that order.
fn calm_claims<'a>(view: &View<'a>) -> Vec<Claim<'a>> {
    let claim = |attempts: &Vec<&'a Attempt>| {
        let [attempt] = attempts[..] else { return None };
        let job: &Job = view.evidence.jobs.get(&attempt.run.job)?;
        let told = view.recorded.get(&*attempt.run.id).filter(|told| told.fence == Some(attempt.fence) && attempt.number == 1)?;
        let (due, at, queue) = (attempt.run.due, told.started?, job.sharing.queue?);
        let is_calm = job.added < due && !hits(view).any(|(from, until)| from <= at && due <= until);
        let is_its_own = job.sharing.requires == Some(SMALL);
        (is_calm && is_its_own).then_some(Claim { at, due, queue, priority: job.sharing.priority, attempt })
    };
    let mut claims: Vec<Claim<'a>> = view.attempts.values().filter_map(claim).collect();
    claims.sort_by_key(|claim| (claim.at, claim.attempt.fence));
    claims
}

/// Those that come first, were ripe whenever `later` was, and were claimed after it.
fn passed_over<'a>(claims: &[Claim<'a>], later: &Claim<'_>, comes_first: impl Fn(&Claim<'_>) -> bool) -> Vec<Claim<'a>> {
    let is_passed = |first: &&Claim<'_>| comes_first(first) && first.due <= later.due && first.at > later.at;
    claims.iter().filter(is_passed).copied().collect()
}

fn told(later: &Claim<'_>, passed: &[Claim<'_>], which: &str) -> Finding {
    let what = format!("{} was taken while {} {which} waited", later.attempt.run.id, passed.len());
    let about: Vec<&Attempt> = passed.iter().take(ROOM).map(|claim| claim.attempt).chain([later.attempt]).collect();
    Finding::new(Verdict::Rank, later.at, what, &about)
}

/// STARVED: a run with n others ready before it began after more than ten starts for each of these and itself.
fn starved(ranked: &[Claim<'_>], findings: &mut Vec<Finding>) {
    for claim in ranked {
        let others = || ranked.iter().filter(|other| other.attempt.run.id != claim.attempt.run.id && other.at > claim.due);
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

/// RANK, of two queues: while both had runs that were due at one instant, each got its part by weight.
fn shares(claims: &[Claim<'_>], findings: &mut Vec<Finding>) {
    let (heavy, light, times) = SHARES;
    let of = |queue: &str, due: Micros| -> Vec<&Claim<'_>> {
        claims.iter().filter(|claim| claim.queue == queue && claim.due == due).collect()
    };
    let dues: BTreeSet<Micros> = claims.iter().filter(|claim| claim.queue == heavy).map(|claim| claim.due).collect();
    for due in dues {
        let both = [of(heavy, due), of(light, due)];
        let [Some(end), Some(other)] = [&both[0], &both[1]].map(|of| of.last().map(|claim| claim.at)) else { continue };
        let end = end.min(other);
        let [first, second] = both.map(|of| of.into_iter().filter(|claim| claim.at <= end).collect::<Vec<_>>());
        let (got, all) = (wide(first.len()), wide(first.len() + second.len()));
        if (got * (times + 1) - all * times).abs() > ODD_PARTS {
            let what = format!("{heavy} got {got} of {all} slots, where it has {times} parts of {}", times + 1);
            let about: Vec<&Attempt> = second.iter().map(|claim| claim.attempt).collect();
            findings.push(Finding::new(Verdict::Rank, end, what, &about));
        }
    }
}

fn wide(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
