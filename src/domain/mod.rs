//! Layer 1: the rules of jobs, runs and schedules. The layer is pure: no async, no I/O, no clock.
//! Every rule here is a function of its arguments. The only input from outside is the zone data of
//! the system, as a table.

pub mod books;
pub mod calendar;
mod civil;
pub mod clock_changes;
pub mod clock_notes;
pub mod cron;
pub mod days;
pub mod deed;
pub mod describe;
pub mod dispatch;
pub mod duration;
pub mod env_file;
pub mod eras;
pub mod explain;
pub mod gate;
pub mod group;
pub mod human_time;
pub mod ids;
pub mod job;
pub mod lane;
pub mod lateness;
pub mod limits;
#[cfg(test)]
pub(crate) mod mutation;
pub mod nesting;
pub mod node_event;
pub mod notice;
pub mod ping;
pub mod process;
pub mod queue;
pub mod rate;
pub mod recurrence;
pub mod redis_url;
pub mod reference;
pub mod retry;
pub mod run;
pub mod run_id;
pub mod schedule;
pub mod secret_headers;
pub mod serving;
pub mod shape;
pub mod size;
pub mod source;
pub mod time;
pub mod timetable;
pub mod unique;
pub mod webhook;
pub mod wording;
pub mod zone;
