//! The verb `add`.

pub(crate) mod adding;
pub(crate) mod adding_lines;
pub(crate) mod adding_once;
