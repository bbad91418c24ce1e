//! The messages between a node and its keeper, and both ends.

pub(crate) mod keeper_handle;
pub(crate) mod keeper_link;
pub(crate) mod keeper_messages;
pub(crate) mod keeper_process;
pub(crate) mod outbox;
pub(crate) mod supervisor;
pub(crate) mod wire;
