//! Runs as they are kept: reading one, and the history of a job or of all, newest first.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::reply::text_of;
use crate::domain::gate::Gate;
use crate::domain::ids::{Fence, JobName, RunId};
use crate::domain::lane::Lane;
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
    /// The token of the call that claimed it.
    pub claim_token: Option<String>,
    /// How long its leases last.
    pub lease: Option<Duration>,
    /// The queue it was claimed from.
    pub lane: Lane,
    /// When the last attempt started.
    pub started_at: Option<UnixMillis>,
    /// When the run ended.
    pub finished_at: Option<UnixMillis>,
    /// From when it may be claimed, if it waits for a retry.
    pub ready: Option<UnixMillis>,
    /// Since when it waits for that.
    pub waits_from: Option<UnixMillis>,
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
    /// Which limits the node of its last attempt could not hold it to, as a list.
    pub not_enforced: Option<String>,
    /// Attempts that failed by themselves.
    pub failures: u32,
    /// Times in a row it was lost with its node.
    pub recoveries: u32,
    /// When a person last asked for it again.
    pub retried_at: Option<UnixMillis>,
    /// Times in a row its `done_check` gave no clear answer.
    pub unclear: u32,
    /// For a skipped stretch: its last occurrence, and how many there are.
    pub skipped: Option<(UnixMillis, u64)>,
    /// Who had it cancelled, `user@host`.
    pub by: Option<String>,
    /// Of a run by hand: who asked for it.
    pub asked_by: Option<String>,
    /// When it was planted, if not with its predecessor: spread, or asked for by hand.
    pub planted_at: Option<UnixMillis>,
    /// When it became ready for its first claim, if that was not its due time.
    pub ready_at: Option<UnixMillis>,
    /// When it was first claimed, where that was handed back and claimed anew.
    pub first_start: Option<UnixMillis>,
    /// How long its last attempt took by its node's clock, without the time until Redis took its end; none if no node told.
    pub told_took: Option<Duration>,
    /// Why a node handed it back unexecuted, if one did.
    pub handed_back: Option<String>,
    /// The open run of its job it met at its claim: it was skipped for that one, or waited for its end.
    pub behind: Option<RunId>,
    /// Since when it waited for that one.
    pub waited_from: Option<UnixMillis>,
    /// The gate it waited at last, in words, and until when.
    pub waited_at: Option<(String, UnixMillis)>,
    /// What it waits for, while it does: `overlap`, or a gate in words.
    pub waiting_for: Option<String>,
    /// The gates at which it holds places; at the last it may wait for one.
    pub places: Vec<Gate>,
    /// Earlier attempts, oldest first.
    pub past: Vec<PastAttempt>,
}

/// An earlier attempt of a run, as `engine` wrote it.
#[derive(Debug, Clone)]
pub struct PastAttempt {
    /// Its number.
    pub number: u32,
    /// It was cut short as its node stopped, and its number is used again.
    pub is_cut_short: bool,
    /// Its record, JSON.
    pub record: String,
}

/// Which runs that ended are wanted.
#[derive(Debug, Clone)]
pub struct Ended {
    /// All of them, or dead letters only.
    pub letters: Letters,
    /// Of one job, or of all.
    pub job: Option<JobName>,
    /// Those that ended at this instant or later.
    pub since: Option<UnixMillis>,
    /// Those that ended before this one.
    pub until: Option<UnixMillis>,
    /// Whether those that tell people of others are among them.
    pub notices: Notices,
}

/// Whether runs that tell people of others are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notices {
    /// They are.
    With,
    /// They are not.
    Without,
}

/// An index of runs that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// History.
    All,
    /// Runs that failed, timed out or were lost.
    Dead,
}

impl Ended {
    /// All of history.
    pub fn history() -> Self {
        Self { letters: Letters::All, job: None, since: None, until: None, notices: Notices::With }
    }

    /// All dead letters.
    pub fn dead() -> Self {
        Self { letters: Letters::Dead, ..Self::history() }
    }
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
    /// The record of a planted run, which has none of its own before its first claim.
    pub fn planted(run: RunId, lane: Lane) -> Self {
        Self {
            state: RunState::Scheduled,
            attempt: 0,
            fence: None,
            node: None,
            incarnation: None,
            claim_token: None,
            lease: None,
            lane,
            started_at: None,
            finished_at: None,
            ready: Some(run.due()),
            waits_from: None,
            exit_code: None,
            signal: None,
            http_status: None,
            reason: None,
            error: None,
            left_processes: false,
            not_enforced: None,
            failures: 0,
            recoveries: 0,
            retried_at: None,
            unclear: 0,
            skipped: None,
            by: None,
            asked_by: None,
            planted_at: None,
            ready_at: None,
            first_start: None,
            told_took: None,
            handed_back: None,
            behind: None,
            waited_from: None,
            waited_at: None,
            waiting_for: None,
            places: Vec::new(),
            past: Vec::new(),
            run,
        }
    }

    /// How long its last attempt took, if it is over: what its node told, or else the time until Redis took its end.
    pub fn took(&self) -> Option<Duration> {
        let until_recorded = self.finished_at?.since(self.started_at?);
        Some(self.told_took.map_or(until_recorded, |took| took.min(until_recorded)))
    }

    /// When its last attempt ended, if it has; Redis may have taken that later, at `finished_at`.
    pub fn attempt_ended_at(&self) -> Option<UnixMillis> {
        self.started_at.zip(self.took()).map(|(from, took)| from.saturating_add(took)).or(self.finished_at)
    }

    /// How long after the end of its last attempt Redis took that.
    pub fn recorded_after(&self) -> Option<Duration> {
        let _told = self.told_took?;
        Some(self.finished_at?.since(self.attempt_ended_at()?))
    }

    /// Whether the facts of attempt `attempt` stand in the record itself, not yet among those before.
    pub fn has_current(&self) -> bool {
        self.attempt > 0 && !self.past.iter().any(|past| past.number == self.attempt && !past.is_cut_short)
    }

    /// Whether it waits for its attempt to be made anew that was cut short as its node stopped.
    pub fn is_cut_short(&self) -> bool {
        self.state == RunState::Scheduled && self.past.last().is_some_and(|past| past.is_cut_short && past.number > self.attempt)
    }

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
        let past = past_attempts(&map);
        Ok(Some(Self {
            run: run.clone(),
            state,
            attempt: count("attempt"),
            fence: number("fence").and_then(Fence::new),
            node: text("node"),
            incarnation: text("incarnation"),
            claim_token: text("claim"),
            lease: number("lease_ms").map(Duration::from_millis),
            lane: text("queue").and_then(|lane| lane.parse().ok()).unwrap_or_else(Lane::default_lane),
            started_at: instant("started_at"),
            finished_at: instant("finished_at"),
            ready: instant("ready").filter(|_| !state.is_final()),
            waits_from: instant("waits_from"),
            exit_code: text("exit_code").and_then(|code| code.parse().ok()),
            signal: text("signal").and_then(|signal| signal.parse().ok()),
            http_status: text("http_status").and_then(|status| status.parse().ok()),
            reason: text("reason"),
            error: text("error"),
            left_processes: map.get("left_processes").is_some_and(|flag| flag == "1"),
            not_enforced: text("not_enforced"),
            failures: count("failures"),
            recoveries: count("recoveries"),
            retried_at: instant("retried_at"),
            unclear: count("unclear"),
            skipped: instant("skipped_to").zip(number("skipped_count")),
            by: text("by"),
            asked_by: text("asked_by"),
            planted_at: instant("planted_at"),
            ready_at: instant("ready_at"),
            first_start: instant("first_start"),
            // An attempt that was lost told nothing: what stands there is of one before.
            told_took: number("took_ms").filter(|_| text("settled") == text("fence")).map(Duration::from_millis),
            handed_back: text("handed_back"),
            behind: text("behind").and_then(|run| run.parse().ok()),
            waited_from: instant("waited_from"),
            waited_at: text("waited_at").zip(instant("waited_to")),
            waiting_for: text("waiting_for").filter(|_| state == RunState::Scheduled),
            places: text("places").map_or_else(Vec::new, |places| Gate::all_in(&places)),
            past,
        }))
    }
}

/// Oldest first; of one number those that were cut short come before the one that was not.
fn past_attempts(fields: &BTreeMap<String, String>) -> Vec<PastAttempt> {
    let mut past = Vec::new();
    for (field, text) in fields {
        let (number, is_cut_short) = match (field.strip_prefix("past:"), field.strip_prefix("cut:")) {
            (Some(number), _) => (number, false),
            (None, Some(number)) => (number, true),
            (None, None) => continue,
        };
        let Ok(number) = number.parse() else { continue };
        past.extend(text.lines().map(|record| PastAttempt { number, is_cut_short, record: record.to_owned() }));
    }
    past.sort_by_key(|attempt| (attempt.number, !attempt.is_cut_short));
    past
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
        self.read_ended(&Ended { job: job.cloned(), ..Ended::history() }, offset, limit).await
    }

    /// Runs that ended as `ended` says, newest first, `limit` of them from the `offset`-th on.
    pub async fn read_ended(&self, ended: &Ended, offset: usize, limit: usize) -> Result<HistoryPage, StoreError> {
        if limit == 0 {
            return Ok(HistoryPage { runs: Vec::new(), entries: 0 });
        }
        let keys = &self.keys;
        let index = match (ended.letters, &ended.job) {
            (Letters::All, None) => keys.history(),
            (Letters::All, Some(job)) => keys.job_history(job),
            (Letters::Dead, None) => keys.dead(),
            (Letters::Dead, Some(job)) => keys.job_dead(job),
        };
        let until = ended.until.map_or_else(|| "+inf".to_owned(), |until| format!("({}", until.as_i64()));
        let since = ended.since.map_or_else(|| "-inf".to_owned(), |since| since.as_i64().to_string());
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(index).arg(until).arg(since).arg("BYSCORE").arg("REV").arg("LIMIT").arg(offset).arg(limit);
        let mut ids = ids_of(&self.link.query(&mut pipeline).await?);
        let entries = ids.len();
        ids.retain(|id| ended.notices == Notices::With || !id.job().is_hidden());
        let records = self.read_runs(&ids).await?;
        let runs = records.into_iter().filter_map(|record| record.ok().flatten()).collect();
        Ok(HistoryPage { runs, entries })
    }

    /// The open regular runs of a job, oldest due first, at most 1,000.
    pub async fn list_open(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.open(job), 1_000).await
    }

    /// The open regular runs of a job due after `after`, oldest due first, at most 1,000.
    pub async fn list_open_after(&self, job: &JobName, after: UnixMillis) -> Result<Vec<RunId>, StoreError> {
        let mut pipeline = redis::pipe();
        let from = format!("({}", after.as_i64());
        pipeline.cmd("ZRANGE").arg(self.keys.open(job)).arg(from).arg("+inf").arg("BYSCORE").arg("LIMIT").arg(0).arg(1_000);
        Ok(ids_of(&self.link.query(&mut pipeline).await?))
    }

    /// The manual runs of a job that are not over, oldest due first, at most 1,000.
    pub async fn list_manual(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.manual(job), 1_000).await
    }

    /// The runs of a job waiting for an open one to end, oldest due first, at most 1,000.
    pub async fn list_waiting(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.waiting(job), 1_000).await
    }

    /// The missed runs of a job that are to run at a time of their own, first ready first, at most 1,000.
    pub async fn list_spread(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.spread(job), 1_000).await
    }

    pub(super) async fn run_ids(&self, index: &str, limit: usize) -> Result<Vec<RunId>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(index).arg(0).arg(limit.saturating_sub(1));
        Ok(ids_of(&self.link.query(&mut pipeline).await?))
    }
}

pub(super) fn ids_of(answer: &[Value]) -> Vec<RunId> {
    let Some(Value::Array(ids)) = answer.first() else { return Vec::new() };
    ids.iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect()
}
