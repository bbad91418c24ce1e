//! The choice of the queue that gets the next free slot of a node: strict queues first, then other
//! queues by weight. The choice has an effect only if the due runs need more slots than
//! `max_running` allows.
//!
//! The algorithm is smooth weighted round robin: with weights 3 and 1 the order is `a a b a`, never
//! `a a a b`. The number of slots that a queue gets differs from the queue's share by at most the
//! number of queues. A queue without due runs gets no slots, and gets no extra slots later.

use std::collections::BTreeMap;

use crate::domain::queue::queue_rules::Share;
use schedd_schedule::names::QueueName;

/// The number of slots that a queue needs on a node, and the share of the queue.
#[derive(Debug, Clone)]
pub struct Demand {
    /// The queue that needs slots.
    pub queue: QueueName,
    /// The number of due runs of the queue, each of which needs a slot.
    pub wants: usize,
    /// The share of the node's slots that the queue gets.
    pub share: Share,
}

/// The state of the round robin between queues, which a node keeps from poll to poll.
#[derive(Debug, Clone, Default)]
pub struct Shares {
    credit: BTreeMap<QueueName, i64>,
    /// The slots granted last: the queue that got each, and the weights of the queues that competed.
    turns: Vec<(QueueName, Vec<(QueueName, i64)>)>,
}

impl Shares {
    /// Returns the number of slots for each queue, in the order of `demands`. The sum is at most
    /// `capacity`. If `capacity` is large enough, each queue gets as many slots as it needs.
    pub fn grant(&mut self, capacity: usize, demands: &[Demand]) -> Vec<usize> {
        self.turns.clear();
        if demands.iter().map(|demand| demand.wants).sum::<usize>() <= capacity {
            return demands.iter().map(|demand| demand.wants).collect();
        }
        self.credit.retain(|queue, _| {
            demands.iter().any(|demand| demand.queue == *queue && demand.wants > 0)
        });
        let mut grants = vec![0; demands.len()];
        for _ in 0..capacity {
            let asks = |at: &usize| grants[*at] < demands[*at].wants;
            let open: Vec<usize> = (0..demands.len()).filter(asks).collect();
            let strict: Vec<usize> =
                open.iter().copied().filter(|at| demands[*at].share == Share::Strict).collect();
            // Strict queues share the slots evenly.
            let Some(next) = self.turn(if strict.is_empty() { &open } else { &strict }, demands)
            else {
                break;
            };
            grants[next] += 1;
        }
        grants
    }

    /// Takes back the last `count` slots that were granted to `queue`, because the node has fewer free
    /// slots than it had at the grant. The queue gets them later.
    pub fn take_back(&mut self, queue: &QueueName, count: usize) {
        for _ in 0..count {
            let Some(at) = self.turns.iter().rposition(|(next, _)| next == queue) else { return };
            for (other, weight) in self.turns.remove(at).1 {
                *self.credit.entry(queue.clone()).or_default() += weight;
                *self.credit.entry(other).or_default() -= weight;
            }
        }
    }

    fn turn(&mut self, open: &[usize], demands: &[Demand]) -> Option<usize> {
        let (mut total, mut weights) = (0, Vec::new());
        for at in open {
            let weight = match demands[*at].share {
                Share::Strict => 1,
                Share::Weight(weight) => i64::from(weight),
            };
            total += weight;
            weights.push((demands[*at].queue.clone(), weight));
            *self.credit.entry(demands[*at].queue.clone()).or_default() += weight;
        }
        let credit = |at: &usize| self.credit.get(&demands[*at].queue).copied().unwrap_or(0);
        let next = open.iter().copied().max_by_key(|at| (credit(at), std::cmp::Reverse(*at)))?;
        *self.credit.entry(demands[next].queue.clone()).or_default() -= total;
        self.turns.push((demands[next].queue.clone(), weights));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn demand(queue: &str, wants: usize, weight: Option<u32>) -> Demand {
        Demand {
            queue: queue.parse().unwrap(),
            wants,
            share: weight.map_or(Share::Strict, Share::Weight),
        }
    }

    #[test]
    fn with_enough_slots_each_queue_gets_all_it_needs() {
        assert_eq!(
            Shares::default().grant(9, &[demand("a", 4, Some(1)), demand("b", 5, None)]),
            [4, 5]
        );
    }

    #[test]
    fn strict_queues_come_first_and_share_evenly_among_themselves() {
        let demands = [demand("a", 9, Some(1000)), demand("b", 2, None), demand("c", 2, None)];
        assert_eq!(Shares::default().grant(3, &demands), [0, 2, 1]);
        assert_eq!(Shares::default().grant(6, &demands), [2, 2, 2]);
    }

    #[test]
    fn single_slots_alternate_between_queues_by_weight() {
        let mut shares = Shares::default();
        let demands = [demand("a", 9, Some(3)), demand("b", 9, Some(1))];
        let turns: Vec<usize> = (0..8)
            .map(|_| shares.grant(1, &demands).iter().position(|got| *got == 1).unwrap())
            .collect();
        assert_eq!(turns, [0, 0, 1, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn queues_keep_their_shares_if_each_round_finds_fewer_slots_than_were_granted() {
        let mut shares = Shares::default();
        let demands = [demand("a", 9, Some(3)), demand("b", 9, Some(1))];
        let mut got = [0, 0];
        for _ in 0..40 {
            let grants = shares.grant(3, &demands);
            // Only one slot is free, and the first queue with a grant takes it.
            let first = grants.iter().position(|grant| *grant > 0).unwrap();
            got[first] += 1;
            for (at, grant) in grants.into_iter().enumerate() {
                shares.take_back(&demands[at].queue, grant - usize::from(at == first));
            }
        }
        assert!((28..=32).contains(&got[0]), "{got:?}");
    }

    proptest! {
        #[test]
        fn each_queue_gets_its_share_to_within_a_slot_for_each_queue(
            weights in prop::collection::vec(1u32..=1000, 2..6), capacities in prop::collection::vec(1usize..5, 1..60),
        ) {
            let mut shares = Shares::default();
            let demands: Vec<Demand> =
                weights.iter().enumerate().map(|(at, weight)| demand(&format!("q{at}"), 1_000, Some(*weight))).collect();
            let total = f64::from(weights.iter().sum::<u32>());
            let (mut got, mut given) = (vec![0usize; weights.len()], 0usize);
            for capacity in capacities {
                for (sum, grant) in got.iter_mut().zip(shares.grant(capacity, &demands)) { *sum += grant; }
                given += capacity;
                for (sum, weight) in got.iter().zip(&weights) {
                    #[expect(clippy::cast_precision_loss, reason = "small counts")]
                    let (off, most) = (*sum as f64 - given as f64 * f64::from(*weight) / total, weights.len() as f64);
                    prop_assert!(off.abs() <= most, "{got:?} of {given} by {weights:?}");
                }
            }
        }
    }
}
