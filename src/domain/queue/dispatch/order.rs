//! The order in which a node takes the due runs of a queue: by priority, then by how long the runs
//! have been ready.
//!
//! Invariant: among any ten runs that a node starts from a queue, at least one was ready longest,
//! whatever its priority. So a run with n runs ready before it starts after at most 10 * (n + 1)
//! claims. No run starves, however many runs of higher priority arrive.

use std::collections::VecDeque;

use crate::domain::queue::lane::Priority;

/// The interval of picks by age: every 10th slot of a queue goes to the run that has been ready
/// longest. These picks prevent starvation by priority.
pub const OLDEST_EVERY: usize = 10;

/// A due run that waits for a node, with the values that decide its place in the order.
#[derive(Debug, Clone)]
pub struct WaitingRun<T> {
    /// The priority of the run.
    pub priority: Priority,
    /// The time from which the run is ready, in ms.
    pub ready: i64,
    /// The caller's value for the run, such as its id.
    pub item: T,
}

/// A due run at its place in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick<T> {
    /// The caller's value for the run, such as its id.
    pub item: T,
    /// True if the run was picked because it has been ready longest, without regard to priority.
    pub is_oldest: bool,
}

/// The count by which the order of a queue knows when to pick a run by age. The count is kept
/// between two polls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneTurns {
    /// The number of runs started since the last run that was picked for its age.
    since_oldest: usize,
}

impl LaneTurns {
    /// Returns the runs `waiting` in the order in which a node should take them. Equal runs stay in
    /// the given order.
    pub fn order<T>(&self, waiting: Vec<WaitingRun<T>>) -> Vec<Pick<T>> {
        let mut by_age: VecDeque<usize> = (0..waiting.len()).collect();
        by_age.make_contiguous().sort_by_key(|at| (waiting[*at].ready, *at));
        let mut by_rank = by_age.clone();
        // The sort is stable, so runs of the same priority stay in order of age.
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

    /// Records that a node tried to claim runs in this order, and that `started` of them started.
    /// `tried` has true for each run that was picked for its age.
    ///
    /// After a pick for age, runs that another node claimed first count as well. The next pick for
    /// age thus comes sooner, never later.
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
    fn the_greater_priority_goes_first_and_among_equals_what_has_been_ready_longer() {
        assert_eq!(
            taken(LaneTurns::default(), &[(0, 5), (-1, 1), (3, 9), (0, 2)]),
            [(3, 9), (0, 2), (0, 5), (-1, 1)]
        );
    }

    #[test]
    fn each_tenth_turn_is_for_what_has_been_ready_longest() {
        let mut list: Vec<(i8, i64)> = (0..25).map(|at| (5, 100 + at)).collect();
        list.extend([(0, 1), (-10, 2), (9, 999)]);
        let order = taken(LaneTurns::default(), &list);
        assert_eq!((order[0], order[9], order[19]), ((9, 999), (0, 1), (-10, 2)));
        let mut turns = LaneTurns::default();
        turns.note(&[false; 9], 9);
        assert_eq!(taken(turns, &list)[0], (0, 1), "the turn is not forgotten between two looks");
    }

    proptest! {
        /// Tests a run that waits behind `older` runs that were ready before it. All of these runs
        /// have lower priority than the runs that keep arriving.
        #[test]
        fn a_run_starts_after_ten_claims_for_each_that_was_ready_before_it_and_for_itself(
            older in 0usize..6, slots in prop::collection::vec(1usize..9, 1..80), lost in prop::collection::vec(any::<bool>(), 40),
        ) {
            let mut left: Vec<(i8, i64)> = (0..=older).map(|at| (-10, i64::try_from(at).unwrap())).collect();
            let (last, mut turns, mut claims, mut clock) = (left[older], LaneTurns::default(), 0, 1_000);
            let mut lost = lost.into_iter().cycle();
            for slots in slots.into_iter().cycle() {
                // More runs of the highest priority are due than this node can ever take.
                left.extend((0..slots).map(|_| { clock += 1; (10, clock) }));
                let mut picks = turns.order(waiting(&left));
                picks.truncate(slots);
                let mut started = 0;
                for pick in &picks {
                    left.retain(|run| *run != pick.item);
                    // Another node was faster: the run is gone, but this node made no claim.
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
