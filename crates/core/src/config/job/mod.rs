//! The keys of a job: their declarations, the compilers of their values, and the compiler of a whole
//! table.

pub(crate) mod compile_action;
pub(crate) mod compile_done_check;
pub(crate) mod compile_env;
pub(crate) mod compile_gates;
pub(crate) mod compile_http;
pub(crate) mod compile_job;
pub(crate) mod compile_lane;
pub(crate) mod compile_notices;
pub(crate) mod compile_overlap;
pub(crate) mod compile_process;
pub(crate) mod compile_retry;
pub(crate) mod compile_unique;
pub(crate) mod job_keys;
pub(crate) mod job_rules;
