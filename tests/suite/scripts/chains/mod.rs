//! Chains: the ends of parents are given to children, also while their parents are edited.

mod chain_edits;
pub(crate) mod chaining;
