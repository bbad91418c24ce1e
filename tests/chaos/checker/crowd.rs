//! The checks of the queue `crowd`: never more runs at once than slots, and the runs due first
//! start first.
//! The slots are those of a node, for all shards together. The order is that of each shard alone.

use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{Attempt, Micros, SECOND};
use crate::world::jobs::CROWD_SLOTS;

/// The longest time between a claim and its start. Starts may come in another order than claims
/// within it.
const START: Micros = SECOND;

/// Returns the first attempts of the queue's runs, in the order they began.
pub(super) fn firsts<'a>(view: &View<'a>) -> Vec<&'a Attempt> {
    let is_in = |attempt: &&Attempt| {
        view.evidence.jobs.get(&attempt.run.job).is_some_and(|job| job.is_in_crowd)
    };
    let mut firsts: Vec<&Attempt> = view
        .attempts
        .values()
        .filter_map(|attempts| attempts.first().copied())
        .filter(is_in)
        .collect();
    firsts.sort_by_key(|attempt| attempt.began);
    firsts
}

/// OVERLAP: more runs at once on a node than the queue has slots. LATE: a run was overtaken by a
/// run that was due later.
pub(super) fn crowd(view: &View<'_>, findings: &mut Vec<Finding>) {
    let firsts = firsts(view);
    for (at, attempt) in firsts.iter().enumerate() {
        let lives =
            |other: &&&Attempt| other.node == attempt.node && attempt.began < other.last_sign;
        let others: Vec<&Attempt> = firsts[..at].iter().filter(lives).copied().collect();
        if others.len() >= CROWD_SLOTS && !view.is_disturbed(attempt.run.due, attempt.began) {
            let what = format!(
                "{} began when its queue had {} of {CROWD_SLOTS} slots in use",
                attempt.run.id,
                others.len()
            );
            findings.push(Finding::new(Verdict::Overlap, attempt.began, what, &others));
        }
        let overtaking = firsts[..at]
            .iter()
            .filter(|other| view.shard_of(other) == view.shard_of(attempt))
            .find(|other| other.run.due > attempt.run.due && other.began + START < attempt.began);
        if let Some(other) = overtaking
            && !view.is_disturbed(attempt.run.due, attempt.began)
            && view.put_off(other.began, other.began + START) < attempt.began
        {
            let what = format!(
                "{} waited in its queue while {}, due later, went first",
                attempt.run.id, other.run.id
            );
            findings.push(Finding::new(Verdict::Late, attempt.began, what, &[other, attempt]));
        }
    }
}

/// Returns when the queue last moved before this run began. A run that waits for a slot is on time
/// while the queue moves.
pub(super) fn moved(view: &View<'_>, first: &Attempt) -> Micros {
    let before = firsts(view)
        .into_iter()
        .filter(|other| other.run.id != first.run.id && other.began <= first.began);
    before
        .map(|other| other.last_sign)
        .filter(|at| *at <= first.began)
        .max()
        .unwrap_or(0)
        .max(first.run.due)
}
