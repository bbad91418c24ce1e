//! The facts that a node knows about itself: events, outages, suspensions, and Redis' clock.

pub(crate) mod applied_file;
pub(crate) mod config_problems;
pub(crate) mod event_notes;
pub(crate) mod loop_watchdog;
pub(crate) mod node_counters;
pub(crate) mod node_figures;
pub(crate) mod node_health;
pub(crate) mod node_status;
pub(crate) mod note_writer;
pub(crate) mod outage_log;
pub(crate) mod redis_clock;
pub(crate) mod suspend_detector;
