//! The shared tools of the tests: private servers, daemons and waiting for facts.
//!
//! Invariant: whatever a test starts through these tools is ended and awaited when its handle is
//! dropped.
//! That also holds when the test fails. Tests share nothing.

pub(crate) mod attempt;
pub(crate) mod cases;
pub(crate) mod ctl;
pub(crate) mod daemon;
pub(crate) mod effects;
pub(crate) mod eye;
pub(crate) mod facts;
pub(crate) mod host;
pub(crate) mod node_log;
pub(crate) mod redis;
pub(crate) mod replica;
pub(crate) mod script;
pub(crate) mod scripted_node;
pub(crate) mod snapshot;
pub(crate) mod wait;
