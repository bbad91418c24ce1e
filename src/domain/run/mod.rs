//! A run: its state, its id and its retries.

pub mod node_event;
pub mod retry;
pub mod run_id;
pub mod run_state;
