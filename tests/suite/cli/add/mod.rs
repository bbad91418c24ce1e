//! The verb `add`.

pub(crate) mod adding;
pub(crate) mod adding_lines;
pub(crate) mod adding_names;
pub(crate) mod adding_once;
pub(crate) mod adding_refusals;
pub(crate) mod adding_times;
pub(crate) mod adding_waiting;
