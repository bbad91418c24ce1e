//! Names of jobs, nodes, queues and files, sizes and tags.

pub mod byte_size;
pub mod job_source;
pub mod name_pattern;
pub mod names;
pub mod redis_url_text;
pub mod tag_filter;
