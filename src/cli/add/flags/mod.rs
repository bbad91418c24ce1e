//! The flags of `add` that set keys of the job.

pub(crate) mod given_keys;
pub(crate) mod key_flag;
pub(crate) mod key_flags;
