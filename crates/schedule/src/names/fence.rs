//! The fence: a number that shows which of two holders of a lease is the later.

use std::fmt;

/// The fence of a lease: a number that only grows, below 2^53. Lua and JSON represent it exactly.
/// The holder with the higher fence is the later holder. Redis compares fences, and a system that a
/// job writes to may compare fences too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The largest fence: 2^53 - 1.
    pub const MAX: u64 = (1 << 53) - 1;

    /// Returns the fence with this number, or `None` if the number is past [`Fence::MAX`].
    pub fn new(number: u64) -> Option<Self> {
        (number <= Self::MAX).then_some(Self(number))
    }

    /// Returns the fence as a number.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
