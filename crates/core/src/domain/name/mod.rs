//! Sources of jobs, patterns of names, sizes, tags and addresses of Redis.

pub mod byte_size;
pub mod job_source;
pub mod name_pattern;
pub mod redis_url_text;
pub mod tag_filter;
