//! The queues and groups a job may name: those some file has declared.

use std::collections::BTreeSet;

use crate::cli::failure::Failure;
use crate::domain::ids::{GroupName, QueueName};
use crate::domain::job::JobSpec;
use crate::store::Store;

/// What is declared.
pub(super) struct Pools {
    queues: BTreeSet<QueueName>,
    groups: BTreeSet<GroupName>,
}

impl Pools {
    pub(super) async fn read(store: &Store) -> Result<Self, Failure> {
        let queues = store.read_queues().await?.into_keys().chain([QueueName::default_queue()]).collect();
        Ok(Self { queues, groups: store.read_groups().await?.into_keys().collect() })
    }

    /// What of a job's queue and group is not declared, with what is.
    pub(super) fn unknown_to(&self, spec: &JobSpec) -> Option<String> {
        let queue = &spec.queue;
        if !self.queues.contains(queue) {
            let default = QueueName::default_queue();
            let others = self.queues.iter().filter(|name| **name != default).map(QueueName::as_str);
            let names: Vec<&str> = [default.as_str()].into_iter().chain(others).collect();
            let names = names.join(", ");
            return Some(format!("queue {queue} is not known, wanted {names} (a jobs file declares queues by [queues.{queue}])"));
        }
        let group = spec.group.as_ref().filter(|group| !self.groups.contains(*group))?;
        let names: Vec<&str> = self.groups.iter().map(GroupName::as_str).collect();
        let wanted = if names.is_empty() { String::new() } else { format!("wanted {} ", names.join(", ")) };
        Some(format!("group {group} is not known, {wanted}(a jobs file declares groups by [groups.{group}])"))
    }
}
