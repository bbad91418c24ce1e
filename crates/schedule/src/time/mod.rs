//! Types for time: instants, dates, durations and zones.

pub(crate) mod civil;
pub mod duration;
pub mod human_time;
pub mod time_histogram;
pub mod unix_millis;
pub mod wording;
pub mod zone;
