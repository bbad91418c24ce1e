//! The declared queues and groups. A job may name only these queues and groups.

use std::collections::{BTreeMap, BTreeSet};

use schedd_core::config::NamedJob;
use schedd_core::domain::queue::group_rules::GroupSettings;
use schedd_schedule::names::{GroupName, JobName, QueueName};
use schedd_store::{Store, StoreError};

/// The declared queues and groups, as read from Redis.
#[derive(Debug, Clone)]
pub struct AddPools {
    queues: BTreeSet<QueueName>,
    groups: BTreeMap<GroupName, GroupSettings>,
}

impl AddPools {
    /// Reads the declared queues and groups.
    pub async fn read(store: &Store) -> Result<Self, StoreError> {
        let queues =
            store.read_queues().await?.into_keys().chain([QueueName::default_queue()]).collect();
        Ok(Self { queues, groups: store.read_groups().await? })
    }

    /// Returns the reason why `job` cannot use its queue or group: the queue or group is not
    /// declared, or the group alternates and its `order` lacks the job. Returns `None` if the job
    /// can use both.
    pub fn unknown_to(&self, job: &NamedJob) -> Option<String> {
        let queue = &job.spec.queue;
        if !self.queues.contains(queue) {
            let default = QueueName::default_queue();
            let others = self.queues.iter().filter(|name| **name != default).map(QueueName::as_str);
            let names: Vec<&str> = [default.as_str()].into_iter().chain(others).collect();
            let names = names.join(", ");
            return Some(format!(
                "queue {queue} is not known, wanted one of {names} (a jobs file declares queues by [queues.{queue}])"
            ));
        }
        let group = job.spec.group.as_ref()?;
        match self.groups.get(group) {
            Some(GroupSettings::Alternate(turns))
                if !job.name.as_ref().is_some_and(|name| turns.order.contains(name)) =>
            {
                let order: Vec<&str> = turns.order.iter().map(JobName::as_str).collect();
                let this_job = job.name.as_ref().map_or_else(
                    || "a job without a name".to_owned(),
                    |name| format!("job {name}"),
                );
                return Some(format!(
                    "{this_job} is not in the order of turns of group {group}, wanted one of the jobs {} (or another order in [groups.{group}])",
                    order.join(", ")
                ));
            }
            Some(_) => return None,
            None => {}
        }
        let names: Vec<&str> = self.groups.keys().map(GroupName::as_str).collect();
        let wanted = if names.is_empty() {
            String::new()
        } else {
            format!(", wanted one of {}", names.join(", "))
        };
        Some(format!(
            "group {group} is not known{wanted} (a jobs file declares groups by [groups.{group}])"
        ))
    }
}
