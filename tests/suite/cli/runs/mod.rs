//! The verbs about runs.

pub(crate) mod backfilling;
pub(crate) mod cancelling;
pub(crate) mod dead;
pub(crate) mod dead_filters;
pub(crate) mod following;
pub(crate) mod naming;
pub(crate) mod played;
pub(crate) mod rerunning;
pub(crate) mod resources;
pub(crate) mod running;
