//! Chains: gives the ends of runs to the children of their jobs, checks new parents, and keeps the
//! data of chains in order.

pub mod chain_check;
pub(crate) mod chain_planter;
pub mod chain_upkeep;
