//! The limits of a run: cgroups, time and output.

pub mod boot_clock;
pub(crate) mod bounds;
pub(crate) mod cgroup;
pub(crate) mod delegation;
pub(crate) mod excerpt;
