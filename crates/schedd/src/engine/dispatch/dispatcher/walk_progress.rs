//! The progress of a search past the blocked runs at the head of a lane.
//!
//! To take a run is to return it for a claim. Invariant: no run of a gate is taken before an
//! earlier run of that gate. A search takes only the first few runs of a gate, and leaves out later
//! ones until the search starts again. A run that was taken but got no slot is taken again first.

use std::collections::HashMap;
use std::time::Duration;

use schedd_core::domain::queue::gate::Gate;
use schedd_core::host::boot_clock::BootInstant;
use schedd_store::DueEntry;

/// The most runs of one gate that a search takes. More than one, because a gate may have several
/// free places.
const FEW: usize = 5;
/// The pause after a search that left out runs, as a multiple of the time that the search spent
/// reading. Reading a whole lane is expensive for Redis.
const REST: u32 = 10;
/// The shortest pause after a search that left out runs.
const LEAST_REST: Duration = Duration::from_secs(1);

/// The most gates that one search remembers. If a search meets more gates, it starts again.
const GATES: usize = 10_000;

/// The progress of the search in a lane past its blocked head.
#[derive(Default)]
pub(crate) struct LaneWalk {
    /// The entry after which the next call reads the lane, or `None` to read from the beginning.
    /// Entries that the search took and that still wait come after this entry, so the next call
    /// finds them again.
    pub(crate) after: Option<String>,
    /// The gate after which the next search by gates continues. `None` for the first gate.
    pub(crate) after_gate: Option<Gate>,
    /// True if runs found by their gates could be neither claimed nor skipped. From then on the
    /// search reads the lane entry by entry.
    pub(crate) is_by_entries: bool,
    /// The entries that the search took, by the gate of their runs.
    pub(super) taken: HashMap<Gate, Vec<String>>,
    /// True if the search left out any entry.
    pub(super) has_left: bool,
    /// The time that the search spent reading entries.
    pub(crate) spent: Duration,
    /// The time at which the search had passed all due runs of the lane. `None` while it has not.
    pub(crate) arrived: Option<BootInstant>,
}

impl LaneWalk {
    /// Adds the entries that the search takes to `chosen`, until `chosen` has `most` entries.
    /// Entries that an earlier call took but that got no slot are added again, before later
    /// entries.
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

    /// Returns true if `entry` is among the first `FEW` entries of `gate`, and counts it as taken.
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
