//! Data loss: the epoch that shows a loss, and the restoring of the lost data.

pub(crate) mod data_loss;
pub(crate) mod restoration;
