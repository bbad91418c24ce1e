//! The verbs about the whole namespace: nodes, groups, data losses and counts.

pub(crate) mod data_loss_verb;
mod group_members;
pub(crate) mod groups;
pub(crate) mod node_presence;
pub(crate) mod nodes_verb;
pub(crate) mod stats_verb;
