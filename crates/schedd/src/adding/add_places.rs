//! The place of each added job: the namespace itself or a shard.
//!
//! A job that is there already is found where it is, so that an add repeated after the growth of the
//! shards does not add the job again.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;

use crate::engine::planning::instances;
use crate::engine::planning::planting::{Applied, PlantingError, Request, until_answered};
use schedd_core::domain::queue::shard_map::ShardRecord;
use schedd_schedule::names::QueueName;
use schedd_schedule::time::zone::Zone;
use schedd_store::{Existing, SoughtJob, Store, StoreError};

/// The answer to a request, with the place of the job.
pub type PlacedAnswer = (Store, Result<Applied, PlantingError>);

/// The choice of the place of each added job: the namespace itself or a shard.
#[derive(Debug, Clone)]
pub(super) struct AddPlaces {
    home: Store,
    /// The queues whose one-shots are placed on shards.
    spread: BTreeSet<QueueName>,
}

/// The places of a namespace with shards. A place is known by its index in `stores`.
struct Places<'a> {
    spread: &'a BTreeSet<QueueName>,
    record: ShardRecord,
    /// The namespace itself, and after it its shards.
    stores: Vec<Store>,
    /// The shards that answer. Empty without an edit, because only edits ask all shards.
    answering: BTreeSet<usize>,
}

/// The requests about which a place is asked, by the place. A request is known by its index.
type Questions = BTreeMap<usize, Vec<usize>>;

/// The places that a job may have.
struct Candidates {
    /// The namespace itself and the shards of the job before the shards grew.
    former: BTreeSet<usize>,
    present: usize,
}

impl Candidates {
    fn include(&self, place: usize) -> bool {
        place == self.present || self.former.contains(&place)
    }
}

impl AddPlaces {
    /// Reads which of `queues` are spread.
    pub(super) async fn read(
        home: &Store,
        queues: &BTreeSet<QueueName>,
    ) -> Result<Self, StoreError> {
        let spread = match home.recorded_shards().await? {
            Some(_) => home.read_spread(queues).await?,
            None => BTreeSet::new(),
        };
        Ok(Self { home: home.clone(), spread })
    }

    /// Returns true if the one-shots of the queue are placed on shards.
    pub(super) fn are_spread(&self, queue: &QueueName) -> bool {
        self.spread.contains(queue)
    }

    /// Returns the place at which [`Self::apply`] would apply the request.
    pub(super) async fn place_of(&self, request: &Request) -> Result<Store, PlantingError> {
        let Some(places) = self.places(std::slice::from_ref(request)).await? else {
            return Ok(self.home.clone());
        };
        let place = places.of(std::slice::from_ref(request)).await.pop();
        let place = place.unwrap_or(Ok(0)).map_err(|(_, error)| error)?;
        Ok(places.stores[place].clone())
    }

    /// Returns the places of the namespace; `None` if it has no shards.
    async fn places(&self, requests: &[Request]) -> Result<Option<Places<'_>>, StoreError> {
        let shards = until_answered(|| self.home.recorded_shards()).await?;
        let Some((record, stores)) = shards else { return Ok(None) };
        let is_edit = requests.iter().any(|request| request.existing == Existing::Edit);
        let answering = if is_edit { self.home.answering().await?.stores } else { Vec::new() };
        let answering = answering.iter().filter_map(Store::shard_number).map(place_of).collect();
        Ok(Some(Places { spread: &self.spread, record, stores, answering }))
    }

    /// Applies requests at the place of each, as [`instances::apply`] does. A place that fails fails
    /// only its own requests, unless all requests are at one place.
    pub(super) async fn apply(
        &self,
        host_zone: &Zone,
        requests: &[Request],
    ) -> Result<Vec<PlacedAnswer>, StoreError> {
        let Some(places) = self.places(requests).await? else {
            let answers = instances::apply(&self.home, host_zone, requests).await?;
            return Ok(answers.into_iter().map(|answer| (self.home.clone(), answer)).collect());
        };
        let mut answers = Vec::with_capacity(requests.len());
        let mut by_place: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, place) in places.of(requests).await.into_iter().enumerate() {
            match place {
                Ok(place) => by_place.entry(place).or_default().push(at),
                Err((place, error)) => {
                    answers.push((at, (places.stores[place].clone(), Err(error))));
                }
            }
        }
        let unreached = |answer: &(usize, PlacedAnswer)| match &answer.1.1 {
            Err(PlantingError::Store(error)) => Some(error.clone()),
            _ => None,
        };
        let errors: Option<Vec<StoreError>> = answers.iter().map(unreached).collect();
        if let Some(error) =
            errors.and_then(|mut errors| errors.pop()).filter(|_| by_place.is_empty())
        {
            return Err(error);
        }
        let is_one_place = by_place.len() == 1 && answers.is_empty();
        let applied = by_place.into_iter().map(async |(place, indexes)| {
            let store = &places.stores[place];
            let part: Vec<Request> = indexes.iter().map(|at| requests[*at].clone()).collect();
            let applied = match instances::apply(store, host_zone, &part).await {
                Err(error) if is_one_place => return Err(error),
                Err(error) => part.iter().map(|_| Err(error.clone().into())).collect(),
                Ok(applied) => applied,
            };
            let of_store = applied.into_iter().map(|answer| (store.clone(), answer));
            Ok(indexes.into_iter().zip(of_store).collect::<Vec<_>>())
        });
        for applied in join_all(applied).await {
            answers.extend(applied?);
        }
        answers.sort_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }
}

impl Places<'_> {
    /// Returns the place of each request: the present place of the job, unless only a former place has
    /// the job. Fails for a request if a former place does not answer, or if an edit finds the job in
    /// any other place that answers. The error has the place at fault.
    async fn of(&self, requests: &[Request]) -> Vec<Result<usize, (usize, PlantingError)>> {
        let candidates: Vec<Candidates> = requests.iter().map(|it| self.candidates(it)).collect();
        let mut questions = Questions::new();
        for (at, (request, candidates)) in requests.iter().zip(&candidates).enumerate() {
            let asked = match request.existing {
                _ if request.is_drawn && request.spec.unique.is_none() => BTreeSet::new(),
                Existing::Edit => &candidates.former | &(&self.answering | &BTreeSet::from([0])),
                Existing::Refuse => candidates.former.clone(),
            };
            for place in asked.into_iter().filter(|place| *place != candidates.present) {
                questions.entry(place).or_default().push(at);
            }
        }
        let mut places: Vec<_> = candidates.iter().map(|it| Ok(it.present)).collect();
        let (mut found, mut again) = (BTreeMap::new(), Questions::new());
        for (at, place, answer) in self.ask(requests, &candidates, questions).await {
            match answer {
                Ok(true) => {
                    found.entry(at).or_insert_with(BTreeSet::new).insert(place);
                    again.entry(candidates[at].present).or_default().push(at);
                }
                Err(error) if candidates[at].former.contains(&place) => {
                    places[at] = Err((place, error.into()));
                }
                // An edit does not depend on a place that its job never had.
                Ok(false) | Err(_) => {}
            }
        }
        for (at, place, answer) in self.ask(requests, &candidates, again).await {
            let elsewhere = &found[&at];
            places[at] = match (answer, elsewhere.intersection(&candidates[at].former).next()) {
                (Err(error), _) => Err((place, error.into())),
                (Ok(true), _) => Ok(place),
                (Ok(false), Some(former)) => Ok(*former),
                (Ok(false), None) => {
                    let namespace = |place: usize| self.stores[place].namespace().to_owned();
                    let found = elsewhere.first().map_or_else(String::new, |it| namespace(*it));
                    let (job, wanted) = (requests[at].name.clone(), namespace(place));
                    Err((place, PlantingError::Elsewhere { job, found, wanted }))
                }
            };
        }
        places
    }

    /// Asks places which of the jobs they have. Returns an answer for each request and place.
    async fn ask(
        &self,
        requests: &[Request],
        candidates: &[Candidates],
        questions: Questions,
    ) -> Vec<(usize, usize, Result<bool, StoreError>)> {
        let asked = questions.into_iter().map(async |(place, indexes)| {
            let sought = |at: &usize| sought(&requests[*at], candidates[*at].include(place));
            let sought: Vec<SoughtJob> = indexes.iter().map(sought).collect();
            let answers = match until_answered(|| self.stores[place].has_jobs(&sought)).await {
                Ok(has) => has.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error); indexes.len()],
            };
            let answer = move |(at, answer)| (at, place, answer);
            indexes.into_iter().zip(answers).map(answer).collect::<Vec<_>>()
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    fn candidates(&self, request: &Request) -> Candidates {
        let placed_by = request
            .spec
            .placed_by(&request.name, request.start_in.is_some())
            .filter(|_| self.spread.contains(&request.spec.queue));
        let Some(text) = placed_by else {
            return Candidates { former: BTreeSet::new(), present: 0 };
        };
        let former = self.record.former_shards_of(text).into_iter().map(place_of);
        Candidates {
            former: former.chain([0]).collect(),
            present: place_of(self.record.map.shard_of(text)),
        }
    }
}

/// Returns what shows that a place has the job of `request`: its name, and its unique key if the place
/// is a candidate. Elsewhere another job may hold that key.
fn sought(request: &Request, is_candidate: bool) -> SoughtJob<'_> {
    let unique = request.spec.unique.as_ref().filter(|_| is_candidate);
    SoughtJob {
        name: Some(&request.name).filter(|_| !request.is_drawn),
        unique: unique.map(|unique| &unique.key),
    }
}

/// Returns the index of a shard in [`Places::stores`], where 0 is the namespace itself.
fn place_of(shard: u32) -> usize {
    shard as usize + 1
}
