//! schedd: delayed and cron jobs on Redis, each due run done once although hosts die.

pub mod config;
pub mod daemon;
pub mod domain;
pub mod engine;
pub mod executor;
pub mod keeper;
pub mod store;
