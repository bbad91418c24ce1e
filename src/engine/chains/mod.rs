//! Chains: gives the ends of runs to the children of their jobs, and checks new parents.

pub mod chain_check;
pub(crate) mod chain_planter;
