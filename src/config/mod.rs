//! Layer 2: turns the text of `jobs.toml`, a JSON line or flags into checked values, or lists every
//! problem at once.
//!
//! One tree (`node`) and one compiler (`compile_*`) serve all three, and also the definitions
//! stored in Redis (`surface`). So a key means the same wherever it is written. No unchecked value
//! leaves this folder, and all faults of a text are reported together. [`read_file`],
//! [`read_redis`] and [`compile_text`] are for files. [`job_from_json`] and [`job_from_value`] are
//! for `schedctl add`.

mod account_here;
mod compile_action;
mod compile_calendars;
mod compile_clock_changes;
mod compile_done_check;
mod compile_env;
mod compile_file;
mod compile_gates;
mod compile_http;
mod compile_job;
mod compile_lane;
mod compile_notices;
mod compile_pools;
mod compile_process;
mod compile_references;
mod compile_retry;
mod compile_schedule;
mod compile_shape;
mod compile_unique;
mod config_error;
mod config_file;
mod difference;
mod export;
mod exposure;
mod file_place;
mod first_gate;
mod ics;
mod instant;
mod json_job;
mod keeping;
mod keys;
mod node;
mod node_json;
mod policies;
mod problem;
mod queue_change;
mod reader;
mod secrecy;
mod sections;
mod serving;
mod slips;
mod surface;

pub use account_here::account_lack;
pub use compile_file::compile_text;
pub use compile_schedule::start_of_rule;
pub use config_error::{ConfigError, Rendering};
pub use config_file::{MAX_FILE_BYTES, RedisInFile, read_file, read_redis};
pub use difference::{KeyChange, differences};
pub use export::{TableForm, file_keys, group_keys, group_table, job_table, queue_keys, queue_table};
pub use file_place::FilePlace;
pub use first_gate::first_gate_in;
pub use ics::{IcsError, read as read_ics};
pub use json_job::{MAX_JSON_BYTES, NamedJob, job_from_json, job_from_value};
pub use keeping::{HistoryConfig, OutputConfig};
pub use problem::{Problem, nearest};
pub use queue_change::change_queue;
pub use sections::{Config, DaemonConfig, RedisConfig, has_password};
pub use serving::{FlowLimits, ServingConfig};
pub use surface::{SurfaceError, from_surface, hash, to_surface};

#[cfg(test)]
mod tests;
