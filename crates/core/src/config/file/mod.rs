//! The compilers of a whole `jobs.toml`: where the file is found, its sections such as `[daemon]`,
//! and the queues and groups that its jobs share.

pub(crate) mod account_here;
pub(crate) mod api_section;
pub(crate) mod compile_file;
pub(crate) mod compile_pools;
pub(crate) mod config_file;
pub(crate) mod file_place;
pub(crate) mod kept_amounts;
pub(crate) mod metrics_section;
pub(crate) mod named_tables;
pub(crate) mod node_serving;
pub(crate) mod queue_change;
pub(crate) mod redis_section;
pub(crate) mod secret_exposure;
pub(crate) mod sections;
