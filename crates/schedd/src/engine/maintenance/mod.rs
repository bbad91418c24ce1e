//! Maintenance: retention, expired leases, presence, consistency checks and repairs.

pub mod background_check;
pub(crate) mod backlog_watch;
pub mod consistency_check;
pub(crate) mod count_check;
pub mod full_check;
pub(crate) mod janitor;
pub(crate) mod ledger_view;
pub(crate) mod presence;
pub(crate) mod reaper;
pub mod repair;
pub(crate) mod retained_bounds;
