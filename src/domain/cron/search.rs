//! From wall clock times to instants: the rule for clock changes, and the search forwards and backwards.
//!
//! Which times count in a gap and in a fold says [`ClockChanges`]. The instants of an expression are one fixed set of whole
//! seconds, so every answer is strictly later (or not later) than what was asked from.

use super::plan::Plan;
use super::stretch::{Change, LONGEST_OFFSET, Stretch};
use super::work;
use crate::domain::clock_changes::{ClockChanges, Fold, Gap};
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

const END: i64 = UnixMillis::END / 1000;

/// The first occurrence of `plan` at or after the second `from`.
pub(super) fn first_from(plan: &Plan, zone: &Zone, rule: ClockChanges, from: i64) -> Option<i64> {
    let (gap, fold) = if plan.is_wild() { rule.of_real_time() } else { rule.of_fixed_times() };
    let mut at = from;
    while at < END {
        work::step();
        let stretch = Stretch::around(zone.rules(), at);
        let mut local = at + stretch.offset;
        if let Some(start) = stretch.start.filter(Change::is_seasonal) {
            let left_out =
                |start: &Change| plan.first_local_from(start.clock_before).is_some_and(|next| next < start.clock_after);
            if gap == Gap::RunAfter && at == start.at && left_out(&start) {
                return Some(at);
            }
            if fold == Fold::First {
                local = local.max(start.clock_before);
            }
        }
        let next = plan.first_local_from(local);
        let Some(end) = stretch.end else {
            return next.map(|next| next - stretch.offset).filter(|next| *next < END);
        };
        // What the second pass shows again does not count in the first.
        let clock_end = match fold {
            Fold::Last if end.is_seasonal() => end.clock_before.min(end.clock_after),
            _ => end.clock_before,
        };
        at = match next {
            Some(next) if next < clock_end => return Some(next - stretch.offset).filter(|next| *next < END),
            // Far from the end of the stretch no clock change can bring back a time before `next`: jump near it.
            _ if end.at - at > LONGEST_OFFSET => end.at.max(next? - LONGEST_OFFSET),
            _ => end.at,
        };
    }
    None
}

/// The newest occurrence of `plan` in `[floor, until]`; `guess` is how far back in seconds it is looked for first.
pub(super) fn last_until(plan: &Plan, zone: &Zone, rule: ClockChanges, floor: i64, until: i64, guess: i64) -> Option<i64> {
    let within = |from: i64, limit: i64| first_from(plan, zone, rule, from).filter(|found| *found <= limit);
    let mut width = guess.max(1);
    let mut found = loop {
        let from = until.saturating_sub(width - 1).max(floor);
        match within(from, until) {
            Some(found) => break found,
            None if from <= floor => return None,
            None => width = width.saturating_mul(4),
        }
    };
    // Nothing lies in (limit, until]: halve what is between `found` and it.
    let mut limit = until;
    while let Some(later) = within(found + 1, limit) {
        found = later;
        let middle = found + (limit - found) / 2 + 1;
        match within(middle, limit) {
            Some(later) => found = later,
            None => limit = middle - 1,
        }
    }
    Some(found)
}
