//! The explanations of runs on real nodes.

pub(crate) mod explaining;
pub(crate) mod explaining_clocks;
pub(crate) mod explaining_kept;
pub(crate) mod explaining_late;
pub(crate) mod explaining_lost;
pub(crate) mod explaining_skipped;
