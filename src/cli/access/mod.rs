//! Access to the HTTP API: `token` and `dashboard`.

pub(crate) mod dashboard_verb;
mod token_place;
pub(crate) mod token_verb;
