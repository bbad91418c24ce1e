//! The declared queues and groups, and the place of each added job. A job may name only these queues
//! and groups.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;

use crate::engine::planning::instances;
use crate::engine::planning::planting::{Applied, PlantingError, Request};
use schedd_core::config::NamedJob;
use schedd_core::domain::queue::group_rules::GroupSettings;
use schedd_core::domain::queue::shard_map::ShardMap;
use schedd_schedule::names::{GroupName, JobName, QueueName};
use schedd_schedule::time::zone::Zone;
use schedd_store::{Store, StoreError};

/// The declared queues and groups, and the shards, as read from Redis.
#[derive(Debug, Clone)]
pub struct AddPools {
    queues: BTreeSet<QueueName>,
    groups: BTreeMap<GroupName, GroupSettings>,
    /// The queues whose one-shots are placed on shards.
    spread: BTreeSet<QueueName>,
    /// The shards of the namespace; `None` if it has none, or no queue is spread.
    shards: Option<(ShardMap, Vec<Store>)>,
}

impl AddPools {
    /// Reads the declared queues and groups, and the shards if a queue is spread.
    pub async fn read(store: &Store) -> Result<Self, StoreError> {
        // Each is in a box, because the future of an add would be large otherwise.
        let (declared, groups, map) = tokio::try_join!(
            Box::pin(store.read_queues()),
            Box::pin(store.read_groups()),
            Box::pin(store.read_shards())
        )?;
        let queues: BTreeSet<QueueName> =
            declared.into_keys().chain([QueueName::default_queue()]).collect();
        let (spread, shards) = match map {
            Some(map) => {
                (store.read_spread(&queues).await?, Some((map, store.with_shards().await?)))
            }
            None => (BTreeSet::new(), None),
        };
        Ok(Self { queues, groups, spread, shards })
    }

    /// Returns the store for the job of `request`: a shard if its queue is spread, else `home`.
    pub fn store_of<'a>(&'a self, home: &'a Store, request: &Request) -> &'a Store {
        let Some((map, places)) = &self.shards else { return home };
        if !self.spread.contains(&request.spec.queue) {
            return home;
        }
        let placed_by = request.spec.placed_by(&request.name, request.start_in.is_some());
        let shard = placed_by.map(|text| map.shard_of(text));
        // The place 0 is the namespace itself.
        shard.and_then(|shard| places.get(shard as usize + 1)).unwrap_or(home)
    }

    /// Applies requests at the place of each, as [`instances::apply`] does. A place that fails fails
    /// only its own requests, unless all requests are at one place.
    pub async fn apply(
        &self,
        home: &Store,
        host_zone: &Zone,
        requests: &[Request],
    ) -> Result<Vec<Result<Applied, PlantingError>>, StoreError> {
        let mut by_place: BTreeMap<Option<u32>, (&Store, Vec<usize>)> = BTreeMap::new();
        for (at, request) in requests.iter().enumerate() {
            let store = self.store_of(home, request);
            let place = by_place.entry(store.shard_number());
            place.or_insert_with(|| (store, Vec::new())).1.push(at);
        }
        if by_place.len() == 1
            && let Some((_, (store, _))) = by_place.first_key_value()
        {
            return instances::apply(store, host_zone, requests).await;
        }
        let applied = by_place.into_values().map(async |(store, indexes)| {
            let part: Vec<Request> = indexes.iter().map(|at| requests[*at].clone()).collect();
            let answers = instances::apply(store, host_zone, &part).await;
            let answers = answers
                .unwrap_or_else(|error| part.iter().map(|_| Err(error.clone().into())).collect());
            indexes.into_iter().zip(answers)
        });
        let mut answers: Vec<_> = join_all(applied).await.into_iter().flatten().collect();
        answers.sort_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// Returns the reason why `job` cannot use its queue or group: the queue or group is not
    /// declared, the group alternates and its `order` lacks the job, or two keys of the job would name
    /// two shards. Returns `None` if the job can use both.
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
        if self.shards.is_some()
            && self.spread.contains(queue)
            && job.spec.key.is_some()
            && job.spec.unique.is_some()
        {
            return Some(format!(
                "queue {queue} is spread, and key and unique may name two shards, wanted only one of them, or a queue without spread"
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
