//! The output of verbs: text for users, JSON for programs.
//!
//! Invariant: each printed line stays one line, and no name or text of a job can control a
//! terminal. Control characters are escaped.

mod action_line;
mod attempts;
mod console;
mod definition_lines;
mod escape;
mod job_view;
mod key_change;
mod lane_words;
mod notification_lines;
mod outcomes;
mod resource_lines;
mod run_view;
mod table;
mod time_words;

pub(crate) use action_line::action_line;
pub(crate) use attempts::{attempts_json, attempts_table, facts_in_words, waited};
pub(crate) use console::{Colour, Console, JsonArray};
pub(crate) use definition_lines::{day_rules, default_keys, effective, policy_lines};
pub(crate) use escape::{one_line, safe_text};
pub(crate) use job_view::{
    JobState, JobView, paused_queue_words, running_jobs, view_jobs, view_placed_jobs, zone_of_job,
};
pub(crate) use key_change::key_change;
pub(crate) use lane_words::{labels_json, queue_words};
pub(crate) use outcomes::Outcomes;
pub(crate) use resource_lines::{percentile, resource_words, size_words, spread_json};
pub(crate) use run_view::{RunTable, RunView, Zones, view_placed_runs, view_runs};
pub(crate) use table::{Cell, Table};
pub(crate) use time_words::{Detail, Relative, rfc3339, shown, shown_elsewhere, shown_in, span};
