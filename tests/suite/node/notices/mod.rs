//! Nodes that send notices.

pub(crate) mod telling;
pub(crate) mod telling_desk;
pub(crate) mod telling_hidden;
pub(crate) mod telling_late;
