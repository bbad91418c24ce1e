//! Runs: their states, their retries, and the node events that may keep runs from starting.

pub mod node_event;
pub mod retry;
pub mod run_state;
