//! Layer 1: the rules of jobs, runs and schedules. The layer is pure: no async, no I/O, no clock.
//! Every rule here is a function of its arguments. The only outside input is the time zone data of
//! the system.

pub mod consistency;
pub mod explain;
pub mod job;
pub mod name;
pub mod queue;
pub mod run;
