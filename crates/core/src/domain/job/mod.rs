//! A job: its action, its rules and its notifications.

pub mod action;
pub mod audit_entry;
pub mod definition_text;
pub mod env_file;
pub mod job_spec;
pub mod node_choice;
pub mod notice;
pub mod ping;
pub mod process_limits;
pub mod process_rules;
pub mod secret_headers;
pub mod secret_reference;
pub mod unique_rule;
pub mod webhook;
