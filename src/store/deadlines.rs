//! When runs are to have started and ended, of jobs that say so.
//!
//! Invariant: a run is looked at when its time comes, whatever has become of it by then; what is told of it is told by the script that
//! takes the time off the list.

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::ids::{JobName, RunId};
use crate::domain::notice::Deadline as Kind;
use crate::domain::time::UnixMillis;

/// A time by which something is to have befallen a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadline {
    /// The run.
    pub run: RunId,
    /// What.
    pub kind: Kind,
    /// When.
    pub at: UnixMillis,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineReply {
    /// It did not, and whoever is to be is told.
    Told,
    /// It has, or is not to any more.
    Met,
    /// Its time has not come.
    Early,
    /// Another node was first.
    Gone,
}

/// What became of a run that is to be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchReply {
    /// It is from now on.
    Watched,
    /// It was before.
    Known,
    /// It is planned no more.
    Gone,
}

impl Store {
    /// The planned runs due before `before` whose jobs say when they are to have started or ended, and which are not watched yet, of
    /// `limit` jobs from the `offset`-th on; and whether those were the last.
    pub async fn list_overdue(&self, before: UnixMillis, offset: usize, limit: usize) -> Result<(Vec<RunId>, bool), StoreError> {
        let mut pipeline = redis::pipe();
        let range = pipeline.cmd("ZRANGE").arg(self.keys.jobs()).arg("-inf").arg(format!("({}", before.as_i64()));
        range.arg("BYSCORE").arg("LIMIT").arg(offset).arg(limit);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(names)) = answer.first() else { return Ok((Vec::new(), true)) };
        let is_last = names.len() < limit;
        let names: Vec<JobName> = names.iter().filter_map(|name| text_of(name)?.parse().ok()).collect();
        if names.is_empty() {
            return Ok((Vec::new(), is_last));
        }
        let mut pipeline = redis::pipe();
        for name in &names {
            pipeline.cmd("HMGET").arg(self.keys.job(name)).arg(&["tells", "pending", "watched"]);
        }
        let overdue = |answer: Result<Value, redis::RedisError>| {
            // One that holds something else is a finding of its own.
            let Ok(Value::Array(fields)) = answer else { return None };
            let text = |at: usize| fields.get(at).and_then(text_of).unwrap_or_default();
            let is_timed = Kind::ALL.iter().any(|kind| text(0).contains(&format!("{}=", kind.as_str())));
            (is_timed && text(1) != text(2)).then(|| text(1).parse().ok())?
        };
        Ok((self.link.ask(&mut pipeline).await?.into_iter().filter_map(overdue).collect(), is_last))
    }

    /// Has a planned run watched.
    pub async fn watch_run(&self, run: &RunId) -> Result<WatchReply, StoreError> {
        let call = Invocation::new(&scripts::WATCH_RUN)
            .key("job", self.keys.job(run.job()))
            .key("deadlines", self.keys.deadlines())
            .arg("id", run.to_string())
            .arg("due_ms", run.due().as_i64());
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "watched" => WatchReply::Watched,
            "known" => WatchReply::Known,
            "gone" => WatchReply::Gone,
            _ => return Err(reply.unknown()),
        })
    }

    /// The times that come first behind the first `skip`, at most `limit`; none for one that cannot be read.
    pub async fn list_deadlines(&self, skip: usize, limit: usize) -> Result<Vec<Option<Deadline>>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.deadlines()).arg(skip).arg((skip + limit).saturating_sub(1)).arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(flat)) = answer.first() else { return Ok(Vec::new()) };
        let read = |pair: &[Value]| {
            let (run, kind) = parse_deadline(&text_of(&pair[0])?)?;
            Some(Deadline { run, kind, at: number_of(&pair[1]).and_then(UnixMillis::new)? })
        };
        Ok(flat.chunks_exact(2).map(read).collect())
    }

    /// Looks whether what was to befall a run by now has, and else tells of it.
    pub async fn judge_deadline(&self, deadline: &Deadline) -> Result<DeadlineReply, StoreError> {
        let (keys, run) = (&self.keys, &deadline.run);
        let call = Invocation::new(&scripts::JUDGE_DEADLINE)
            .key("deadlines", keys.deadlines())
            .key("run", keys.run(run))
            .key("job", keys.job(run.job()))
            .key("notices", keys.notices())
            .key("totals", keys.totals())
            .key("nudge", keys.nudge())
            .key("open", keys.open(run.job()))
            .arg("now", self.now_arg())
            .arg("id", run.to_string())
            .arg("kind", deadline.kind.as_str())
            .arg("due_ms", run.due().as_i64());
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "told" => DeadlineReply::Told,
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
