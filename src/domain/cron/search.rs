//! From wall clock times to instants: the rule for clock changes, and the search forwards and backwards.
//!
//! By cron(8) of Debian: a wild job follows real time; any other runs once right after a gap that held one or more of its
//! times, and not again in the second pass of a fold. The instants of an expression are one fixed set of whole seconds, so
//! every answer is strictly later (or not later) than what was asked from.

use super::stretch::{CORRECTION, LONGEST_OFFSET, Stretch};
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

const END: i64 = UnixMillis::END / 1000;

/// A schedule read on a wall clock, which knows of no zone.
pub(in crate::domain) trait Wall {
    /// Whether it follows real time through clock changes.
    fn is_wild(&self) -> bool;

    /// The first matching wall clock time at or after `local`, both in seconds since 1970 as the wall clock counts.
    fn first_local_from(&self, local: i64) -> Option<i64>;
}

/// The first occurrence of `plan` at or after the second `from`.
pub(in crate::domain) fn first_from<W: Wall>(plan: &W, zone: &Zone, from: i64) -> Option<i64> {
    let mut at = from;
    while at < END {
        let stretch = Stretch::around(zone.rules(), at);
        let mut local = at + stretch.offset;
        if let Some(start) = stretch.start.filter(|_| !plan.is_wild()) {
            let clock_before = start.at + start.offset_before;
            let clock_after = start.at + stretch.offset;
            let is_correction = (clock_after - clock_before).abs() >= CORRECTION;
            if !is_correction && at == start.at && plan.first_local_from(clock_before)? < clock_after {
                return Some(at);
            }
            if !is_correction {
                local = local.max(clock_before);
            }
        }
        let next = plan.first_local_from(local);
        let Some(end) = stretch.end else {
            return next.map(|next| next - stretch.offset).filter(|next| *next < END);
        };
        at = match next {
            Some(next) if next - stretch.offset < end => return Some(next - stretch.offset).filter(|next| *next < END),
            // Far from the end of the stretch no clock change can bring back a time before `next`: jump near it.
            _ if end - at > LONGEST_OFFSET => end.max(next? - LONGEST_OFFSET),
            _ => end,
        };
    }
    None
}
