//! The progress of the search behind the blocked runs at the head of a lane.
//!
//! Invariant: no run of a gate is taken before an earlier run of that gate. After the first few
//! runs of a gate, further runs of that gate are left until the walk begins again. A run that was
//! taken but found no slot is taken again first.

use std::collections::HashMap;
use std::time::Duration;

use crate::domain::queue::gate::Gate;
use crate::keeper::BootInstant;
use crate::store::DueEntry;

/// The number of runs of each gate taken in one walk. The number is more than one because a gate
/// may have several free places.
const FEW: usize = 5;
/// The factor of rest. A walk that left out runs begins again after a rest of this many times its
/// reading time. Reading a whole lane is expensive.
const REST: u32 = 10;
/// The shortest rest before a walk that left out runs begins again.
const LEAST_REST: Duration = Duration::from_secs(1);

/// The most gates remembered by one walk. A walk that met more gates begins again.
const GATES: usize = 10_000;

/// The progress of the search behind the head of a lane.
#[derive(Default)]
pub(crate) struct LaneWalk {
    /// The entry behind which the next call begins. This entry is the last of the entries that the
    /// walk left in place before it took the first entry.
    pub(crate) after: Option<String>,
    /// The gate after which the next search by gate goes on.
    pub(crate) after_gate: Option<Gate>,
    /// True if the runs found by gate could not be handled. From then on the lane is only walked
    /// entry by entry.
    pub(crate) is_by_entries: bool,
    /// The entries taken, listed by the gate of their runs.
    pub(super) taken: HashMap<Gate, Vec<String>>,
    /// True if the walk left out any entry.
    pub(super) has_left: bool,
    /// The time the walk spent on reading entries.
    pub(crate) spent: Duration,
    /// The time at which the walk came to the last due run. `None` before that.
    pub(crate) arrived: Option<BootInstant>,
}

impl LaneWalk {
    /// Takes entries into `chosen` until `chosen` has `most` entries. Entries that an earlier call
    /// took, but that found no slot, are taken again before the entries behind them.
    pub(crate) fn choose(
        &mut self,
        entries: Vec<(DueEntry, Option<Gate>)>,
        chosen: &mut Vec<DueEntry>,
        most: usize,
    ) {
        for (entry, gate) in entries {
            if chosen.len() == most {
                return;
            }
            if gate.is_some_and(|gate| self.may_take(gate, &entry)) {
                chosen.push(entry);
            } else {
                self.has_left = true;
                if chosen.is_empty() {
                    self.after = Some(entry.member);
                }
            }
        }
    }

    /// Returns true if `entry` is among the first few entries of `gate`, and counts `entry` as
    /// taken.
    pub(crate) fn may_take(&mut self, gate: Gate, entry: &DueEntry) -> bool {
        let taken = self.taken.entry(gate).or_default();
        let is_known = taken.contains(&entry.member);
        if !is_known && taken.len() < FEW {
            taken.push(entry.member.clone());
            return true;
        }
        is_known
    }

    pub(crate) fn is_to_begin_again(&self, now: BootInstant) -> bool {
        let rest = (self.spent * REST).max(LEAST_REST);
        self.taken.len() > GATES
            || self.has_left && self.arrived.is_some_and(|at| now.since(at) >= rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(keys: &[&str]) -> Vec<(DueEntry, Option<Gate>)> {
        let entry = |(at, key): (usize, &&str)| {
            let entry = DueEntry { member: format!("{key}{at}@5"), score: "5".to_owned() };
            (entry, (!key.is_empty()).then(|| Gate::of_key(&key.parse().unwrap())))
        };
        keys.iter().enumerate().map(entry).collect()
    }

    fn chosen(walk: &mut LaneWalk, keys: &[&str], most: usize) -> Vec<String> {
        let mut chosen = Vec::new();
        walk.choose(entries(keys), &mut chosen, most);
        chosen.into_iter().map(|entry| entry.member).collect()
    }

    #[test]
    fn the_first_few_of_each_gate_are_taken_and_unslotted_runs_stay_ahead() {
        let mut walk = LaneWalk::default();
        let row = ["m", "m", "m", "m", "m", "m", "free", "m", "free"];
        let first = ["m0@5", "m1@5", "m2@5", "m3@5", "m4@5", "free6@5", "free8@5"];
        assert_eq!(chosen(&mut walk, &row, 50), first);
        assert_eq!((walk.after.as_deref(), walk.has_left), (None, true));
        assert_eq!(chosen(&mut walk, &row, 50), first, "none of them was started");
        let mut walk = LaneWalk::default();
        assert_eq!(chosen(&mut walk, &row, 6).last().unwrap(), "free6@5");
        assert_eq!(walk.taken.values().map(Vec::len).sum::<usize>(), 6);
    }

    #[test]
    fn the_next_call_begins_behind_what_was_left_before_the_first_taken() {
        let mut walk = LaneWalk::default();
        walk.taken.insert(Gate::of_key(&"m".parse().unwrap()), vec!["x".to_owned(); FEW]);
        assert_eq!(chosen(&mut walk, &["m", "m", "free", "m"], 50), ["free2@5"]);
        assert_eq!(walk.after.as_deref(), Some("m1@5"));
    }

    #[test]
    fn what_is_no_run_is_left_to_the_head() {
        let mut walk = LaneWalk::default();
        assert_eq!(chosen(&mut walk, &["", "a"], 50), ["a1@5"]);
        assert_eq!(walk.after.as_deref(), Some("0@5"));
    }

    #[test]
    fn a_walk_that_left_some_out_begins_again_after_a_rest_as_long_as_its_cost_asks_for() {
        let at = BootInstant::now();
        let after = |ms: u64| at.saturating_add(Duration::from_millis(ms));
        let mut walk = LaneWalk {
            spent: Duration::from_millis(300),
            arrived: Some(at),
            ..LaneWalk::default()
        };
        assert!(!walk.is_to_begin_again(after(9_000)), "it left nothing out");
        walk.has_left = true;
        assert!(!walk.is_to_begin_again(after(2_900)) && walk.is_to_begin_again(after(3_000)));
        walk.spent = Duration::ZERO;
        assert!(!walk.is_to_begin_again(after(900)) && walk.is_to_begin_again(after(1_000)));
    }
}
