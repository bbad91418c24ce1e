//! Runs as they are kept: reading one, and the history of a job or of all, newest first.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::reply::text_of;
use super::scripts::{self, Invocation};
use crate::domain::ids::{Fence, JobName, QueueName, RunId};
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;

/// A run as it is kept.
#[derive(Debug, Clone)]
pub struct RunRecord {
    /// Its id.
    pub run: RunId,
    /// Its state.
    pub state: RunState,
    /// Number of its last attempt, 0 before the first.
    pub attempt: u32,
    /// The last attempt's fence.
    pub fence: Option<Fence>,
    /// The node of the last attempt.
    pub node: Option<String>,
    /// That node's incarnation.
    pub incarnation: Option<String>,
    /// How long its leases last.
    pub lease: Option<Duration>,
    /// The queue it was claimed from.
    pub queue: QueueName,
    /// When the last attempt started.
    pub started_at: Option<UnixMillis>,
    /// When the run ended.
    pub finished_at: Option<UnixMillis>,
    /// From when it may be claimed, if it waits for a retry.
    pub ready: Option<UnixMillis>,
    /// The process' exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The HTTP status.
    pub http_status: Option<u16>,
    /// Why it is in its state, if the state does not say it.
    pub reason: Option<String>,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// Whether processes it left behind had to be killed.
    pub left_processes: bool,
    /// Attempts that failed by themselves.
    pub failures: u32,
    /// Times in a row it was lost with its node.
    pub recoveries: u32,
    /// For a skipped stretch: its last occurrence, and how many there are.
    pub skipped: Option<(UnixMillis, u64)>,
    /// Earlier attempts, oldest first.
    pub past: Vec<PastAttempt>,
}

/// An earlier attempt of a run, as `engine` wrote it.
#[derive(Debug, Clone)]
pub struct PastAttempt {
    /// Its number.
    pub number: u32,
    /// Its record, JSON.
    pub record: String,
}

/// Runs that ended, newest first, and where the next page begins.
#[derive(Debug, Clone)]
pub struct HistoryPage {
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// How many entries were read to get them: some may have been forgotten meanwhile.
    pub entries: usize,
}

impl RunRecord {
    fn read(run: &RunId, fields: &Value) -> Result<Option<Self>, StoreError> {
        let Value::Array(flat) = fields else { return Err(StoreError::corrupt(format!("run {run}"), format!("{fields:?}"))) };
        let map: BTreeMap<String, String> =
            flat.chunks_exact(2).filter_map(|pair| Some((text_of(&pair[0])?, text_of(&pair[1])?))).collect();
        let Some(state) = map.get("state") else { return Ok(None) };
        let state = state
            .parse()
            .map_err(|error: crate::domain::run::UnknownState| StoreError::corrupt(format!("run {run}"), error.to_string()))?;
        let text = |field: &str| map.get(field).filter(|text| !text.is_empty()).cloned();
        let instant = |field: &str| map.get(field).and_then(|ms| ms.parse().ok()).and_then(UnixMillis::new);
        let number = |field: &str| map.get(field).and_then(|n| n.parse::<u64>().ok());
        let count = |field: &str| number(field).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let mut past: Vec<PastAttempt> = map
            .iter()
            .filter_map(|(field, record)| {
                Some(PastAttempt { number: field.strip_prefix("past:")?.parse().ok()?, record: record.clone() })
            })
            .collect();
        past.sort_by_key(|attempt| attempt.number);
        Ok(Some(Self {
            run: run.clone(),
            state,
            attempt: count("attempt"),
            fence: number("fence").and_then(Fence::new),
            node: text("node"),
            incarnation: text("incarnation"),
            lease: number("lease_ms").map(Duration::from_millis),
            queue: text("queue").and_then(|queue| queue.parse().ok()).unwrap_or_else(QueueName::default_queue),
            started_at: instant("started_at"),
            finished_at: instant("finished_at"),
            ready: instant("ready").filter(|_| !state.is_final()),
            exit_code: text("exit_code").and_then(|code| code.parse().ok()),
            signal: text("signal").and_then(|signal| signal.parse().ok()),
            http_status: text("http_status").and_then(|status| status.parse().ok()),
            reason: text("reason"),
            error: text("error"),
            left_processes: map.get("left_processes").is_some_and(|flag| flag == "1"),
            failures: count("failures"),
            recoveries: count("recoveries"),
            skipped: instant("skipped_to").zip(number("skipped_count")),
            past,
        }))
    }
}

impl Store {
    /// The runs of these ids: what is kept of each, or none, or why it cannot be read.
    pub async fn read_runs(&self, ids: &[RunId]) -> Result<Vec<Result<Option<RunRecord>, StoreError>>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = redis::pipe();
        for id in ids {
            pipeline.cmd("HGETALL").arg(self.keys.run(id));
        }
        let answers = self.link.ask(&mut pipeline).await?;
        let read = |(id, answer): (&RunId, Result<Value, redis::RedisError>)| match answer {
            Ok(fields) => RunRecord::read(id, &fields),
            Err(error) if error.code() == Some("WRONGTYPE") => Err(StoreError::WrongType {
                key: self.keys.run(id),
                found: "value of another type".to_owned(),
                wanted: "hash".to_owned(),
            }),
            Err(error) => Err(StoreError::from_redis(self.address(), &error)),
        };
        Ok(ids.iter().zip(answers).map(read).collect())
    }

    /// The run of this id.
    pub async fn read_run(&self, id: &RunId) -> Result<Option<RunRecord>, StoreError> {
        self.read_runs(std::slice::from_ref(id)).await?.pop().unwrap_or(Ok(None))
    }

    /// Runs that ended, newest first: of one job or of all, `limit` of them from the `offset`-th on.
    pub async fn read_history(&self, job: Option<&JobName>, offset: usize, limit: usize) -> Result<HistoryPage, StoreError> {
        if limit == 0 {
            return Ok(HistoryPage { runs: Vec::new(), entries: 0 });
        }
        let index = job.map_or_else(|| self.keys.history(), |job| self.keys.job_history(job));
        let ids = self.run_ids(&index, offset, limit, "REV").await?;
        let records = self.read_runs(&ids).await?;
        let runs = records.into_iter().filter_map(|record| record.ok().flatten()).collect();
        Ok(HistoryPage { runs, entries: ids.len() })
    }

    /// The open regular runs of a job, oldest due first, at most 1,000.
    pub async fn list_open(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.open(job), 0, 1_000, "").await
    }

    /// The runs of a job waiting for an open one to end, oldest due first, at most 1,000.
    pub async fn list_waiting(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.waiting(job), 0, 1_000, "").await
    }

    /// The missed runs of a job that are to run at a time of their own, first ready first, at most 1,000.
    pub async fn list_spread(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.spread(job), 0, 1_000, "").await
    }

    async fn run_ids(&self, index: &str, offset: usize, limit: usize, order: &str) -> Result<Vec<RunId>, StoreError> {
        let mut pipeline = redis::pipe();
        let command = pipeline.cmd("ZRANGE").arg(index).arg(offset).arg(offset.saturating_add(limit - 1));
        if !order.is_empty() {
            command.arg(order);
        }
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(ids)) = answer.first() else { return Ok(Vec::new()) };
        Ok(ids.iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect())
    }

    /// Forgets runs past what history keeps: those that ended before `before`, and the oldest beyond `most`; at most 100,
    /// of one job or of all. Gives how many.
    pub async fn forget_runs(&self, job: Option<&JobName>, before: UnixMillis, most: usize) -> Result<usize, StoreError> {
        let index = job.map_or_else(|| self.keys.history(), |job| self.keys.job_history(job));
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZCARD").arg(&index);
        pipeline.cmd("ZRANGE").arg(&index).arg(0).arg(99).arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let [total, Value::Array(flat)] = answer.as_slice() else { return Ok(0) };
        let mut over = super::reply::number_of(total).and_then(|n| usize::try_from(n).ok()).unwrap_or(0).saturating_sub(most);
        let mut call = Invocation::new(&scripts::FORGET_RUNS).key("history", self.keys.history());
        let mut forgotten = 0;
        for pair in flat.chunks_exact(2) {
            let (Some(member), Some(ended)) = (text_of(&pair[0]), super::reply::number_of(&pair[1])) else { continue };
            if ended >= before.as_i64() && over == 0 {
                break;
            }
            over = over.saturating_sub(1);
            let Ok(run) = member.parse::<RunId>() else { continue };
            call = call.key("run", self.keys.run(&run)).key("job_history", self.keys.job_history(run.job())).arg("id", member);
            forgotten += 1;
        }
        if forgotten > 0 {
            self.link.invoke(&call).await?;
        }
        Ok(forgotten)
    }

    /// Forgets jobs that ended before `before`, and the first to end beyond `most`; at most 100. Gives how many were looked at.
    pub async fn forget_jobs(&self, before: UnixMillis, most: usize) -> Result<usize, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZCARD").arg(self.keys.finished());
        pipeline.cmd("ZRANGE").arg(self.keys.finished()).arg(0).arg(99).arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let [total, Value::Array(flat)] = answer.as_slice() else { return Ok(0) };
        let mut over = super::reply::number_of(total).and_then(|n| usize::try_from(n).ok()).unwrap_or(0).saturating_sub(most);
        let mut call = Invocation::new(&scripts::FORGET_JOBS).key("finished", self.keys.finished());
        let mut looked_at = 0;
        for pair in flat.chunks_exact(2) {
            let (Some(member), Some(ended)) = (text_of(&pair[0]), super::reply::number_of(&pair[1])) else { continue };
            if ended >= before.as_i64() && over == 0 {
                break;
            }
            over = over.saturating_sub(1);
            let Ok(name) = member.parse::<JobName>() else { continue };
            call = call
                .key("job", self.keys.job(&name))
                .key("open", self.keys.open(&name))
                .key("waiting", self.keys.waiting(&name))
                .arg("job_name", member);
            looked_at += 1;
        }
        if looked_at > 0 {
            self.link.invoke(&call).await?;
        }
        Ok(looked_at)
    }
}
