//! The processes of a run: start, watch, signals, end.

pub(crate) mod attendance;
pub(crate) mod child_setup;
pub(crate) mod environment_text;
pub(crate) mod process_start;
pub(crate) mod process_table;
pub(crate) mod process_tree;
pub(crate) mod program_file;
pub(crate) mod reaping;
pub(crate) mod spawn;
pub(crate) mod start_progress;
