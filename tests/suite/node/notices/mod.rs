//! Nodes that send notices.

pub(crate) mod backlogs;
pub(crate) mod hidden_jobs;
pub(crate) mod late_notices;
pub(crate) mod notice_desk;
pub(crate) mod notifying;
