//! Searches a lane for runs that may start although they come behind blocked runs at the head of
//! the lane.
//!
//! A run whose gate has no free place is blocked, and moved to the gate by a claim. Many runs of
//! one gate may be due before a run with another gate. So two searches follow once a claim met
//! blocked runs and the heads of all lanes were handled:
//! - First, the runs of gates that few jobs name are looked up by gate.
//! - Then the lane is walked behind its head from a remembered position, and the first few runs of
//!   each gate are taken out of order.
//!
//! Invariant: no run of a gate is taken before an earlier run of that gate. After the first few
//! runs of a gate, further runs of that gate are left until the walk begins again. A run that was
//! taken but found no slot is taken again first.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::Claimer;
use crate::config::first_gate_in;
use crate::domain::name::names::{JobName, QueueName};
use crate::domain::queue::gate::Gate;
use crate::domain::queue::lane::Lane;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::dispatch::definitions::KEPT;
use crate::engine::dispatch::due_entry::well_formed;
use crate::engine::dispatch::slots::BATCH;
use crate::keeper::BootInstant;
use crate::store::{RipeEntry, StoreError};

/// The number of entries read in one call. So few entries keep other calls to Redis waiting for
/// some milliseconds at most.
const PAGE: usize = 250;
/// The number of runs of each gate taken in one walk. The number is more than one because a gate
/// may have several free places.
const FEW: usize = 5;
/// The factor of rest. A walk that left out runs begins again after a rest of this many times its
/// reading time. Reading a whole lane is expensive.
const REST: u32 = 10;
/// The shortest rest before a walk that left out runs begins again.
const LEAST_REST: Duration = Duration::from_secs(1);

/// The progress of the search behind the head of a lane.
#[derive(Default)]
pub(super) struct Walk {
    /// The entry behind which the next call begins. This entry is the last of the entries that the
    /// walk left in place before it took the first entry.
    after: Option<String>,
    /// The gate after which the next search by gate goes on.
    pub(super) after_gate: Option<Gate>,
    /// True if the runs found by gate could not be handled. From then on the lane is only walked
    /// entry by entry.
    is_by_entries: bool,
    /// The entries taken, listed by the gate of their runs.
    taken: HashMap<Gate, Vec<String>>,
    /// True if the walk left out any entry.
    has_left: bool,
    /// The time the walk spent on reading entries.
    spent: Duration,
    /// The time at which the walk came to the last due run. `None` before that.
    arrived: Option<BootInstant>,
}

impl Walk {
    /// Takes entries into `chosen` until `chosen` has `most` entries. Entries that an earlier call
    /// took, but that found no slot, are taken again before the entries behind them.
    fn choose(&mut self, entries: Vec<(RipeEntry, Option<Gate>)>, chosen: &mut Vec<RipeEntry>, most: usize) {
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
    pub(super) fn may_take(&mut self, gate: Gate, entry: &RipeEntry) -> bool {
        let taken = self.taken.entry(gate).or_default();
        let is_known = taken.contains(&entry.member);
        if !is_known && taken.len() < FEW {
            taken.push(entry.member.clone());
            return true;
        }
        is_known
    }

    fn is_to_begin_again(&self, now: BootInstant) -> bool {
        let rest = (self.spent * REST).max(LEAST_REST);
        self.taken.len() > KEPT || self.has_left && self.arrived.is_some_and(|at| now.since(at) >= rest)
    }
}

impl Claimer {
    /// Returns true if the search must go behind the first due entries of `lane`, because some of
    /// these entries are blocked runs.
    pub(crate) fn has_blocked(&mut self, lane: &Lane, ripe: &[RipeEntry]) -> bool {
        // A poll without a free slot shows nothing. The position is kept until there is a slot.
        let has_blocked = self.blocked.contains(lane) && ripe.len() >= BATCH;
        if !ripe.is_empty() && !has_blocked {
            self.walks.remove(lane);
        }
        has_blocked
    }

    /// Claims up to `slots` due runs that come behind blocked runs in `lane`. The search stops at
    /// the time `until`, and the next call resumes the search. Returns true if another call may
    /// claim more runs now.
    pub(crate) async fn take_behind(
        &mut self,
        queue: &QueueName,
        lane: &Lane,
        slots: usize,
        until: BootInstant,
        now: UnixMillis,
    ) -> Result<bool, StoreError> {
        if !self.blocked.contains(lane) {
            return Ok(false);
        }
        let walk = self.walks.remove(lane).filter(|walk| !walk.is_to_begin_again(BootInstant::now()));
        let (mut walk, most) = (walk.unwrap_or_default(), slots.min(BATCH));
        // After a complete walk, runs that become due are listed behind the remembered position.
        let is_by_gate = !walk.is_by_entries && walk.arrived.is_none();
        let mut chosen = if is_by_gate { self.choose_by_gate(lane, &mut walk, most, now).await? } else { Vec::new() };
        let is_of_gates = !chosen.is_empty();
        if !is_of_gates {
            (walk, chosen) = self.walk_on(lane, walk, most, until).await?;
        }
        let is_through = walk.arrived.is_some();
        self.walks.insert(lane.clone(), walk);
        if chosen.is_empty() {
            return Ok(!is_through);
        }
        // This call must not change what was found at the head of the lane.
        let left = self.left_in(lane);
        let taken = self.take(queue, vec![(lane.clone(), chosen)], slots, now).await;
        if let Some(walk) = self.walks.get_mut(lane) {
            walk.is_by_entries |= is_of_gates && taken.as_ref().map_or(true, |taken| taken.done == 0);
        }
        self.blocked.insert(lane.clone());
        let after = self.left.entry(lane.clone()).or_default();
        *after = (*after).max(left.saturating_sub(BATCH));
        Ok(taken?.done > 0 || !is_through)
    }

    async fn walk_on(
        &self,
        lane: &Lane,
        mut walk: Walk,
        most: usize,
        until: BootInstant,
    ) -> Result<(Walk, Vec<RipeEntry>), StoreError> {
        let mut chosen = Vec::new();
        let mut at = walk.after.clone();
        loop {
            self.health.progress.ticker.back_within(Duration::ZERO);
            let began = BootInstant::now();
            let Some(entries) = self.node.store.list_behind(lane, at.as_deref(), PAGE).await? else {
                // The entry of the remembered position is gone, and the position with it.
                return Ok((Walk::default(), chosen));
            };
            let is_last = entries.len() < PAGE;
            at = entries.last().map(|entry| entry.member.clone());
            walk.choose(self.with_gates(entries).await?, &mut chosen, most);
            let now = BootInstant::now();
            walk.spent += now.since(began);
            if is_last && chosen.len() < most {
                walk.arrived = walk.arrived.or(Some(now));
            }
            if is_last || chosen.len() == most || now >= until {
                return Ok((walk, chosen));
            }
        }
    }

    /// Returns each entry with the first gate that the run of the entry must pass. A job without
    /// gates counts as a gate of its own. An entry that is no run has no gate, and is handled at
    /// the head of the lane.
    async fn with_gates(&self, entries: Vec<RipeEntry>) -> Result<Vec<(RipeEntry, Option<Gate>)>, StoreError> {
        let runs: Vec<Option<JobName>> =
            entries.iter().map(|entry| well_formed(entry).ok().map(|(run, _)| run.job().clone())).collect();
        let jobs: Vec<JobName> = runs.iter().flatten().cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let texts = self.node.store.read_definitions(&jobs).await?;
        let gate = |(job, text): (&JobName, Option<String>)| {
            text.as_deref().and_then(first_gate_in).unwrap_or_else(|| Gate::of_job(job))
        };
        let gates: HashMap<&JobName, Gate> = jobs.iter().zip(jobs.iter().zip(texts).map(gate)).collect();
        Ok(entries
            .into_iter()
            .zip(&runs)
            .map(|(entry, job)| (entry, job.as_ref().and_then(|job| gates.get(job).cloned())))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(keys: &[&str]) -> Vec<(RipeEntry, Option<Gate>)> {
        let entry = |(at, key): (usize, &&str)| {
            let entry = RipeEntry { member: format!("{key}{at}@5"), score: "5".to_owned() };
            (entry, (!key.is_empty()).then(|| Gate::of_key(&key.parse().unwrap())))
        };
        keys.iter().enumerate().map(entry).collect()
    }

    fn chosen(walk: &mut Walk, keys: &[&str], most: usize) -> Vec<String> {
        let mut chosen = Vec::new();
        walk.choose(entries(keys), &mut chosen, most);
        chosen.into_iter().map(|entry| entry.member).collect()
    }

    #[test]
    fn the_first_few_of_each_gate_are_taken_and_unslotted_runs_stay_ahead() {
        let mut walk = Walk::default();
        let row = ["m", "m", "m", "m", "m", "m", "free", "m", "free"];
        let first = ["m0@5", "m1@5", "m2@5", "m3@5", "m4@5", "free6@5", "free8@5"];
        assert_eq!(chosen(&mut walk, &row, 50), first);
        assert_eq!((walk.after.as_deref(), walk.has_left), (None, true));
        assert_eq!(chosen(&mut walk, &row, 50), first, "none of them was started");
        let mut walk = Walk::default();
        assert_eq!(chosen(&mut walk, &row, 6).last().unwrap(), "free6@5");
        assert_eq!(walk.taken.values().map(Vec::len).sum::<usize>(), 6);
    }

    #[test]
    fn the_next_call_begins_behind_what_was_left_before_the_first_taken() {
        let mut walk = Walk::default();
        walk.taken.insert(Gate::of_key(&"m".parse().unwrap()), vec!["x".to_owned(); FEW]);
        assert_eq!(chosen(&mut walk, &["m", "m", "free", "m"], 50), ["free2@5"]);
        assert_eq!(walk.after.as_deref(), Some("m1@5"));
    }

    #[test]
    fn what_is_no_run_is_left_to_the_head() {
        let mut walk = Walk::default();
        assert_eq!(chosen(&mut walk, &["", "a"], 50), ["a1@5"]);
        assert_eq!(walk.after.as_deref(), Some("0@5"));
    }

    #[test]
    fn a_walk_that_left_some_out_begins_again_after_a_rest_as_long_as_its_cost_asks_for() {
        let at = BootInstant::now();
        let after = |ms: u64| at.saturating_add(Duration::from_millis(ms));
        let mut walk = Walk { spent: Duration::from_millis(300), arrived: Some(at), ..Walk::default() };
        assert!(!walk.is_to_begin_again(after(9_000)), "it left nothing out");
        walk.has_left = true;
        assert!(!walk.is_to_begin_again(after(2_900)) && walk.is_to_begin_again(after(3_000)));
        walk.spent = Duration::ZERO;
        assert!(!walk.is_to_begin_again(after(900)) && walk.is_to_begin_again(after(1_000)));
    }
}
