//! A whole jobs file: where it is, its sections, and what it shares.

pub(crate) mod account_here;
pub(crate) mod compile_file;
pub(crate) mod compile_pools;
pub(crate) mod config_file;
pub(crate) mod file_place;
pub(crate) mod kept_amounts;
pub(crate) mod node_serving;
pub(crate) mod queue_change;
pub(crate) mod secret_exposure;
pub(crate) mod sections;
