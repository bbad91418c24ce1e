//! Recovery after a data loss of Redis.

pub(crate) mod journal;
pub(crate) mod loss;
pub mod restored_ends;
