//! Schedules of jobs, and the occurrences that the schedules yield.

pub mod calendar;
pub mod chain;
pub mod clock_changes;
pub mod clock_notes;
pub mod cron;
pub mod day_sets;
pub mod describe;
pub mod lateness;
pub mod left_out;
pub mod nested_ranges;
pub mod recurrence;
pub mod schedule_form;
pub mod schedule_modifiers;
pub mod schedule_version;
pub mod timetable;
