//! The verbs for dead letters, which are runs that ended `failed`, `timed_out` or `lost`: `retry`
//! and `purge`.
//!
//! Invariant: a command does nothing unless a run or `--dead` is given. All selected runs are read
//! before the first run is changed, so changes do not affect the selection.

mod dead_letters;
mod purge_verb;
mod retry_verb;

pub(crate) use purge_verb::{PurgeArgs, purge};
pub(crate) use retry_verb::{RetryArgs, retry};
