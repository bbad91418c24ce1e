//! The stored form of a job, and what is made of it.

pub(crate) mod canonical_job;
pub(crate) mod difference;
pub(crate) mod file_export;
pub(crate) mod json_job;
pub(crate) mod node_json;
