//! The verbs about runs: run, rerun, backfill, cancel and history.

pub(crate) mod backfill;
pub(crate) mod cancel;
pub(crate) mod history_verb;
pub(crate) mod id_part;
pub(crate) mod open_runs;
pub(crate) mod past_time;
pub(crate) mod rerun;
pub(crate) mod run_filter;
pub(crate) mod run_poller;
pub(crate) mod run_verb;
pub(crate) mod short_ids;
pub(crate) mod tagged_jobs;
