//! The scripts of repair, data loss and nodes.

pub(crate) mod accounting;
mod api_marks;
pub(crate) mod auditing;
pub(crate) mod clock_marks;
pub(crate) mod coverage;
pub(crate) mod damaged_records;
pub(crate) mod events;
pub(crate) mod flushes;
pub(crate) mod index_pages;
mod indexes;
pub(crate) mod link;
pub(crate) mod losing;
pub(crate) mod meeting;
pub(crate) mod nodes;
pub(crate) mod quarantine;
pub(crate) mod wrong_types;
