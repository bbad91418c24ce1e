//! The search for the next instant of a schedule that follows a wall clock.
//!
//! [`ClockChanges`] decides which times count when the clock skips them or shows them twice. An
//! instant is a Unix time in seconds here.

use super::cron_stretch::{ClockStretchChange, CronStretch, LONGEST_OFFSET};
use super::search_work;
use crate::clock_changes::{ClockChanges, Fold, Gap};
use crate::time::unix_millis::UnixMillis;
use crate::time::zone::Zone;

const END: i64 = UnixMillis::END / 1000;

/// A schedule that matches times of a wall clock, without a zone.
pub(crate) trait Wall {
    /// Returns true if the schedule follows real time through clock changes.
    fn is_wild(&self) -> bool;

    /// Returns the first matching wall clock time that is not before `local`. Both times are
    /// seconds since 1970 by the wall clock. Returns `None` if the search finds no such time.
    fn first_local_from(&self, local: i64) -> Option<i64>;
}

/// Returns the first occurrence of `plan` in `zone` that is not before `from`. Both are Unix times
/// in seconds. Returns `None` if no occurrence comes before 2100. `rule` decides which times count
/// at a clock change.
pub(crate) fn first_from<W: Wall>(
    plan: &W,
    zone: &Zone,
    rule: ClockChanges,
    from: i64,
) -> Option<i64> {
    let (gap, fold) = if plan.is_wild() { rule.of_real_time() } else { rule.of_fixed_times() };
    let mut at = from;
    while at < END {
        search_work::step();
        let stretch = CronStretch::around(zone.rules(), at);
        let mut local = at + stretch.offset;
        if let Some(start) = stretch.start.filter(ClockStretchChange::is_seasonal) {
            let left_out = |start: &ClockStretchChange| {
                plan.first_local_from(start.clock_before)
                    .is_some_and(|next| next < start.clock_after)
            };
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
        // With `Fold::Last`, a time that the clock shows again in the second pass does not count in
        // the first pass.
        let clock_end = match fold {
            Fold::Last if end.is_seasonal() => end.clock_before.min(end.clock_after),
            _ => end.clock_before,
        };
        at = match next {
            Some(next) if next < clock_end => {
                return Some(next - stretch.offset).filter(|next| *next < END);
            }
            // If the next clock change is far away, it cannot repeat times before `next`. The
            // search then jumps to an instant shortly before `next`.
            _ if end.at - at > LONGEST_OFFSET => end.at.max(next? - LONGEST_OFFSET),
            _ => end.at,
        };
    }
    None
}
