//! Recovery after a data loss of Redis: detection, journal and restore.

pub(crate) mod journal;
pub(crate) mod loss;
pub mod restored_ends;
