//! ABOVE, TURN, GAP, BURST and STARVED: the rules for things that runs share, judged by what the
//! runs did.
//!
//! A run has its place from its claim until its end is recorded, which covers the whole time it
//! reports life.
//! So runs that lived at the same time each had their place.
//! The excuses are those of OVERLAP: a frozen host, and a claim that Redis lost.

use super::timing::{given_up, lost_unseen};
use super::view::{View, delay_on};
use super::wrong::BACKFILL;
use super::{Finding, Verdict};
use crate::evidence::{
    Attempt, Delay, Doing, Excuse, Hit, Inflicted, Micros, Operation, Recorded, RunName, SECOND,
    span,
};
use crate::world::each_node::MOMENT;
use crate::world::jobs::Job;
use crate::world::sharing::{GAP, NARROW, ORDER, PATIENCE, Rate, Thing};

/// The longest time between a claim and its start.
const START: Micros = SECOND;
/// The time nodes may take to return after a fault and continue with what they had claimed before.
const BACK: Micros = 3 * SECOND;

/// The longest time that a lost run may keep its place after its last report.
const LONG_AGO: Micros = 60 * SECOND;

/// Returns all attempts that share each thing, in the order they began.
fn sharers<'a>(view: &View<'a>) -> Vec<(Thing, Vec<&'a Attempt>)> {
    let mut all: Vec<(Thing, Vec<&'a Attempt>)> =
        view.shared.keys().map(|thing| (*thing, view.sharers(*thing))).collect();
    all.sort_by_key(|(thing, _)| *thing);
    all
}

fn job_of<'a>(view: &View<'a>, attempt: &Attempt) -> &'a Job {
    &view.evidence.jobs[&attempt.run.job]
}

/// Returns true if nothing excuses that `earlier` lived at `at`.
pub(super) fn counts(view: &View<'_>, earlier: &Attempt, at: Micros) -> bool {
    !view.is_frozen(earlier, at) && !view.is_unaware(earlier, at)
}

/// ABOVE: an attempt began while the allowed number lived, or on a node without a label it
/// requires.
pub(super) fn above(view: &View<'_>, findings: &mut Vec<Finding>) {
    for (thing, attempts) in sharers(view) {
        for (at, &later) in attempts.iter().enumerate() {
            let mut alive: Vec<&Attempt> = attempts[..at]
                .iter()
                .copied()
                .filter(|other| other.last_sign > later.began && counts(view, other, later.began))
                .collect();
            let most = match thing {
                Thing::Queue("narrow") => NARROW,
                Thing::Queue(_) => continue,
                Thing::Group(_) => 1,
                Thing::Key(_) => job_of(view, later).sharing.key.map_or(1, |key| key.at_once),
                // Runs on the same side of a `not_while` rule do not exclude each other.
                Thing::Beside(owner) => {
                    alive.retain(|other| (other.run.job == owner) != (later.run.job == owner));
                    1
                }
            };
            if alive.len() >= most {
                let what = format!(
                    "{} began when {} of {thing}, which allows {most}, lived",
                    later.run.id,
                    alive.len()
                );
                alive.push(later);
                findings.push(Finding::new(Verdict::Above, later.began, what, &alive));
            }
        }
    }
    for attempt in &view.evidence.attempts {
        let requires =
            view.evidence.jobs.get(&attempt.run.job).and_then(|job| job.sharing.requires);
        if let Some(label) = requires
            && !view.carriers(label).contains(&attempt.node)
        {
            let what = format!(
                "{} requires {label}, which {} does not carry",
                attempt.run.id, attempt.node
            );
            findings.push(Finding::new(Verdict::Above, attempt.began, what, &[attempt]));
        }
    }
}

/// GAP: a member of the alternating group began before the gap after the former member was over.
pub(super) fn gap(view: &View<'_>, findings: &mut Vec<Finding>) {
    let attempts = view.sharers(Thing::Group("turns"));
    for pair in attempts.windows(2) {
        let (before, next) = (pair[0], pair[1]);
        let soon = before.last_sign + GAP - next.began;
        // A member that began beside another counts as ABOVE, and a gap that Redis lost is unknown.
        let is_known = before.last_sign <= next.began
            && counts(view, before, next.began)
            && !lost_between(view, before.began, next.began);
        if soon > 0 && is_known {
            let what = format!(
                "{} began {:.3} s before the gap after {} was over",
                next.run.id,
                span(soon),
                before.run.id
            );
            findings.push(Finding::new(Verdict::Gap, next.began, what, pair));
        }
    }
}

/// TURN: a member began although it was the turn of another member, one of whose runs waited
/// already.
///
/// A run is known to have waited by its own record, or because it was due a second before and no
/// fault hid that from nodes.
/// It began later, as its first attempt, so no pause removed it. A waiting member must never be
/// passed over.
pub(super) fn turn(view: &View<'_>, findings: &mut Vec<Finding>) {
    let attempts = view.sharers(Thing::Group("turns"));
    let place =
        |attempt: &Attempt| ORDER.iter().position(|member| *member == attempt.run.job).unwrap_or(0);
    for pair in attempts.windows(2) {
        let (before, next) = (pair[0], pair[1]);
        let decided = before.last_sign;
        let is_known = decided <= next.began
            && counts(view, before, next.began)
            && !lost_between(view, before.began, next.began);
        // A run that was handed back by a stopping node keeps its turn.
        let is_handed_back = before.run.id == next.run.id && before.number == next.number;
        if !is_known || is_handed_back {
            continue;
        }
        let members = ORDER.len();
        let passed = (next_place(place(next), place(before), members) - 1).min(members - 1);
        for step in 1..=passed {
            let member = ORDER[(place(before) + step) % members];
            let waited = |run: &&&Attempt| {
                let is_later = run.run.job == member
                    && run.number == 1
                    && run.began > next.began
                    && is_first(view, run);
                is_later && waits_by(view, run, decided)
            };
            if let Some(overtaken) = attempts.iter().find(waited) {
                let what = format!(
                    "{} began though it was the turn of {member}, whose {} waited",
                    next.run.id, overtaken.run.id
                );
                findings.push(Finding::new(
                    Verdict::Turn,
                    next.began,
                    what,
                    &[before, next, overtaken],
                ));
            }
        }
    }
}

/// Returns how many places after `from` the place `to` comes; the number of members for the same
/// place.
fn next_place(to: usize, from: usize, members: usize) -> usize {
    match (to + members - from) % members {
        0 => members,
        steps => steps,
    }
}

fn is_first(view: &View<'_>, attempt: &Attempt) -> bool {
    view.attempts_of(&attempt.run.id).first().is_some_and(|first| first.fence == attempt.fence)
}

/// Returns true if this first attempt waited at its gate at `at`, before it began.
fn waits_by(view: &View<'_>, first: &Attempt, at: Micros) -> bool {
    let reported = view
        .recorded
        .get(&*first.run.id)
        .and_then(|run| run.waited_from)
        .is_some_and(|from| from < at);
    reported || first.run.due + START < at && !view.is_disturbed(first.run.due, first.began)
}

/// Returns true if Redis lost its last writes in this interval, and with them who had held what.
pub(super) fn lost_between(view: &View<'_>, from: Micros, to: Micros) -> bool {
    let is_loss = |fault: &&Inflicted| matches!(fault.excuse, Some(Excuse::Forgot(_)));
    view.evidence
        .faults
        .iter()
        .filter(is_loss)
        .any(|fault| fault.from <= to && from <= fault.to + view.timing.lease)
}

/// BURST: in some interval more runs began than a rate and its burst allow.
///
/// A claim lies before its begin, and after the earliest time at which it can have been made.
/// Only claims that lie wholly in the interval count, so each finding is certain.
pub(super) fn burst(view: &View<'_>, findings: &mut Vec<Finding>) {
    for (thing, attempts) in sharers(view) {
        let rate = |attempt: &Attempt| job_of(view, attempt).sharing.rate_of(thing);
        let Some(rate) = attempts.first().and_then(|first| rate(first)) else { continue };
        let claims: Vec<(Micros, &Attempt)> =
            attempts.iter().map(|attempt| (claimed_since(view, attempt), *attempt)).collect();
        for part in parts(view, claims) {
            burst_within(thing, rate, &part, findings);
        }
    }
}

fn burst_within(
    thing: Thing,
    rate: Rate,
    claims: &[(Micros, &Attempt)],
    findings: &mut Vec<Finding>,
) {
    let mut reported = Micros::MIN;
    for &(from, _) in claims {
        let mut within: Vec<&Attempt> = Vec::new();
        for &(_, attempt) in claims.iter().filter(|(since, _)| *since >= from) {
            within.push(attempt);
            let most = rate.most_within(attempt.began - from);
            if i64::try_from(within.len()).unwrap_or(i64::MAX) > most && attempt.began > reported {
                let what = format!(
                    "{} of {thing} began within {:.3} s, where {most} may",
                    within.len(),
                    span(attempt.began - from)
                );
                findings.push(Finding::new(Verdict::Burst, attempt.began, what, &within));
                // Runs that began together give one finding.
                reported = within.iter().map(|attempt| attempt.began).max().unwrap_or(reported);
            }
        }
    }
}

/// Returns the earliest time at which the attempt can have been claimed.
/// For the last attempt of a run its record gives the time by Redis' clock.
/// For others it is a second before the begin, or more if the host was slow or a fault came before.
pub(super) fn claimed_since(view: &View<'_>, attempt: &Attempt) -> Micros {
    let near = view
        .evidence
        .host_lags
        .iter()
        .filter(|(at, lag)| at - START <= attempt.began && attempt.began - START <= at + lag);
    let mut from = attempt.began - START - near.map(|(_, lag)| *lag).max().unwrap_or(0);
    loop {
        let mut earlier = from;
        for fault in view.evidence.faults.iter().filter(|fault| fault.harm.delay != Delay::None) {
            if fault.from <= attempt.began && fault.to + BACK >= from {
                earlier = earlier.min(fault.from - START);
            }
        }
        if earlier == from {
            break;
        }
        from = earlier;
    }
    let reported = view
        .recorded
        .get(&*attempt.run.id)
        .filter(|run| run.fence == Some(attempt.fence))
        .and_then(|run| run.started);
    reported.filter(|at| *at <= attempt.began).unwrap_or(from).max(attempt.run.due)
}

/// Returns the claims before and after each data loss separately, because Redis may have lost its
/// counts.
fn parts<'a>(
    view: &View<'_>,
    mut claims: Vec<(Micros, &'a Attempt)>,
) -> Vec<Vec<(Micros, &'a Attempt)>> {
    let mut parts = Vec::new();
    for fault in
        view.evidence.faults.iter().filter(|fault| matches!(fault.excuse, Some(Excuse::Forgot(_))))
    {
        let (before, rest): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|(_, attempt)| attempt.began < fault.from);
        parts.push(before);
        claims = rest.into_iter().filter(|(since, _)| *since > fault.to).collect();
    }
    parts.push(claims);
    parts
}

/// STARVED: a run did not begin although everything it needs was free, until its job was removed.
/// Or a run that was due later was let in before it.
pub(super) fn starved(view: &View<'_>, findings: &mut Vec<Finding>) {
    for recorded in &view.evidence.history {
        let Some(job) = view.evidence.jobs.get(&recorded.run.job) else { continue };
        let was_taken_away = recorded.state == "scheduled"
            || recorded.state == "cancelled" && recorded.reason.contains("removed");
        if !was_taken_away || !view.attempts_of(&recorded.run.id).is_empty() {
            continue;
        }
        let end = recorded.finished.unwrap_or_else(|| view.evidence.end());
        let Some(ready) = ready_at(view, &recorded.run, end) else { continue };
        let latest = begins_by(view, job, ready, end);
        if latest.is_some_and(|latest| latest < end) {
            let what = format!(
                "{} had not begun {:.3} s after it was ready, {:.3} s after what it needs was free",
                recorded.run.id,
                span(end - ready),
                span(end - latest.unwrap_or(end))
            );
            findings.push(Finding::new(Verdict::Starved, end, what, &[]));
        }
    }
    for (thing, attempts) in sharers(view) {
        if matches!(thing, Thing::Queue(_) | Thing::Beside(_) | Thing::Group("turns")) {
            continue;
        }
        overtaken(view, thing, &attempts, findings);
    }
}

/// Returns when a run that had not begun at `end` could begin: at its due time. A backfilled
/// occurrence is in the past, and could begin when it was last asked for, if that is known.
fn ready_at(view: &View<'_>, run: &RunName, end: Micros) -> Option<Micros> {
    if !run.id.ends_with(BACKFILL) {
        return Some(run.due);
    }
    let is_asked = |operation: &&Operation| {
        operation.what == Doing::Backfilled(run.job.clone()) && operation.from <= end
    };
    view.evidence.operations.iter().filter(is_asked).map(|operation| operation.to).max()
}

/// Finds runs that waited at a gate with due order while a run that was due later was let in.
/// The first run waited by its own record. The other came to the gate later: it was due later, or
/// the only place was taken.
fn overtaken(view: &View<'_>, thing: Thing, attempts: &[&Attempt], findings: &mut Vec<Finding>) {
    for (at, &first) in attempts.iter().enumerate() {
        let is_its_first_gate =
            job_of(view, first).sharing.things(&first.run.job).first() == Some(&thing);
        let Some((recorded, from)) =
            view.recorded.get(&*first.run.id).and_then(|run| Some((run, run.waited_from?)))
        else {
            continue;
        };
        // A manual run first waits for the open run of its job.
        if first.run.is_manual
            || first.number > 1
            || !is_first(view, first)
            || !is_its_first_gate
            || lost_between(view, from, first.began)
            || is_away(view, first, from)
        {
            continue;
        }
        let is_alone = matches!(thing, Thing::Group(_)) || thing == Thing::Key("customer-1");
        let overtook = attempts[..at].iter().enumerate().find(|(place, other)| {
            let held = place
                .checked_sub(1)
                .map(|before| attempts[before])
                .filter(|before| is_alone && counts(view, before, other.began));
            let came = other.run.due.max(held.map_or(0, |before| before.last_sign));
            // A run that was let in has its place, even if it begins after a run that came later.
            let was_let_in = recorded.let_in.is_some_and(|at| at <= claimed_since(view, other));
            other.run.due > first.run.due && from < came && other.began > from && !was_let_in
        });
        if let Some((_, other)) = overtook {
            let what = format!(
                "{} waited for {thing} while {}, due later, was let in",
                first.run.id, other.run.id
            );
            findings.push(Finding::new(Verdict::Starved, first.began, what, &[other, first]));
        }
    }
}

/// Returns when a run that shares something must begin, if it could from `ready` on and had not at
/// `until`.
/// Returns `None` if it shares nothing.
///
/// It waits while runs move that share something with it, or with those runs in turn.
/// That is until the last of them that began before was over, or was found lost.
/// Then comes a rate's interval; for members of an alternating group the gap, and the turn timeout with
/// each other member.
/// After that it may be as late as any other run, and any fault may delay it.
/// The fault may have hit a run that had been given the place and never began.
pub(super) fn begins_by(
    view: &View<'_>,
    job: &Job,
    ready: Micros,
    until: Micros,
) -> Option<Micros> {
    let things = view.shared_with(job);
    if things.is_empty() {
        return None;
    }
    let mut free = ready;
    for &thing in &things {
        for other in view
            .sharers(thing)
            .iter()
            .filter(|other| other.began < until && other.last_sign >= ready - LONG_AGO)
        {
            let seen_at = Attempt { began: until, ..(*other).clone() };
            let over = given_up(view, other, &seen_at).unwrap_or(0).max(other.last_sign);
            let next = job_of(view, other)
                .sharing
                .rate_of(thing)
                .map_or(over, |rate| over.max(other.began + rate.interval()));
            let gap = if thing == Thing::Group("turns") { GAP } else { 0 };
            free = free.max(next + gap);
        }
    }
    // A run that was lost with its node before it could begin holds its places until its lease is
    // given up.
    let shares = |other: &&&Recorded| {
        let job = view.evidence.jobs.get(&other.run.job);
        other.run.due < ready
            && job.is_some_and(|job| {
                job.sharing.things(&job.name).iter().any(|thing| things.contains(thing))
            })
    };
    free = view
        .recorded
        .values()
        .filter(shares)
        .filter_map(|other| lost_unseen(view, other, until))
        .fold(free, Micros::max);
    let others = Micros::try_from(ORDER.len() - 1).unwrap_or(0);
    let turn_timeout = if things.contains(&Thing::Group("turns")) { PATIENCE * others } else { 0 };
    let kept = job.only_node().map_or(0, |node| kept_by_others(view, node, (ready, until)));
    let end = free + turn_timeout + kept + view.timing.clean;
    // A fault of another node delays what had a place there.
    Some(view.put_off_by(ready, end, job.only_node(), |_| true))
}

/// Returns how long other nodes may keep places of which they make no use between these times: each
/// that a fault hit, for a moment.
fn kept_by_others(view: &View<'_>, node: &str, (from, to): (Micros, Micros)) -> Micros {
    let is_gone = |other: &&String| {
        view.evidence.faults.iter().any(|fault| {
            *other != node
                && matches!(&fault.harm.hit, Hit::Nodes(hit) if hit.contains(other))
                && delay_on(fault, Some(other)) != Delay::None
                && fault.from <= to
                && from <= fault.to + BACK
        })
    };
    MOMENT * Micros::try_from(view.evidence.nodes.iter().filter(is_gone).count()).unwrap_or(0)
}

/// Returns true if this attempt waited for its only node. Others are let in meanwhile, whenever
/// they were due.
fn is_away(view: &View<'_>, first: &Attempt, from: Micros) -> bool {
    let only = view.only_node(&first.run);
    only.is_some() && view.is_disturbed_on(only, from, first.began)
}
