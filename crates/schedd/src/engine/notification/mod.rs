//! Notices and deadlines: decides who receives a notice, with which payload, and at what time.

pub(crate) mod deadline_watch;
pub(crate) mod notice_cleanup;
pub(crate) mod notice_payload;
pub(crate) mod notice_planter;
