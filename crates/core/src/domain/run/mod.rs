//! Runs: their states, their notes, their progress, their retries, the resources they use, the traces they belong to, and the node events that may keep runs from starting.

pub mod end_words;
pub mod excerpt;
pub mod node_event;
pub mod resource_use;
pub mod retry;
pub mod run_note;
pub mod run_progress;
pub mod run_state;
pub mod trace_context;
