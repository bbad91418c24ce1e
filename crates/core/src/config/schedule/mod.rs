//! The compilers of the schedule in a job's table.

pub(crate) mod clock_choice;
pub(crate) mod compile_calendars;
pub(crate) mod compile_clock_changes;
pub(crate) mod compile_parents;
pub(crate) mod compile_schedule;
pub(crate) mod compile_shape;
pub(crate) mod ics;
