//! The data that `doctor` reads and repairs: indexes, the facts of jobs and runs, and the
//! quarantine.

pub(crate) mod check_turn;
pub(crate) mod indexes;
pub(crate) mod inspection;
pub(crate) mod quarantine;
pub(crate) mod quarantine_discard;
pub(crate) mod quarantine_return;
pub(crate) mod repair_calls;
pub(crate) mod server_checkup;
