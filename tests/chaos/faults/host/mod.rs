//! Faults of a host.

pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod files;
pub(crate) mod limits;
pub(crate) mod power;
