//! Queues, lanes and groups in Redis: their declared sections, their settings, and their counts of
//! runs.

pub(crate) mod backlog_marks;
pub(crate) mod counters;
pub(crate) mod declared_sections;
pub(crate) mod lane_index;
pub(crate) mod namespace_counts;
pub(crate) mod queue_settings;
pub(crate) mod section_fields;
pub(crate) mod stats;
