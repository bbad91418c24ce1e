//! The parts of the declaration of a key: how its value is read and written.

pub(crate) mod origin;
pub(crate) mod rate_keys;
