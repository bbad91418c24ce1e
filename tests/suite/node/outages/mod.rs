//! Nodes without Redis, and Redis with lost data.

pub(crate) mod after_crashes;
pub(crate) mod clock_steps;
pub(crate) mod damaged_keys;
pub(crate) mod failing_over;
pub(crate) mod flushed;
pub(crate) mod given_back;
pub(crate) mod losing;
pub(crate) mod short_outages;
pub(crate) mod shortages;
pub(crate) mod storm;
