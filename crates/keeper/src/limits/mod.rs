//! The limits of a run: cgroups, time and output.

pub(crate) mod bounds;
pub(crate) mod cgroup;
pub(crate) mod delegation;
