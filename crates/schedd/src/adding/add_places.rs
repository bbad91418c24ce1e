//! The place of each added job: the namespace itself or a shard.
//!
//! A job that is there already is found where it is, so that an add repeated after the growth of the
//! shards does not add the job again.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;

use crate::engine::planning::instances;
use crate::engine::planning::planting::{Applied, PlantingError, Request};
use schedd_core::domain::queue::shard_map::ShardRecord;
use schedd_schedule::names::QueueName;
use schedd_schedule::time::zone::Zone;
use schedd_store::{Store, StoreError};

/// The places of the jobs that are added to a namespace.
#[derive(Debug, Clone)]
pub(super) struct AddPlaces {
    /// The queues whose one-shots are placed on shards.
    spread: BTreeSet<QueueName>,
    /// `None` for a namespace without shards.
    shards: Option<ShardRecord>,
    /// The namespace itself, and after it its shards.
    stores: Vec<Store>,
}

/// The answer to a request, with the place of the job.
pub type PlacedAnswer = (Store, Result<Applied, PlantingError>);

impl AddPlaces {
    /// Reads the shards, and which of `queues` are spread.
    pub(super) async fn read(
        home: &Store,
        queues: &BTreeSet<QueueName>,
    ) -> Result<Self, StoreError> {
        let places = match home.recorded_shards().await? {
            Some((record, stores)) => {
                Self { spread: home.read_spread(queues).await?, shards: Some(record), stores }
            }
            None => Self { spread: BTreeSet::new(), shards: None, stores: vec![home.clone()] },
        };
        Ok(places)
    }

    /// Returns true if the one-shots of the queue are placed on shards.
    pub(super) fn are_spread(&self, queue: &QueueName) -> bool {
        self.spread.contains(queue)
    }

    /// Applies requests at the place of each, as [`instances::apply`] does. A place that fails fails
    /// only its own requests, unless all requests are at one place.
    pub(super) async fn apply(
        &self,
        host_zone: &Zone,
        requests: &[Request],
    ) -> Result<Vec<PlacedAnswer>, StoreError> {
        let mut answers = Vec::with_capacity(requests.len());
        let mut by_place: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, place) in self.places_of(requests).await.into_iter().enumerate() {
            match place {
                Ok(place) => by_place.entry(place).or_default().push(at),
                Err((place, error)) => {
                    answers.push((at, (self.stores[place].clone(), Err(error.into()))));
                }
            }
        }
        let is_one_place = by_place.len() == 1 && answers.is_empty();
        let applied = by_place.into_iter().map(async |(place, indexes)| {
            let store = &self.stores[place];
            let part: Vec<Request> = indexes.iter().map(|at| requests[*at].clone()).collect();
            let applied = match instances::apply(store, host_zone, &part).await {
                Err(error) if is_one_place => return Err(error),
                Err(error) => part.iter().map(|_| Err(error.clone().into())).collect(),
                Ok(applied) => applied,
            };
            let placed = applied.into_iter().map(|answer| (store.clone(), answer));
            Ok(indexes.into_iter().zip(placed).collect::<Vec<_>>())
        });
        for applied in join_all(applied).await {
            answers.extend(applied?);
        }
        answers.sort_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// Returns the place at which [`Self::apply`] would apply the request.
    pub(super) async fn place_of(&self, request: &Request) -> Result<Store, StoreError> {
        let place = self.places_of(std::slice::from_ref(request)).await.pop();
        let place = place.unwrap_or(Ok(0)).map_err(|(_, error)| error)?;
        Ok(self.stores[place].clone())
    }

    /// Returns the place of each request, as an index of `stores`: of the places that may have the
    /// job, the first that has it, else the last. Fails for a request if such a place does not
    /// answer.
    async fn places_of(&self, requests: &[Request]) -> Vec<Result<usize, (usize, StoreError)>> {
        let mut places: Vec<_> = Vec::with_capacity(requests.len());
        let mut questions: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, request) in requests.iter().enumerate() {
            let (former, present) = self.candidates(request);
            if !request.is_drawn || request.spec.unique.is_some() {
                for place in former {
                    questions.entry(place).or_default().push(at);
                }
            }
            places.push(Ok(present));
        }
        let asked = questions.into_iter().map(async |(place, indexes)| {
            let jobs: Vec<_> = indexes
                .iter()
                .map(|at| {
                    let Request { name, spec, is_drawn, .. } = &requests[*at];
                    ((!is_drawn).then_some(name), spec.unique.as_ref().map(|unique| &unique.key))
                })
                .collect();
            let has = self.stores[place].has_jobs(&jobs).await;
            (place, indexes, has)
        });
        // The first place with the job is written last.
        for (place, indexes, has) in join_all(asked).await.into_iter().rev() {
            for (number, at) in indexes.into_iter().enumerate() {
                match &has {
                    Ok(has) if has[number] => places[at] = Ok(place),
                    Ok(_) => {}
                    Err(error) => places[at] = Err((place, error.clone())),
                }
            }
        }
        places
    }

    /// Returns the former places of a job, which may still have it, and its present place.
    fn candidates(&self, request: &Request) -> (Vec<usize>, usize) {
        let placed_by = request
            .spec
            .placed_by(&request.name, request.start_in.is_some())
            .filter(|_| self.are_spread(&request.spec.queue));
        let (Some(record), Some(text)) = (&self.shards, placed_by) else {
            return (Vec::new(), 0);
        };
        // The place 0 is the namespace itself.
        let place_of = |shard: u32| shard as usize + 1;
        let former = record.former_shards_of(text).into_iter().map(place_of);
        ([0].into_iter().chain(former).collect(), place_of(record.map.shard_of(text)))
    }
}
