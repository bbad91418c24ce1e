//! The parts of this host that a node and its keeper share: a clock that counts the time asleep, and
//! the mark that a keeper leaves in the state directory.

pub mod awaited;
pub mod boot_clock;
pub mod end_mark;
