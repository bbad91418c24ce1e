//! The declared queues and groups, with the places of jobs. An added job may name only these queues
//! and groups.

use std::collections::{BTreeMap, BTreeSet};

use super::add_places::{AddPlaces, PlacedAnswer};
use crate::engine::planning::planting::{PlantingError, Request};
use schedd_core::config::{NamedJob, Problem};
use schedd_core::domain::queue::group_rules::GroupSettings;
use schedd_core::domain::queue::queue_rules::unknown_queue;
use schedd_schedule::names::{GroupName, JobName, QueueName};
use schedd_schedule::time::zone::Zone;
use schedd_store::{Store, StoreError};

/// The declared queues and groups, and the places of jobs, as read from Redis.
#[derive(Debug, Clone)]
pub struct AddPools {
    queues: BTreeSet<QueueName>,
    groups: BTreeMap<GroupName, GroupSettings>,
    places: AddPlaces,
}

impl AddPools {
    /// Reads the declared queues and groups. If the namespace has shards, also reads which queues are
    /// spread.
    pub async fn read(store: &Store) -> Result<Self, StoreError> {
        // Each is in a box, because the future of an add would be large otherwise.
        let (declared, groups) =
            tokio::try_join!(Box::pin(store.read_queues()), Box::pin(store.read_groups()))?;
        let queues = declared.into_keys().chain([QueueName::default_queue()]).collect();
        let places = Box::pin(AddPlaces::read(store, &queues)).await?;
        Ok(Self { queues, groups, places })
    }

    /// Applies requests at the place of each, as [`instances::apply`] does. A place that fails fails
    /// only its own requests, unless all requests are at one place.
    ///
    /// [`instances::apply`]: crate::engine::planning::instances::apply
    pub async fn apply(
        &self,
        host_zone: &Zone,
        requests: &[Request],
    ) -> Result<Vec<PlacedAnswer>, StoreError> {
        self.places.apply(host_zone, requests).await
    }

    /// Returns the place at which [`Self::apply`] would apply the request.
    pub async fn place_of(&self, request: &Request) -> Result<Store, PlantingError> {
        self.places.place_of(request).await
    }

    /// Returns the problem of a `job` that cannot use its queue or group: the queue or group is not
    /// declared, the group alternates and its `order` lacks the job, or two keys of the job would name
    /// two shards. Returns `None` if the job can use both.
    pub fn unknown_to(&self, job: &NamedJob) -> Option<Problem> {
        let queue = &job.spec.queue;
        if !self.queues.contains(queue) {
            return Some(Problem::new("queue", None, unknown_queue(queue, &self.queues)));
        }
        if self.places.are_spread(queue) && job.spec.key.is_some() && job.spec.unique.is_some() {
            let message = format!(
                "queue {queue} is spread, and key and unique may name two shards, wanted only one of them, or a queue without spread"
            );
            return Some(Problem::new("key", None, message));
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
                let message = format!(
                    "{this_job} is not in the order of turns of group {group}, wanted one of the jobs {} (or another order in [groups.{group}])",
                    order.join(", ")
                );
                return Some(Problem::new("group", None, message));
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
        let message = format!(
            "group {group} is not known{wanted} (a jobs file declares groups by [groups.{group}])"
        );
        Some(Problem::new("group", None, message))
    }
}
