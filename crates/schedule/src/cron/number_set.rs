//! A set of small numbers as bits. An insertion takes constant time, so even a long list of numbers
//! is fast to parse.

use super::search_work;

/// A set of numbers from 0 to 191.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Set([u64; 3]);

impl Set {
    pub(super) fn insert(&mut self, value: u16) {
        search_work::step();
        if let Some(word) = self.0.get_mut(usize::from(value / 64)) {
            *word |= 1 << (value % 64);
        }
    }

    pub(super) fn has(&self, value: u16) -> bool {
        self.0.get(usize::from(value / 64)).is_some_and(|word| word >> (value % 64) & 1 == 1)
    }

    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the numbers of the set in rising order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..192).filter(|value| self.has(*value))
    }
}
