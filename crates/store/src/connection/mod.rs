//! The connection to Redis: its address, the search for the primary, the checks of a server, and the
//! rights that a connection needs.

pub(crate) mod address;
pub(crate) mod least_rights;
mod messages;
pub(crate) mod preflight;
pub(crate) mod primary_search;
pub(crate) mod redis_link;
pub(crate) mod refusal;
pub(crate) mod replica_wait;
mod script_calls;
mod sentinel_news;
mod slot_move;
