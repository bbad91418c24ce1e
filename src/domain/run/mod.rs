//! A run: its state, its retries, and the node events that may keep a run from starting.

pub mod node_event;
pub mod retry;
pub mod run_state;
