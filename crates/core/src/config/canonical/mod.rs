//! The canonical form of a job that Redis stores, its differences, and its export to a file.

pub(crate) mod canonical_job;
pub(crate) mod difference;
pub(crate) mod file_export;
pub(crate) mod first_gate;
pub(crate) mod json_job;
pub(crate) mod node_json;
pub(crate) mod stored_job;
