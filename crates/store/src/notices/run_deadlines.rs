//! Deadlines: the times by which runs should have started and ended.
//!
//! Invariant: a deadline is checked when its time comes, whatever the state of the run. The script
//! that removes the deadline also writes its notification.

use redis::Value;

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::job::notice::Deadline as Kind;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// A deadline for the start or the end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDeadline {
    /// The run that has the deadline.
    pub run: RunId,
    /// The kind of deadline: for the start or for the end.
    pub kind: Kind,
    /// The time by which the run should have started or ended.
    pub at: UnixMillis,
}

/// A range of due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueRange {
    /// The first due time of the range.
    pub from: UnixMillis,
    /// The number of jobs due at `from` to leave out.
    pub skip: usize,
    /// The due time after the range.
    pub before: UnixMillis,
}

/// A page of due but unclaimed runs whose deadlines are not watched yet.
#[derive(Debug, Clone)]
pub struct OverdueRuns {
    /// The runs of the page.
    pub runs: Vec<RunId>,
    /// The next page. None if no more pages follow.
    pub next_page: Option<DueRange>,
    /// The due time of the first planned run after these runs; None if no run is planned.
    pub next_due: Option<UnixMillis>,
}

/// The result of checking a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineReply {
    /// The run did not start or end by the deadline. The notification is written if the job asks
    /// for it.
    Notified,
    /// The run started or ended by the deadline, or the deadline no longer applies.
    Met,
    /// The time of the deadline has not come.
    Early,
    /// Another node checked the deadline first.
    Gone,
}

/// The result of starting to watch the deadlines of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchReply {
    /// The deadlines of the run are watched from now on.
    Watched,
    /// The deadlines of the run were watched before.
    Known,
    /// The run is no longer planned, so its deadlines are not watched.
    Gone,
}

impl Store {
    /// Lists planned runs that are due in `range` and have deadlines that are not watched yet. Reads
    /// at most `limit` jobs.
    pub async fn list_overdue(
        &self,
        range: DueRange,
        limit: usize,
    ) -> Result<OverdueRuns, StoreError> {
        let mut pipeline = redis::pipe();
        let jobs = pipeline
            .cmd("ZRANGE")
            .arg(self.keys.jobs())
            .arg(range.from.as_i64())
            .arg(format!("({}", range.before.as_i64()));
        jobs.arg("BYSCORE").arg("LIMIT").arg(range.skip).arg(limit).arg("WITHSCORES");
        let next =
            pipeline.cmd("ZRANGE").arg(self.keys.jobs()).arg(range.before.as_i64()).arg("+inf");
        next.arg("BYSCORE").arg("LIMIT").arg(0).arg(1).arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let next_due = match answer.get(1) {
            Some(Value::Array(pair)) => pair.get(1).and_then(number_of).and_then(UnixMillis::new),
            _ => None,
        };
        let flat: &[Value] = match answer.first() {
            Some(Value::Array(flat)) => flat,
            _ => &[],
        };
        let due = |pair: &[Value]| Some((pair[0].clone(), UnixMillis::new(number_of(&pair[1])?)?));
        let found: Vec<(Value, UnixMillis)> = flat.chunks_exact(2).filter_map(due).collect();
        let next_page = match found.last() {
            Some((_, last)) if flat.len() == limit * 2 => {
                let skip = found.iter().rev().take_while(|(_, due)| due == last).count();
                let before = if *last == range.from { range.skip } else { 0 };
                Some(DueRange { from: *last, skip: before + skip, ..range })
            }
            _ => None,
        };
        let names: Vec<JobName> =
            found.iter().filter_map(|(name, _)| text_of(name)?.parse().ok()).collect();
        let mut pipeline = redis::pipe();
        for name in &names {
            pipeline.cmd("HMGET").arg(self.keys.job(name)).arg(&["notify", "pending", "watched"]);
        }
        let overdue = |answer: Result<Value, redis::RedisError>| {
            // A job record of the wrong type is skipped. The consistency check reports it.
            let Ok(Value::Array(fields)) = answer else { return None };
            let text = |at: usize| fields.get(at).and_then(text_of).unwrap_or_default();
            let is_timed =
                Kind::ALL.iter().any(|kind| text(0).contains(&format!("{}=", kind.as_str())));
            (is_timed && text(1) != text(2)).then(|| text(1).parse().ok())?
        };
        let runs = self.link.ask(&mut pipeline).await?.into_iter().filter_map(overdue).collect();
        Ok(OverdueRuns { runs, next_page, next_due })
    }

    /// Starts to watch the deadlines of a planned run.
    pub async fn watch_run(&self, run: &RunId) -> Result<WatchReply, StoreError> {
        let call = self.call(&scripts::WATCH_RUN).of_run(run);
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "watched" => WatchReply::Watched,
            "known" => WatchReply::Known,
            "gone" => WatchReply::Gone,
            _ => return Err(reply.unknown()),
        })
    }

    /// Lists at most `limit` deadlines after the first `skip`, the earliest first. A malformed
    /// entry is None.
    pub async fn list_deadlines(
        &self,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Option<RunDeadline>>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.deadlines())
            .arg(skip)
            .arg((skip + limit).saturating_sub(1))
            .arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(flat)) = answer.first() else { return Ok(Vec::new()) };
        let read = |pair: &[Value]| {
            let (run, kind) = parse_deadline(&text_of(&pair[0])?)?;
            Some(RunDeadline { run, kind, at: number_of(&pair[1]).and_then(UnixMillis::new)? })
        };
        Ok(flat.chunks_exact(2).map(read).collect())
    }

    /// Checks a deadline. Writes the notification if the run did not start or end by the deadline.
    pub async fn judge_deadline(
        &self,
        deadline: &RunDeadline,
    ) -> Result<DeadlineReply, StoreError> {
        let run = &deadline.run;
        let call =
            self.call(&scripts::JUDGE_DEADLINE).of_run(run).arg("kind", deadline.kind.as_str());
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "notified" => DeadlineReply::Notified,
            "met" => DeadlineReply::Met,
            "early" => DeadlineReply::Early,
            "gone" => DeadlineReply::Gone,
            _ => return Err(reply.unknown()),
        })
    }
}

fn parse_deadline(member: &str) -> Option<(RunId, Kind)> {
    let (run, kind) = member.split_once(' ')?;
    Some((run.parse().ok()?, Kind::parse(kind)?))
}
