//! The scripts of a run: from the due set to its end.

pub(crate) mod claiming;
pub(crate) mod concurrency;
pub(crate) mod delaying;
pub(crate) mod fences;
pub(crate) mod finishing;
pub(crate) mod lanes;
pub(crate) mod memory;
pub(crate) mod overlap;
pub(crate) mod plain;
pub(crate) mod polling;
pub(crate) mod recovering;
pub(crate) mod renewing;
pub(crate) mod skipping;
pub(crate) mod spreading;
