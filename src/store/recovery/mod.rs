//! Data loss: its mark in Redis, and the return of what was lost.

pub(crate) mod data_loss;
pub(crate) mod restoration;
