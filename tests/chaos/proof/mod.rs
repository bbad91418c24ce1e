//! The ways to run the test: plain, with mutants, for hours, with another clock.

pub(crate) mod mutants;
pub(crate) mod play;
pub(crate) mod redis_clock;
pub(crate) mod report;
pub(crate) mod soak;
pub(crate) mod trial;
