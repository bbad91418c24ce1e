//! The order in which a node claims the ready runs of a queue: by priority, then by ready time.
//!
//! Invariant: at least every tenth run that a node claims from a queue is the run with the earliest
//! ready time, without regard to priority. So a run starts after at most `10 * (n + 1)` claims if
//! `n` runs became ready earlier. No run waits forever, even if runs of higher priority keep
//! arriving.

use std::collections::VecDeque;

use crate::domain::queue::lane::Priority;

/// The interval between picks by ready time: 10 claims of a node from a queue. A pick by ready time
/// takes the run with the earliest ready time, so that runs of low priority also start.
pub const OLDEST_EVERY: usize = 10;

/// A ready run that waits for a claim, with its priority and ready time.
#[derive(Debug, Clone)]
pub struct WaitingRun<T> {
    /// The priority of the run.
    pub priority: Priority,
    /// The ready time of the run, as a Unix time in ms.
    pub ready: i64,
    /// The caller's value for the run, such as its id.
    pub item: T,
}

/// A ready run at its position in the order of claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick<T> {
    /// The caller's value for the run, such as its id.
    pub item: T,
    /// True if the run was picked for its ready time, false if for its priority.
    pub is_oldest: bool,
}

/// The count of a node's claims from one queue since the node last picked a run by its ready time
/// and not by its priority. The node keeps this count from poll to poll.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneTurns {
    /// The number of the node's claims from the queue since the last pick by ready time.
    since_oldest: usize,
}

impl LaneTurns {
    /// Returns the runs `waiting` in the order in which a node should claim them. Runs with the
    /// same priority and ready time stay in the given order.
    pub fn order<T>(&self, waiting: Vec<WaitingRun<T>>) -> Vec<Pick<T>> {
        let mut by_age: VecDeque<usize> = (0..waiting.len()).collect();
        by_age.make_contiguous().sort_by_key(|at| (waiting[*at].ready, *at));
        let mut by_rank = by_age.clone();
        // The sort is stable, so runs of the same priority stay in the order of their ready times.
        by_rank.make_contiguous().sort_by_key(|at| std::cmp::Reverse(waiting[*at].priority));
        let mut items: Vec<Option<T>> =
            waiting.into_iter().map(|waiting| Some(waiting.item)).collect();
        let mut picks = Vec::with_capacity(items.len());
        let mut since = self.since_oldest;
        while picks.len() < items.len() {
            let is_oldest = since + 1 >= OLDEST_EVERY;
            let line = if is_oldest { &mut by_age } else { &mut by_rank };
            let Some(at) = line.pop_front() else { break };
            if let Some(item) = items[at].take() {
                picks.push(Pick { item, is_oldest });
                since = if is_oldest { 0 } else { since + 1 };
            }
        }
        picks
    }

    /// Records the claims of a node, of which `started` succeeded. `tried` has a value for each
    /// claim, in order: true if the run was picked for its ready time.
    ///
    /// If `tried` has a pick by ready time, failed claims after this pick count too. So the next
    /// such pick may come earlier but never later.
    pub fn note(&mut self, tried: &[bool], started: usize) {
        self.since_oldest = match tried.iter().rposition(|is_oldest| *is_oldest) {
            Some(last) => tried.len() - 1 - last,
            None => self.since_oldest + started,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waiting(list: &[(i8, i64)]) -> Vec<WaitingRun<(i8, i64)>> {
        let one = |&(priority, ready): &(i8, i64)| WaitingRun {
            priority: Priority::new(priority).unwrap(),
            ready,
            item: (priority, ready),
        };
        list.iter().map(one).collect()
    }

    fn taken(turns: LaneTurns, list: &[(i8, i64)]) -> Vec<(i8, i64)> {
        turns.order(waiting(list)).into_iter().map(|pick| pick.item).collect()
    }

    #[test]
    fn the_higher_priority_goes_first_and_then_the_earlier_ready_time() {
        assert_eq!(
            taken(LaneTurns::default(), &[(0, 5), (-1, 1), (3, 9), (0, 2)]),
            [(3, 9), (0, 2), (0, 5), (-1, 1)]
        );
    }

    #[test]
    fn each_tenth_pick_is_the_run_with_the_earliest_ready_time() {
        let mut list: Vec<(i8, i64)> = (0..25).map(|at| (5, 100 + at)).collect();
        list.extend([(0, 1), (-10, 2), (9, 999)]);
        let order = taken(LaneTurns::default(), &list);
        assert_eq!((order[0], order[9], order[19]), ((9, 999), (0, 1), (-10, 2)));
        let mut turns = LaneTurns::default();
        turns.note(&[false; 9], 9);
        assert_eq!(taken(turns, &list)[0], (0, 1), "the count is kept from poll to poll");
    }

    proptest! {
        /// Tests that a run starts in time if `older` runs became ready before it. All of these
        /// runs have a lower priority than the runs that keep arriving.
        #[test]
        fn a_run_starts_after_ten_claims_for_each_that_was_ready_before_it_and_for_itself(
            older in 0usize..6, slots in prop::collection::vec(1usize..9, 1..80), lost in prop::collection::vec(any::<bool>(), 40),
        ) {
            let mut left: Vec<(i8, i64)> = (0..=older).map(|at| (-10, i64::try_from(at).unwrap())).collect();
            let (last, mut turns, mut claims, mut clock) = (left[older], LaneTurns::default(), 0, 1_000);
            let mut lost = lost.into_iter().cycle();
            for slots in slots.into_iter().cycle() {
                // More runs of the highest priority become ready than this node can claim.
                left.extend((0..slots).map(|_| { clock += 1; (10, clock) }));
                let mut picks = turns.order(waiting(&left));
                picks.truncate(slots);
                let mut started = 0;
                for pick in &picks {
                    left.retain(|run| *run != pick.item);
                    // Another node may have claimed the run first.
                    started += usize::from(pick.is_oldest || !lost.next().unwrap());
                }
                turns.note(&picks.iter().map(|pick| pick.is_oldest).collect::<Vec<_>>(), started);
                claims += started;
                if !left.contains(&last) { break; }
            }
            prop_assert!(claims <= OLDEST_EVERY * (older + 1) + 8, "{claims} claims, {older} older");
        }
    }
}
