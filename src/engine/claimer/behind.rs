//! Looks past the runs of shut gates at the head of a lane, for those behind them that may start.
//!
//! Runs that find their gate shut are moved there one by one, and many of one gate may be ripe before a run with another. So where a
//! claim met such runs, the lane is walked through behind its head, with a remembered place, and the first few of each gate are
//! taken out of their row. Invariant: of one gate none is taken before an earlier one: past the first few all the others are left
//! until the walk begins again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::Claimer;
use crate::config::first_gate_in;
use crate::domain::gate::Gate;
use crate::domain::ids::JobName;
use crate::domain::lane::Lane;
use crate::engine::definitions::KEPT;
use crate::engine::ripe::well_formed;
use crate::engine::slots::BATCH;
use crate::keeper::BootInstant;
use crate::store::{RipeEntry, StoreError};

/// Entries read in one call.
const PAGE: usize = 1000;
/// So many of each gate are taken in one walk: more than one, for it may let in several.
const FEW: usize = 5;
/// A walk that left some out begins again after so many times as long as it took: looking at all of a lane is not free.
const REST: u32 = 10;
/// And no sooner than after this.
const LEAST_REST: Duration = Duration::from_secs(1);

/// How far a lane was walked through.
#[derive(Default)]
pub(super) struct Walk {
    /// The last entry left where it is.
    after: Option<String>,
    /// How many of each gate were taken.
    taken: HashMap<Gate, usize>,
    /// How long its reading took.
    spent: Duration,
    /// When it came to the last ripe run.
    arrived: Option<BootInstant>,
}

impl Walk {
    /// Takes at most `most` of `entries`, which stand behind those met before; those `met` only count.
    fn choose(&mut self, entries: Vec<(RipeEntry, Option<Gate>)>, met: &HashSet<String>, most: usize) -> Vec<RipeEntry> {
        let mut chosen = Vec::new();
        for (entry, gate) in entries {
            if chosen.len() == most {
                break;
            }
            let taken = gate.map(|gate| self.taken.entry(gate).or_default()).filter(|taken| **taken < FEW);
            if let Some(taken) = taken {
                *taken += 1;
                if !met.contains(&entry.member) {
                    chosen.push(entry);
                }
            } else {
                self.after = Some(entry.member);
            }
        }
        chosen
    }

    fn is_to_begin_again(&self, now: BootInstant) -> bool {
        let rest = (self.spent * REST).max(LEAST_REST);
        self.taken.len() > KEPT || self.after.is_some() && self.arrived.is_some_and(|at| now.since(at) >= rest)
    }
}

impl Claimer {
    /// Adds to the first ripe entries of `lane`, polled at `polled`, some that stand behind them, if those were found to be blocked.
    /// A tick after the poll it gives up, and goes on at the next call.
    pub(in crate::engine) async fn look_behind(&mut self, lane: &Lane, ripe: &mut Vec<RipeEntry>, polled: BootInstant) {
        if ripe.is_empty() {
            // A poll without a free slot shows nothing: the place is kept until there is one.
            return;
        }
        let walk = self.walks.remove(lane).filter(|walk| !walk.is_to_begin_again(BootInstant::now()));
        if !self.blocked.contains(lane) || ripe.len() < BATCH {
            return;
        }
        match self.walk_on(lane, walk.unwrap_or_default(), ripe, polled).await {
            Ok(walk) => {
                self.walks.insert(lane.clone(), walk);
            }
            Err(error) => self.shared.weather.failed(&error, "what is ripe behind blocked runs is not looked at"),
        }
    }

    async fn walk_on(
        &self,
        lane: &Lane,
        mut walk: Walk,
        ripe: &mut Vec<RipeEntry>,
        polled: BootInstant,
    ) -> Result<Walk, StoreError> {
        let mut met: HashSet<String> = ripe.iter().map(|entry| entry.member.clone()).collect();
        // Read on from what was read last; what was left last is where the next call begins.
        let mut at = walk.after.clone();
        let until = polled.saturating_add(self.shared.settings.tick);
        let mut left = BATCH;
        loop {
            self.shared.progress.ticker.back_within(Duration::ZERO);
            let began = BootInstant::now();
            let Some(entries) = self.shared.store.list_behind(lane, at.as_deref(), PAGE).await? else {
                // The place was lost with the entry.
                return Ok(Walk::default());
            };
            let is_last = entries.len() < PAGE;
            at = entries.last().map(|entry| entry.member.clone());
            let chosen = walk.choose(self.with_gates(entries).await?, &met, left);
            left -= chosen.len();
            met.extend(chosen.iter().map(|entry| entry.member.clone()));
            ripe.extend(chosen);
            let now = BootInstant::now();
            walk.spent += now.since(began);
            if is_last {
                walk.arrived = walk.arrived.or(Some(now));
            }
            if is_last || left == 0 || now >= until {
                return Ok(walk);
            }
        }
    }

    /// The first gate each has to pass; of a job that names none its own name's. None of what is no run: the head's turn comes.
    async fn with_gates(&self, entries: Vec<RipeEntry>) -> Result<Vec<(RipeEntry, Option<Gate>)>, StoreError> {
        let runs: Vec<Option<JobName>> =
            entries.iter().map(|entry| well_formed(entry).ok().map(|(run, _)| run.job().clone())).collect();
        let jobs: Vec<JobName> = runs.iter().flatten().cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let texts = self.shared.store.read_definitions(&jobs).await?;
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

    fn chosen(walk: &mut Walk, keys: &[&str], head: &[&str], most: usize) -> Vec<String> {
        let head = head.iter().map(|member| (*member).to_owned()).collect();
        walk.choose(entries(keys), &head, most).into_iter().map(|entry| entry.member).collect()
    }

    #[test]
    fn of_each_gate_the_first_few_are_taken_and_the_walk_goes_on_behind_the_last_that_was_left() {
        let mut walk = Walk::default();
        let row = ["m", "m", "m", "m", "m", "m", "free", "m", "free"];
        assert_eq!(chosen(&mut walk, &row, &["m0@5", "m1@5"], 50), ["m2@5", "m3@5", "m4@5", "free6@5", "free8@5"]);
        assert_eq!(walk.after.as_deref(), Some("m7@5"));
        assert_eq!(chosen(&mut walk, &["m", "free", "other"], &[], 50), ["free1@5", "other2@5"]);
    }

    #[test]
    fn what_there_is_no_room_for_is_met_again() {
        let mut walk = Walk::default();
        assert_eq!(chosen(&mut walk, &["a", "b", "c"], &[], 2), ["a0@5", "b1@5"]);
        assert_eq!(walk.after, None);
    }

    #[test]
    fn what_is_no_run_is_left_to_the_head() {
        let mut walk = Walk::default();
        assert_eq!(chosen(&mut walk, &["", "a"], &[], 50), ["a1@5"]);
        assert_eq!(walk.after.as_deref(), Some("0@5"));
    }

    #[test]
    fn a_walk_that_left_some_out_begins_again_after_a_rest_as_long_as_its_cost_asks_for() {
        let at = BootInstant::now();
        let after = |ms: u64| at.saturating_add(Duration::from_millis(ms));
        let mut walk = Walk { spent: Duration::from_millis(300), arrived: Some(at), ..Walk::default() };
        assert!(!walk.is_to_begin_again(after(9_000)), "it left nothing out");
        walk.after = Some("m@5".to_owned());
        assert!(!walk.is_to_begin_again(after(2_900)) && walk.is_to_begin_again(after(3_000)));
        walk.spent = Duration::ZERO;
        assert!(!walk.is_to_begin_again(after(900)) && walk.is_to_begin_again(after(1_000)));
    }
}
