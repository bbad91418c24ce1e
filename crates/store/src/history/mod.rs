//! Ended runs in Redis: history, ledger, output and retention.

pub(crate) mod history_ledger;
pub(crate) mod known_runs;
pub(crate) mod output_index;
pub(crate) mod outputs;
pub(crate) mod retention;
pub(crate) mod run_history;
pub(crate) mod run_record;
pub(crate) mod run_wait;
pub(crate) mod skipped_ranges;
