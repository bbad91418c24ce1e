//! Chains: the parents of jobs, the ends that wait for children, and the occurrences that wait for
//! parents.

pub(super) mod chain_ends;
pub(super) mod chain_links;
