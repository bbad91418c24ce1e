//! Schedules of jobs, and the occurrences that the schedules yield (layer 1). The crate is pure: no
//! async, no I/O, no clock. Every rule here is a function of its arguments. The only outside input
//! is the time zone data of the system.

pub mod calendar;
pub mod chain;
pub mod clock_changes;
pub mod clock_notes;
pub mod cron;
pub mod day_sets;
pub mod describe;
pub mod lateness;
pub mod left_out;
#[cfg(test)]
mod mutation;
pub mod names;
pub mod nested_ranges;
pub mod recurrence;
pub mod schedule_form;
pub mod schedule_modifiers;
pub mod schedule_version;
pub mod time;
pub mod timetable;
