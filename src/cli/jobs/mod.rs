//! The verbs about jobs: show, check, describe, export, graph, pause and resume.

pub(crate) mod check;
pub(crate) mod describe_verb;
pub(crate) mod export_verb;
pub(crate) mod graph_verb;
pub(crate) mod instance_names;
pub(crate) mod job_use;
mod labelled_line;
mod notice_lines;
pub(crate) mod pause_resume;
pub(crate) mod run_name;
pub(crate) mod show;
mod show_job;
mod show_run;
pub(crate) mod target;
