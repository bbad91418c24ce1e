//! The pages that show one document of the state of the namespace as tables.

pub(super) mod doctor_page;
pub(super) mod groups_page;
pub(super) mod losses_page;
pub(super) mod nodes_page;
pub(super) mod queues_page;
