//! Changes of queues by hand: settings, pause and resume. Also counts the runs of each queue.

use redis::Value;

use super::section_fields::queue_fields;
use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::queue_rules::{QueueChange, QueueKey, QueueSettings};
use schedd_schedule::names::{JobName, QueueName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The change that pauses or resumes a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueSwitch {
    /// Start no runs of the queue.
    Pause,
    /// Start runs of the queue again.
    Resume,
}

/// The result of an operation on a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueReply {
    /// The queue was changed.
    Done,
    /// The queue was already in the wanted state.
    Already,
    /// The queue does not exist.
    Unknown,
}

/// The numbers of runs in a lane, and of executing runs in the queue of that lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueDepth {
    /// The number of runs in the lane whose ready time has come.
    pub ready: u64,
    /// The number of runs in the lane whose ready time is later.
    pub scheduled: u64,
    /// The number of executing runs of the lane's queue.
    pub running: u64,
    /// The earliest ready time in the lane, if that time has come.
    pub oldest: Option<UnixMillis>,
    /// The earliest ready time in the lane, if that time is still to come.
    pub next: Option<UnixMillis>,
}

/// The time that one run waited, and the time that it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTimes {
    /// The job of the run.
    pub job: JobName,
    /// The queue of the run.
    pub queue: QueueName,
    /// The time from the run's ready time to its start, in ms. None for a run with more than one
    /// attempt.
    pub wait_ms: Option<u64>,
    /// The time from the start of the run's last attempt to its end, in ms.
    pub run_ms: u64,
}

impl Store {
    /// Sets those settings that `change` names, for one queue. All other settings stay as they are.
    pub async fn set_queue(
        &self,
        queue: &QueueName,
        change: &QueueChange,
    ) -> Result<QueueReply, StoreError> {
        let is_named = |field: &str| {
            let key = match field {
                "concurrency" if change.named.contains(&QueueKey::OwnConcurrency) => {
                    QueueKey::OwnConcurrency
                }
                "concurrency" => QueueKey::Concurrency,
                "limit" => QueueKey::Limit,
                "weight" | "strict" => QueueKey::Share,
                "warn_depth" | "warn_oldest_ms" | "on_backlog" => QueueKey::Backlog,
                _ => QueueKey::Rate,
            };
            change.named.contains(&key)
        };
        let is_own = change.named.contains(&QueueKey::OwnConcurrency);
        let call = self
            .call(&scripts::SET_QUEUE)
            .of_queue(queue)
            .arg("queue_name", queue.as_str())
            .arg("rule", if *queue == QueueName::default_queue() { "always" } else { "declared" })
            .arg("plain", QueueSettings::DEFAULT_CONCURRENCY)
            .arg("by", &*self.by);
        let fields =
            queue_fields(&change.settings).into_iter().filter(|(field, _)| is_named(field));
        let call = fields.fold(call, |call, (field, value)| {
            call.arg("field", field)
                .arg("value", if field == "concurrency" && is_own { String::new() } else { value })
        });
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "set" => QueueReply::Done,
            "unknown" => QueueReply::Unknown,
            _ => return Err(reply.unknown()),
        })
    }

    /// Pauses or resumes a queue.
    pub async fn switch_queue(
        &self,
        queue: &QueueName,
        to: QueueSwitch,
    ) -> Result<QueueReply, StoreError> {
        let call = self
            .call(&scripts::SWITCH_QUEUE)
            .of_queue(queue)
            .arg("queue_name", queue.as_str())
            .arg("undeclared", undeclared(queue))
            .arg("action", if to == QueueSwitch::Pause { "pause" } else { "resume" })
            .arg("by", &*self.by);
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "paused" | "resumed" => QueueReply::Done,
            "already" => QueueReply::Already,
            "unknown" => QueueReply::Unknown,
            _ => return Err(reply.unknown()),
        })
    }

    /// Returns the numbers of runs in each of these lanes at `now`. A key of the wrong type counts
    /// as empty, and the consistency check reports the key.
    pub async fn read_depths(
        &self,
        lanes: &[Lane],
        now: UnixMillis,
    ) -> Result<Vec<QueueDepth>, StoreError> {
        let mut pipeline = redis::pipe();
        for lane in lanes {
            pipeline.cmd("ZCARD").arg(self.keys.due(lane));
            pipeline.cmd("ZCOUNT").arg(self.keys.due(lane)).arg("-inf").arg(now.as_i64());
            pipeline.cmd("ZRANGE").arg(self.keys.due(lane)).arg(0).arg(0).arg("WITHSCORES");
            pipeline.cmd("ZCARD").arg(self.keys.running(lane.queue()));
        }
        let answers = self.link.ask(&mut pipeline).await?;
        let number = |answer: &Result<Value, redis::RedisError>| {
            answer
                .as_ref()
                .ok()
                .and_then(number_of)
                .and_then(|number| u64::try_from(number).ok())
                .unwrap_or(0)
        };
        let read = |parts: &[Result<Value, redis::RedisError>]| {
            let (all, ready) = (number(&parts[0]), number(&parts[1]));
            let head = match &parts[2] {
                Ok(Value::Array(pair)) => pair.get(1).and_then(number_of).and_then(UnixMillis::new),
                _ => None,
            };
            let oldest = head.filter(|head| *head <= now && ready > 0);
            let next = head.filter(|head| *head > now);
            QueueDepth {
                ready,
                scheduled: all.saturating_sub(ready),
                running: number(&parts[3]),
                oldest,
                next,
            }
        };
        Ok(answers.chunks_exact(4).map(read).collect())
    }

    /// Lists at most `most` executing runs of a queue, the earliest start first. Also returns the
    /// number of all executing runs of the queue. A key of the wrong type counts as empty, and the
    /// consistency check reports the key.
    pub async fn list_running(
        &self,
        queue: &QueueName,
        most: usize,
    ) -> Result<(Vec<RunId>, u64), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.running(queue)).arg(0).arg(most.saturating_sub(1));
        pipeline.cmd("ZCARD").arg(self.keys.running(queue));
        let answers = self.link.ask(&mut pipeline).await?;
        let [Ok(Value::Array(ids)), Ok(count)] = answers.as_slice() else {
            return Ok((Vec::new(), 0));
        };
        let ids = ids.iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect();
        Ok((ids, number_of(count).and_then(|count| u64::try_from(count).ok()).unwrap_or(0)))
    }

    /// Returns the waiting time and duration of the runs that ended last, of all queues, at most
    /// `most`. Runs that never started are left out.
    pub async fn read_run_times(&self, most: usize) -> Result<Vec<RunTimes>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.history())
            .arg(0)
            .arg(most.saturating_sub(1))
            .arg("REV");
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next();
        let Some(Ok(Value::Array(ids))) = answer else { return Ok(Vec::new()) };
        let runs: Vec<RunId> =
            ids.iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect();
        let mut pipeline = redis::pipe();
        for run in &runs {
            let fields = ["queue", "attempt", "due", "ready_at", "started_at", "finished_at"];
            pipeline.cmd("HMGET").arg(self.keys.run(run)).arg(&fields);
        }
        let answers = self.link.ask(&mut pipeline).await?;
        let times = |(run, answer): (RunId, Result<Value, _>)| times_of(run.job(), &answer.ok()?);
        Ok(runs.into_iter().zip(answers).filter_map(times).collect())
    }
}

fn times_of(job: &JobName, value: &Value) -> Option<RunTimes> {
    let Value::Array(fields) = value else { return None };
    let number = |at: usize| number_of(fields.get(at)?);
    let (started, finished) = (number(4)?, number(5)?);
    let ready = number(3).or_else(|| number(2))?;
    let wait = (number(1)? == 1).then(|| u64::try_from(started - ready).unwrap_or(0));
    let lane: Lane = text_of(fields.first()?)?.parse().ok()?;
    Some(RunTimes {
        job: job.clone(),
        queue: lane.queue().clone(),
        wait_ms: wait,
        run_ms: u64::try_from(finished - started).unwrap_or(0),
    })
}

/// Returns the concurrency of an undeclared queue as text. The queue `default` has the default
/// concurrency; any other queue has the empty text.
fn undeclared(queue: &QueueName) -> String {
    if *queue == QueueName::default_queue() {
        QueueSettings::DEFAULT_CONCURRENCY.to_string()
    } else {
        String::new()
    }
}
