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
use schedd_core::domain::job::unique_rule::UniqueKey;
use schedd_core::domain::queue::shard_map::{ShardMap, ShardRecord};
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
    /// A new server cannot be used. It may be misspelt, and shards are never removed.
    #[error(
        "the new server {server} cannot be used, wanted servers that answer before they get jobs: {why}"
    )]
    Unusable {
        /// The server, `HOST:PORT`.
        server: String,
        /// The error of the server.
        why: StoreError,
    },
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

/// A job to look for in a place, by its name and its unique key.
#[derive(Debug, Clone)]
pub struct SoughtJob<'a> {
    /// The name of the job. `None` if it was chosen at random.
    pub name: Option<&'a JobName>,
    /// The unique key. `None` if the job has none, or if another job may hold it in this place.
    pub unique: Option<&'a UniqueKey>,
}

/// The trace of a job or run in a place, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trace {
    Nothing,
    /// The job is over. The value is the time at which its last run ended, Unix ms; 0 if it had none.
    Remains(i64),
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
    pub async fn read_shards(&self) -> Result<Option<ShardRecord>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("GET").arg(self.keys.shards());
        let answer = self.well_typed(&mut pipeline).await?;
        Ok(answer.first().and_then(text_of).and_then(|text| text.parse().ok()))
    }

    /// Records the shards of the namespace, unless it has these or more. Returns the shards that the
    /// namespace then has. Fails if a new server cannot be used. Of two nodes that record at the same
    /// time, the last wins. So a node records its shards again at intervals.
    pub async fn record_shards(&self, wanted: &ShardMap) -> Result<ShardMap, ShardsError> {
        let differ = |recorded| ShardsError::Differ { recorded, wanted: wanted.clone() };
        let read = self.read_shards().await?;
        // The last record counts if the record was lost.
        let known = read.clone().or_else(|| self.shards.lock().of.clone());
        let record = match known {
            Some(known) if known.map.extends(wanted) => known,
            Some(known) if !wanted.extends(&known.map) => return Err(differ(known.map)),
            known => {
                let count = known.as_ref().map_or(0, |known| known.map.count());
                self.await_new_servers(wanted, count).await?;
                ShardRecord::grown(known, wanted.clone())
            }
        };
        if read.as_ref() == Some(&record) {
            return Ok(record.map);
        }
        if self.read_shards().await? != read {
            return Box::pin(self.record_shards(wanted)).await;
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg(self.keys.shards()).arg(record.to_string());
        self.link.query(&mut pipeline).await?;
        self.shards.lock().read = None;
        let now = self.read_shards().await?.map_or(record.map, |record| record.map);
        if now.extends(wanted) || wanted.extends(&now) { Ok(now) } else { Err(differ(now)) }
    }

    /// Asks the servers of the shards from the number `first` on for an answer.
    async fn await_new_servers(&self, map: &ShardMap, first: u32) -> Result<(), ShardsError> {
        for shard in first..map.count() {
            let Some(server) = map.server(shard) else { continue };
            let unusable = |why| ShardsError::Unusable { server: server.to_owned(), why };
            self.open_shard(map, shard).map_err(unusable)?.ping().await.map_err(unusable)?;
        }
        Ok(())
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

    /// Returns this namespace, and after it its shards.
    pub async fn with_shards(&self) -> Result<Vec<Self>, StoreError> {
        let known = self.recorded_shards().await?;
        Ok(known.map_or_else(|| vec![self.clone()], |(_, places)| places))
    }

    /// Returns the record of the shards with this namespace, and after it its shards; `None` without
    /// shards. The record is read at most every 2 s.
    pub async fn recorded_shards(&self) -> Result<Option<(ShardRecord, Vec<Self>)>, StoreError> {
        let read = self.shards.lock().read.clone();
        let record = if let Some((_, record)) = read.filter(|(at, _)| at.elapsed() < FRESH) {
            record
        } else {
            let record = self.read_shards().await?;
            self.shards.lock().read = Some((Instant::now(), record.clone()));
            record
        };
        let Some(record) = record else { return Ok(None) };
        let map = &record.map;
        let mut known = self.shards.lock();
        if known.of.as_ref().is_some_and(|former| !map.extends(&former.map)) {
            known.stores.clear();
        }
        for shard in u32::try_from(known.stores.len()).unwrap_or(u32::MAX)..map.count() {
            known.stores.push(self.open_shard(map, shard)?);
        }
        known.of = Some(record.clone());
        let shards = known.stores.iter().map(|store| self.like(store));
        let places = [self.clone()].into_iter().chain(shards).collect();
        Ok(Some((record, places)))
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
            let answer = store.ping().await;
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

    /// Returns true for each of these jobs that this place has: the live job of the name, or a job that
    /// holds the unique key.
    pub async fn has_jobs(&self, jobs: &[SoughtJob<'_>]) -> Result<Vec<bool>, StoreError> {
        let mut has = vec![false; jobs.len()];
        let (mut pipeline, mut asked) = (redis::pipe(), Vec::new());
        for (at, name) in jobs.iter().enumerate().filter_map(|(at, job)| Some((at, job.name?))) {
            pipeline.cmd("ZSCORE").arg(self.keys.jobs()).arg(name.as_str());
            asked.push(at);
        }
        let scores = match asked.as_slice() {
            [] => Vec::new(),
            _ => self.well_typed(&mut pipeline).await?,
        };
        for (at, score) in asked.into_iter().zip(scores) {
            has[at] = score != Value::Nil;
        }
        let (of_keys, keys): (Vec<usize>, Vec<UniqueKey>) =
            jobs.iter().enumerate().filter_map(|(at, job)| Some((at, job.unique?.clone()))).unzip();
        for (at, is_held) in of_keys.into_iter().zip(self.are_owned(&keys).await?) {
            has[at] |= is_held;
        }
        Ok(has)
    }

    /// Returns the place that has the job, or had it last: the namespace or a shard. Returns the
    /// namespace if it has a live job of this name, and for an unknown job. Fails if several shards
    /// that answer have a live job of this name. Fails if no place knows the job and a place does not
    /// answer.
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
        let (mut best, mut having, mut failed) = (Trace::Nothing, vec![self], None);
        for (place, trace) in places.iter().zip(traces) {
            match trace {
                Ok(trace) if trace > best => (best, having) = (trace, vec![place]),
                Ok(trace) if trace == best => having.push(place),
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        match (best, failed, having.as_slice()) {
            (Trace::Nothing, Some(error), _) => Err(error),
            // A shard has a namespace by which users can name it. The namespace itself has none.
            (Trace::LiveJob | Trace::Run, _, [first, _, ..]) if first.shard.is_some() => {
                let named = |place: &&Self| format!("{} at {}", place.namespace(), place.address());
                Err(StoreError::SeveralPlaces {
                    subject: run.map_or_else(|| format!("job {job}"), |run| format!("run {run}")),
                    places: having.iter().map(named).collect::<Vec<_>>().join(", "),
                })
            }
            _ => Ok(having[0].clone()),
        }
    }

    async fn trace_of(&self, job: &JobName, run: Option<&RunId>) -> Result<Trace, StoreError> {
        let mut pipeline = redis::pipe();
        // A hidden job begins with its first notice, at the place of the job it is about.
        let subject = job.notice_subject().map_or_else(|| job.clone(), |(subject, _)| subject);
        pipeline.cmd("EXISTS").arg(self.keys.job(&subject));
        pipeline.cmd("ZRANGE").arg(self.keys.job_history(job)).arg(&[-1, -1]).arg("WITHSCORES");
        pipeline.cmd("ZSCORE").arg(self.keys.jobs()).arg(job.as_str());
        if let Some(run) = run {
            pipeline.cmd("EXISTS").arg(self.keys.run(run));
            // A planned run has no record.
            pipeline.cmd("HMGET").arg(self.keys.job(job)).arg(&["pending", "paused_run"]);
        }
        // A key of the wrong type counts as missing. The consistency check reports the key.
        let answers = self.link.ask(&mut pipeline).await?;
        let answer = |at: usize| answers.get(at)?.as_ref().ok();
        let is_there = |at: usize| answer(at).and_then(number_of).is_some_and(|count| count > 0);
        let last_end = answer(1).and_then(last_score);
        let is_live = answer(2).is_some_and(|score| *score != Value::Nil);
        let planned = answer(4).and_then(Value::as_sequence).into_iter().flatten();
        let is_planned = run.is_some_and(|run| {
            planned.filter_map(text_of).any(|planned| planned == run.to_string())
        });
        Ok(match last_end {
            _ if is_there(3) || is_planned => Trace::Run,
            _ if is_live => Trace::LiveJob,
            Some(ended) => Trace::Remains(ended),
            None if is_there(0) => Trace::Remains(0),
            None => Trace::Nothing,
        })
    }

    async fn ping(&self) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("PING");
        self.link.query(&mut pipeline).await.map(drop)
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

/// Returns the score in an answer to ZRANGE WITHSCORES for one entry; `None` without an entry.
fn last_score(answer: &Value) -> Option<i64> {
    let Value::Array(items) = answer else { return None };
    number_of(items.get(1)?)
}
