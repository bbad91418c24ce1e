//! Ranges of time that may contain each other. The module finds the narrowest range around an
//! instant, and sums counts within each range.
//!
//! Invariant: the cost is n log n for n ranges, even if all ranges overlap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::unix_millis::UnixMillis;

/// The first and the last instant of a range.
pub type Ends = (UnixMillis, UnixMillis);

/// Returns, for each of `points`, the index of the narrowest range that contains the point, or
/// `None`. If two ranges are equally narrow, the lower index wins. `points` must be sorted.
pub fn narrowest_at(
    ranges: &[Ends],
    points: impl IntoIterator<Item = UnixMillis>,
) -> Vec<Option<usize>> {
    let mut by_begin: Vec<usize> = (0..ranges.len()).collect();
    by_begin.sort_by_key(|place| ranges[*place].0);
    let mut to_begin = by_begin.into_iter().peekable();
    let mut begun = BinaryHeap::new();
    let at = |point: UnixMillis| {
        while let Some(place) = to_begin.next_if(|place| ranges[*place].0 <= point) {
            let (from, to) = ranges[place];
            begun.push(Reverse((to.since(from), place)));
        }
        // The points are sorted, so a range that ended before this point contains no later point.
        while begun.peek().is_some_and(|Reverse((_, place))| ranges[*place].1 < point) {
            begun.pop();
        }
        begun.peek().map(|Reverse((_, place))| *place)
    };
    points.into_iter().map(at).collect()
}

/// Returns, for each range, the sum of the `counts` of all ranges within it. `counts` has a number
/// for each range. The sum includes the count of the range itself.
pub fn sums_within(ranges: &[Ends], counts: &[u64]) -> Vec<u64> {
    let mut begins: Vec<UnixMillis> = ranges.iter().map(|(from, _)| *from).collect();
    begins.sort_unstable();
    begins.dedup();
    // A range that begins earlier has a higher rank. So the sum up to the rank of a range covers
    // all ranges that begin at the same time or later.
    let rank = |from: UnixMillis| begins.len() - begins.partition_point(|begin| *begin < from);
    let mut by_end: Vec<usize> = (0..ranges.len()).collect();
    by_end.sort_by_key(|place| ranges[*place].1);
    let (mut sums, mut within) = (Sums(vec![0; begins.len()]), vec![0; ranges.len()]);
    for alike in by_end.chunk_by(|a, b| ranges[*a].1 == ranges[*b].1) {
        for place in alike {
            sums.add(rank(ranges[*place].0), counts[*place]);
        }
        for place in alike {
            within[*place] = sums.up_to(rank(ranges[*place].0));
        }
    }
    within
}

/// A Fenwick tree: the sums of the counts from rank 1 up to any rank.
struct Sums(Vec<u64>);

impl Sums {
    fn add(&mut self, mut rank: usize, count: u64) {
        while let Some(sum) = self.0.get_mut(rank.wrapping_sub(1)) {
            *sum = sum.saturating_add(count);
            rank += rank & rank.wrapping_neg();
        }
    }

    fn up_to(&self, mut rank: usize) -> u64 {
        let mut sum = 0_u64;
        while let Some(part) = self.0.get(rank.wrapping_sub(1)) {
            sum = sum.saturating_add(*part);
            rank -= rank & rank.wrapping_neg();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: i64) -> UnixMillis {
        UnixMillis::new(millis).unwrap()
    }

    proptest! {
        #[test]
        fn they_are_what_looking_at_each_pair_reports(
            ranges in prop::collection::vec((0..40_i64, 0..20_i64, 0..9_u64), 0..30),
            points in prop::collection::btree_set(0..70_i64, 0..30),
        ) {
            let ends: Vec<Ends> = ranges.iter().map(|(from, long, _)| (at(*from), at(from + long))).collect();
            let counts: Vec<u64> = ranges.iter().map(|(.., count)| *count).collect();
            let points: Vec<UnixMillis> = points.into_iter().map(at).collect();
            let narrowest = |point: &UnixMillis| {
                let holding = ends.iter().enumerate().filter(|(_, (from, to))| from <= point && point <= to);
                holding.min_by_key(|(_, (from, to))| to.since(*from)).map(|(place, _)| place)
            };
            let wanted: Vec<Option<usize>> = points.iter().map(narrowest).collect();
            prop_assert_eq!(narrowest_at(&ends, points), wanted);
            let within = |range: &Ends| {
                let inner = ends.iter().zip(&counts).filter(|((from, to), _)| range.0 <= *from && *to <= range.1);
                inner.map(|(_, count)| *count).sum::<u64>()
            };
            prop_assert_eq!(sums_within(&ends, &counts), ends.iter().map(within).collect::<Vec<_>>());
        }
    }
}
