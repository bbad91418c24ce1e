//! The shards of a namespace: where they are, and where a job or run is.
//!
//! A shard is a namespace of its own, so no script knows of shards. Shard 3 of the namespace
//! `schedd` is the namespace `schedd.3`. The key `shards` of the namespace says which shards exist,
//! so clients need only the address of the namespace.
//!
//! Invariant: shards are only added. A shard that exists keeps its number and its place.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use redis::{RedisError, Value};

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::shard_map::ShardMap;
use schedd_schedule::names::{JobName, QueueName, RunId};

/// The time for which the map of shards, once read, is used again.
const FRESH: Duration = Duration::from_secs(2);
/// The time after which a shard that did not answer is asked again.
const SILENT: Duration = Duration::from_secs(5);

/// The namespace and its shards, as far as they answer.
#[derive(Debug, Clone)]
pub struct AnsweringPlaces {
    /// The namespace, and after it each shard that answers.
    pub stores: Vec<Store>,
    /// The shards that do not answer, each with the error.
    pub silent: Vec<(Store, StoreError)>,
}

/// The reason why a map of shards was not recorded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ShardsError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The namespace has other shards. Their jobs would be left behind.
    #[error(
        "the namespace has shards = {}, found shards = {}, wanted the former shards at their places; shards can only be added at the end",
        .recorded.toml(), .wanted.toml()
    )]
    Differ {
        /// The shards of the namespace.
        recorded: ShardMap,
        /// The shards to record.
        wanted: ShardMap,
    },
}

/// The trace of a job or run in a place, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trace {
    Nothing,
    /// The job is over.
    Remains,
    LiveJob,
    Run,
}

impl Store {
    /// Returns the number of this shard; `None` for a namespace that is no shard.
    pub fn shard_number(&self) -> Option<u32> {
        self.shard
    }

    /// Reads the shards of the namespace; `None` if it has none. A damaged record counts as missing,
    /// and nodes record the shards of their file again.
    pub async fn read_shards(&self) -> Result<Option<ShardMap>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("GET").arg(self.keys.shards());
        let answer = self.well_typed(&mut pipeline).await?;
        Ok(answer.first().and_then(text_of).and_then(|text| text.parse().ok()))
    }

    /// Records the shards of the namespace, unless it has these or more. Returns the shards that the
    /// namespace then has. Of two nodes that record at the same time, the last wins. So a node records
    /// its shards again at intervals.
    pub async fn record_shards(&self, wanted: &ShardMap) -> Result<ShardMap, ShardsError> {
        match self.read_shards().await? {
            Some(recorded) if recorded.extends(wanted) => return Ok(recorded),
            Some(recorded) if !wanted.extends(&recorded) => {
                return Err(ShardsError::Differ { recorded, wanted: wanted.clone() });
            }
            _ => {}
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg(self.keys.shards()).arg(wanted.to_string());
        self.link.query(&mut pipeline).await?;
        match self.read_shards().await? {
            Some(now) if now.extends(wanted) || wanted.extends(&now) => Ok(now),
            Some(recorded) => Err(ShardsError::Differ { recorded, wanted: wanted.clone() }),
            None => Ok(wanted.clone()),
        }
    }

    /// Returns those of these queues whose one-shots are placed on shards.
    pub async fn read_spread(
        &self,
        queues: &BTreeSet<QueueName>,
    ) -> Result<BTreeSet<QueueName>, StoreError> {
        let mut pipeline = redis::pipe();
        for queue in queues {
            pipeline.cmd("HGET").arg(self.keys.queue(queue)).arg("spread");
        }
        // A queue of the wrong type counts as not spread. The consistency check reports the key.
        let answers = self.link.ask(&mut pipeline).await?;
        let is_spread = |answer: &Result<Value, RedisError>| {
            answer.as_ref().ok().and_then(text_of).as_deref() == Some("1")
        };
        let spread = queues.iter().zip(answers).filter(|(_, answer)| is_spread(answer));
        Ok(spread.map(|(queue, _)| queue.clone()).collect())
    }

    /// Returns this namespace, and after it its shards. Their map is read at most every 2 s.
    pub async fn with_shards(&self) -> Result<Vec<Self>, StoreError> {
        let read = self.shards.lock().read.clone();
        let map = if let Some((_, map)) = read.filter(|(at, _)| at.elapsed() < FRESH) {
            map
        } else {
            let map = self.read_shards().await?;
            self.shards.lock().read = Some((Instant::now(), map.clone()));
            map
        };
        let mut known = self.shards.lock();
        let mut places = vec![self.clone()];
        let Some(map) = map else { return Ok(places) };
        if known.of.as_ref().is_some_and(|former| !map.extends(former)) {
            known.stores.clear();
        }
        for shard in u32::try_from(known.stores.len()).unwrap_or(u32::MAX)..map.count() {
            known.stores.push(self.open_shard(&map, shard)?);
        }
        known.of = Some(map);
        places.extend(known.stores.iter().map(|store| self.like(store)));
        Ok(places)
    }

    /// Returns this namespace, and those of its shards that answer. A shard that did not is asked again
    /// after 5 s, so that it does not delay each call. Fails if the namespace itself does not answer.
    pub async fn answering(&self) -> Result<AnsweringPlaces, StoreError> {
        let mut shards = self.with_shards().await?;
        let mut found = AnsweringPlaces { stores: vec![shards.remove(0)], silent: Vec::new() };
        let asked = shards.into_iter().map(async |store| {
            let last = store.shards.lock().silent.clone();
            if let Some((_, error)) = last.filter(|(at, _)| at.elapsed() < SILENT) {
                return (store, Err(error));
            }
            let mut pipeline = redis::pipe();
            pipeline.cmd("PING");
            let answer = store.link.query(&mut pipeline).await.map(drop);
            let silence = answer.clone().err().map(|error| (Instant::now(), error));
            store.shards.lock().silent = silence;
            (store, answer)
        });
        for (store, answer) in futures_util::future::join_all(asked).await {
            match answer {
                Ok(()) => found.stores.push(store),
                Err(error) => found.silent.push((store, error)),
            }
        }
        Ok(found)
    }

    /// Returns the place that has the job, or had it last: the namespace or a shard. Returns the
    /// namespace for an unknown job. Fails if no place knows the job and a place does not answer.
    pub async fn place_of_job(&self, job: &JobName) -> Result<Self, StoreError> {
        self.place_of(job, None).await
    }

    /// Returns the place that has the run, as [`Store::place_of_job`] does for a job.
    pub async fn place_of_run(&self, run: &RunId) -> Result<Self, StoreError> {
        self.place_of(run.job(), Some(run)).await
    }

    async fn place_of(&self, job: &JobName, run: Option<&RunId>) -> Result<Self, StoreError> {
        let places = self.with_shards().await?;
        if places.len() == 1 {
            return Ok(self.clone());
        }
        let traces = places.iter().map(|place| place.trace_of(job, run));
        let traces = futures_util::future::join_all(traces).await;
        let (mut best, mut failed) = ((Trace::Nothing, self), None);
        for (place, trace) in places.iter().zip(traces) {
            match trace {
                Ok(trace) if trace > best.0 => best = (trace, place),
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        match (best, failed) {
            ((Trace::Nothing, _), Some(error)) => Err(error),
            ((_, place), _) => Ok(place.clone()),
        }
    }

    async fn trace_of(&self, job: &JobName, run: Option<&RunId>) -> Result<Trace, StoreError> {
        let mut pipeline = redis::pipe();
        // A hidden job begins with its first notice, at the place of the job it is about.
        let subject = job.notice_subject().map_or_else(|| job.clone(), |(subject, _)| subject);
        pipeline.cmd("EXISTS").arg(self.keys.job(&subject)).arg(self.keys.job_history(job));
        pipeline.cmd("ZSCORE").arg(self.keys.jobs()).arg(job.as_str());
        if let Some(run) = run {
            pipeline.cmd("EXISTS").arg(self.keys.run(run));
        }
        // A key of the wrong type counts as missing. The consistency check reports the key.
        let answers = self.link.ask(&mut pipeline).await?;
        let number = |at: usize| answers.get(at)?.as_ref().ok().and_then(number_of);
        let is_live =
            answers.get(1).is_some_and(|it| it.as_ref().is_ok_and(|it| *it != Value::Nil));
        Ok(match (number(2), is_live, number(0)) {
            (Some(1..), ..) => Trace::Run,
            (_, true, _) => Trace::LiveJob,
            (.., Some(1..)) => Trace::Remains,
            _ => Trace::Nothing,
        })
    }

    fn open_shard(&self, map: &ShardMap, shard: u32) -> Result<Self, StoreError> {
        let own = self.link.place();
        let place = map.server(shard).map(|server| own.at_host(server)).transpose()?;
        let store = Self::new(place.as_ref().unwrap_or(own), self.keys.of_shard(shard))?;
        Ok(Self { shard: Some(shard), ..store })
    }

    /// Returns `store` with the time and the author of this store.
    fn like(&self, store: &Self) -> Self {
        Self {
            fixed_now: self.fixed_now,
            #[cfg(feature = "testing")]
            test_clock: self.test_clock.clone(),
            by: self.by.clone(),
            ..store.clone()
        }
    }
}
