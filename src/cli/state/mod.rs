//! The verbs about the whole: nodes, groups, data loss, numbers.

pub(crate) mod data_loss_verb;
pub(crate) mod groups;
pub(crate) mod nodes_verb;
pub(crate) mod stats_verb;
