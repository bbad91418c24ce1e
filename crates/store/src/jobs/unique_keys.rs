//! Unique keys and the jobs that own them.
//!
//! Invariant: an add decides in one step (`apply_job.lua`) if a key is free, from the key's entry
//! and the owner's record. An outdated entry blocks no add and is deleted later.

use redis::Value;

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::consistency::UniqueFacts;
use schedd_core::domain::job::unique_rule::UniqueKey;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The most unique keys listed or deleted in one step.
const STEP: usize = 100;

/// The present or last owner of a unique key, and the time of its ownership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueHolder {
    /// The name of the job that owns the unique key, or owned the key last.
    pub job: JobName,
    /// True if a later add with the same key replaces the job while the job has not begun.
    pub is_debounced: bool,
    /// The time of the add that gave the key to the job; None if not recorded. A later add that
    /// replaces the job before it has begun does not change this time.
    pub since: Option<UnixMillis>,
    /// The time until which the job owns the key. None if there is no time limit; the job then owns
    /// the key until the job ends.
    pub until: Option<UnixMillis>,
}

impl Store {
    /// Takes its unique key from `job`, which has no further runs. The next add with the key gets it,
    /// unless a time says until when the key is taken.
    pub async fn release_unique(&self, job: &JobName, key: &UniqueKey) -> Result<(), StoreError> {
        let seen = [("unique".to_owned(), key.to_string())];
        self.drop_fields(&self.keys.job(job), &seen).await.map(drop)
    }

    /// Returns the present or last owner of each of these unique keys; None for a key that no job
    /// owns or owned. A key that cannot be read gives the error.
    pub async fn read_holders(
        &self,
        keys: &[UniqueKey],
    ) -> Result<Vec<Result<Option<UniqueHolder>, StoreError>>, StoreError> {
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline
                .cmd("HMGET")
                .arg(self.keys.unique(key))
                .arg(&["job", "mode", "until", "since"]);
        }
        let read = |(key, answer): (&UniqueKey, Result<Value, redis::RedisError>)| match answer {
            Ok(Value::Array(fields)) => {
                let [job, mode, until, since] = fields.as_slice() else { return Ok(None) };
                let Some(job) = text_of(job) else { return Ok(None) };
                let damaged = || {
                    StoreError::corrupt(
                        format!("unique key {key:?}"),
                        format!("the owner {job:?} of the key is not a job name"),
                    )
                };
                Ok(Some(UniqueHolder {
                    job: job.parse().map_err(|_| damaged())?,
                    is_debounced: text_of(mode).as_deref() == Some("debounce"),
                    until: number_of(until).and_then(UnixMillis::new),
                    since: number_of(since).and_then(UnixMillis::new),
                }))
            }
            Ok(_) => Ok(None),
            Err(error) if error.code() == Some("WRONGTYPE") => Err(StoreError::WrongType {
                key: self.keys.unique(key),
                found: "value of another type".to_owned(),
                wanted: "hash".to_owned(),
            }),
            Err(error) => Err(StoreError::from_redis(self.address(), &error)),
        };
        Ok(keys.iter().zip(self.link.ask(&mut pipeline).await?).map(read).collect())
    }

    /// Returns true for each of these unique keys that a job owns now. A key that cannot be read counts
    /// as free; the consistency check reports the key.
    pub(crate) async fn are_owned(&self, keys: &[UniqueKey]) -> Result<Vec<bool>, StoreError> {
        let mut are_owned = vec![false; keys.len()];
        let mut holders = Vec::new();
        for (at, holder) in self.read_holders(keys).await?.into_iter().enumerate() {
            match holder {
                Ok(Some(holder)) => holders.push((at, holder)),
                Ok(None) | Err(StoreError::WrongType { .. } | StoreError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if holders.is_empty() {
            return Ok(are_owned);
        }
        let now = self.now().await?;
        let mut pipeline = redis::pipe();
        for (_, holder) in &holders {
            pipeline.cmd("HMGET").arg(self.keys.job(&holder.job)).arg(&["rev", "ended", "unique"]);
        }
        let owners = self.well_typed(&mut pipeline).await?;
        for ((at, holder), owner) in holders.into_iter().zip(owners) {
            let field = |field: usize| owner.as_sequence()?.get(field).and_then(text_of);
            let owns = field(0).is_some()
                && field(1).is_none()
                && field(2).as_deref() == Some(keys[at].as_str());
            are_owned[at] = holder.until.map_or(owns, |until| now < until);
        }
        Ok(are_owned)
    }

    /// Lists unique keys whose next check for an owner is due by `now`, at most 100.
    pub async fn list_uniques(&self, now: UnixMillis) -> Result<Vec<UniqueKey>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.uniques())
            .arg("-inf")
            .arg(now.as_i64())
            .arg("BYSCORE")
            .arg("LIMIT")
            .arg(0)
            .arg(STEP);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(keys)) = answer.first() else { return Ok(Vec::new()) };
        Ok(keys.iter().filter_map(text_of).filter_map(|key| key.parse().ok()).collect())
    }

    /// Lists unique keys whose next check for an owner is due after `after`, at most 100, starting
    /// at `offset`.
    pub async fn list_uniques_after(
        &self,
        after: UnixMillis,
        offset: usize,
    ) -> Result<Vec<UniqueKey>, StoreError> {
        let mut pipeline = redis::pipe();
        let range = pipeline
            .cmd("ZRANGE")
            .arg(self.keys.uniques())
            .arg(format!("({}", after.as_i64()))
            .arg("+inf");
        range.arg("BYSCORE").arg("LIMIT").arg(offset).arg(STEP);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(keys)) = answer.first() else { return Ok(Vec::new()) };
        Ok(keys.iter().filter_map(text_of).filter_map(|key| key.parse().ok()).collect())
    }

    /// Deletes those of `keys` that no job owns any more, at most 100. The remaining keys get a
    /// time for their next check. Returns the number of deleted keys.
    pub async fn forget_uniques(&self, keys: &[UniqueKey]) -> Result<usize, StoreError> {
        let keys = keys.get(..STEP).unwrap_or(keys);
        if keys.is_empty() {
            return Ok(0);
        }
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline.cmd("HGET").arg(self.keys.unique(key)).arg("job");
        }
        // The script does not delete a key of the wrong type. `doctor` reports such a key.
        let holders = self
            .link
            .ask(&mut pipeline)
            .await?
            .into_iter()
            .map(|answer| answer.ok().as_ref().and_then(text_of));
        let mut call = self.call(&scripts::FORGET_UNIQUES);
        for (key, holder) in keys.iter().zip(holders) {
            let job = holder.as_ref().and_then(|name| name.parse::<JobName>().ok());
            call = call
                .item()
                .key("unique", self.keys.unique(key))
                .key("holder", job.map_or_else(|| self.keys.unique(key), |job| self.keys.job(&job)))
                .arg("unique_key", key.as_str())
                .arg("holder_name", holder.unwrap_or_default());
        }
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "forgotten" => Ok(usize::try_from(reply.number()?).unwrap_or(0)),
            _ => Err(reply.unknown()),
        }
    }

    /// Returns the facts about each of these unique keys: the key's entry, its owner and its index
    /// entry.
    pub async fn inspect_uniques(
        &self,
        keys: &[UniqueKey],
    ) -> Result<Vec<UniqueFacts>, StoreError> {
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(STEP) {
            let mut pipeline = redis::pipe();
            for key in some {
                pipeline.cmd("HMGET").arg(self.keys.unique(key)).arg(&["job", "until"]);
                pipeline.cmd("ZSCORE").arg(self.keys.uniques()).arg(key.as_str());
                pipeline.cmd("EXISTS").arg(self.keys.unique(key));
            }
            // A key of the wrong type counts as missing. The consistency check reports the key.
            let answers: Vec<Value> = self
                .link
                .ask(&mut pipeline)
                .await?
                .into_iter()
                .map(|it| it.unwrap_or(Value::Nil))
                .collect();
            let mut facts: Vec<UniqueFacts> = Vec::with_capacity(some.len());
            let mut pipeline = redis::pipe();
            for (key, three) in some.iter().zip(answers.chunks_exact(3)) {
                let fields: &[Value] =
                    if let Value::Array(fields) = &three[0] { fields } else { &[] };
                let holder = fields.first().and_then(text_of);
                let job = holder.as_ref().and_then(|name| name.parse::<JobName>().ok());
                pipeline
                    .cmd("HMGET")
                    .arg(job.map_or_else(|| self.keys.unique(key), |job| self.keys.job(&job)));
                pipeline.arg(&["rev", "ended", "unique"]);
                facts.push(UniqueFacts {
                    key: key.clone(),
                    name: self.keys.unique(key),
                    is_there: number_of(&three[2]) == Some(1),
                    holder,
                    until: fields.get(1).and_then(number_of),
                    look_at: text_of(&three[1]).and_then(|score| score.parse().ok()),
                    is_named: false,
                });
            }
            for (facts, job) in facts.iter_mut().zip(self.link.ask(&mut pipeline).await?) {
                if let Ok(Value::Array(job)) = job {
                    let field = |at: usize| job.get(at).and_then(text_of);
                    facts.is_named = field(0).is_some()
                        && field(1).is_none()
                        && field(2).as_deref() == Some(facts.key.as_str());
                }
            }
            all.extend(facts);
        }
        Ok(all)
    }
}
