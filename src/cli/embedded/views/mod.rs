//! Views of the whole namespace for pages: what needs attention, and what runs when.
//!
//! Each view reads a bounded number of jobs and runs, whatever the size of the namespace, and says
//! where it was cut.

mod coming_starts;
mod job_audit_log;
mod namespace_view;
mod timeline_runs;

pub(crate) use coming_starts::{ComingStarts, StartFilter, StartSpan, read_coming};
pub(crate) use job_audit_log::job_audit_log;
pub(crate) use namespace_view::{NamespaceView, read_namespace};
pub(crate) use timeline_runs::{TimelineRun, TimelineRuns, last_durations, read_past_runs};
