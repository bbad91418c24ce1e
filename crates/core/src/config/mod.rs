//! The compiler of job definitions and settings (layer 2 of the layers in `src/lib.rs`). The
//! compiler turns the text of `jobs.toml`, a line of JSON or flags into checked values, or reports
//! every problem of the text at once.
//!
//! Files, JSON, flags and the definitions stored in Redis (`canonical`) use the same tree
//! (`text_node`) and the same declaration of each key (`job_keys`). So a key means the same in each
//! of these sources. Only checked values leave this folder.
//!
//! A job has four forms: the keys of a text, a [`JobSpec`](crate::domain::job::job_spec::JobSpec),
//! canonical JSON, and the record in Redis. A text is compiled once, when schedd reads the text.
//! [`from_canonical`] reads canonical JSON from Redis and needs neither `[defaults]` nor data of
//! the host such as its zone.
//!
//! [`read_file`], [`read_redis`] and [`compile_text`] read a jobs file. [`job_from_json`] and
//! [`job_from_value`] read a job for `schedctl add`.

mod canonical;
mod file;
mod job;
mod key;
mod key_tables;
mod schedule;
mod syntax;

pub use canonical::canonical_job::{CanonicalError, effective, from_canonical, to_canonical};
pub use canonical::difference::{KeyChange, differences};
pub use canonical::file_export::{
    TableForm, file_keys, group_keys, group_table, has_null, job_table, queue_keys, queue_table,
    toml_string,
};
pub use canonical::first_gate::first_gate_in;
pub use canonical::json_job::{
    MAX_JSON_BYTES, NamedJob, check_keys, job_from_json, job_from_value,
};
pub use canonical::node_json::json_fault;
pub use canonical::stored_job::StoredJob;
pub use file::account_here::account_lack;
pub use file::api_section::{AddressRange, ApiAddress, ApiConfig};
pub use file::compile_file::{compile_sent_text, compile_text};
pub use file::config_file::{MAX_FILE_BYTES, RedisInFile, read_file, read_redis};
pub use file::file_place::FilePlace;
pub use file::kept_amounts::{HistoryConfig, OutputConfig};
pub use file::metrics_section::{MOST_METRIC_JOBS, MetricsConfig};
pub use file::node_serving::{FlowLimits, ServingConfig};
pub use file::queue_change::change_queue;
pub use file::redis_section::{RedisConfig, has_password, with_parameters};
pub use file::sections::{Config, DaemonConfig};
pub use key::file_host::calendars_of;
pub use key_tables::{job_keys, other_keys};
pub use schedule::compile_schedule::start_of_rule;
pub use schedule::ics::{IcsError, read as read_ics};
pub use syntax::config_error::{ConfigError, Rendering};
pub use syntax::problem::{Problem, nearest};

#[cfg(test)]
mod tests;
