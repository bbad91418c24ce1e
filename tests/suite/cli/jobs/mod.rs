//! The verbs about jobs and files.

pub(crate) mod applying;
pub(crate) mod chaining;
pub(crate) mod checking;
pub(crate) mod durations;
pub(crate) mod exporting;
pub(crate) mod importing;
pub(crate) mod listing;
pub(crate) mod next_times;
pub(crate) mod showing;
pub(crate) mod switching;
pub(crate) mod tagging;
pub(crate) mod trusting;
