//! Dispatch, from the poll to the claim: finds due runs, decides which of these runs this node may
//! start, and claims them.

pub(crate) mod abandoned_claims;
pub(crate) mod claimer;
pub(crate) mod definition;
pub(crate) mod definitions;
pub(crate) mod dispatcher;
pub(crate) mod due_entry;
pub(crate) mod gatekeeper;
pub(crate) mod lane_pages;
pub(crate) mod lane_search;
pub(crate) mod node_limits;
pub(crate) mod node_slots;
pub(crate) mod nudges;
pub mod orphans;
pub(crate) mod slots;
pub(crate) mod ticker;
