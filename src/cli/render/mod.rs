//! Output: text for people, JSON for programs.
//!
//! Invariant: each line stays one line, and no name or text of a job can control a terminal.
//! Control characters are escaped.

mod attempts;
mod change;
mod console;
mod definition;
mod escape;
mod job_view;
mod lane;
mod outcomes;
mod run_view;
mod table;
mod telling_lines;
mod times;

pub(super) use attempts::{attempts_json, attempts_table};
pub(super) use change::key_change;
pub(super) use console::{Colour, Console, JsonArray};
pub(super) use definition::{action_line, day_rules, effective, policy_lines};
pub(super) use escape::{one_line, safe_text};
pub(super) use job_view::{JobView, paused_queue_words, running_jobs, view_jobs, zone_of_job};
pub(super) use lane::{labels_json, queue_words};
pub(super) use outcomes::Outcomes;
pub(super) use run_view::{RunTable, RunView, Zones, facts_in_words, view_runs};
pub(super) use table::{Cell, Table};
pub(super) use times::{Detail, Relative, rfc3339, shown, shown_in, span};
