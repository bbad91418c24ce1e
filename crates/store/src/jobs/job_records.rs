//! The records of jobs in Redis.
//!
//! Invariant: a job's `rev` rises with every change and is never reused under one name. A
//! definition cached under (name, rev) therefore never changes.

use std::collections::BTreeMap;

use redis::Value;

use super::rev::Rev;
use crate::Store;
use crate::history::run_record::RunRecord;
use crate::runs::catch_up_spread::SpreadWindow;
use crate::server::record_fields::RecordFields;
use crate::server::reply::{number_of, text_of};
use crate::server::store_error::StoreError;
use schedd_core::domain::job::definition_text::{DEFINITION_PIECES, joined_definition};
use schedd_core::domain::job::notice::NoticeKind;
use schedd_core::domain::job::unique_rule::UniqueKey;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The origin of a job's definition: a file or the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// The definition is from a `jobs.toml` file.
    File,
    /// The definition is from the command line.
    Api,
}

impl SourceKind {
    /// Returns the word for this origin in Redis: `file` or `api`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Api => "api",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::File, Self::Api].into_iter().find(|kind| kind.as_str() == word)
    }
}

/// A job as stored in Redis, live or ended.
#[derive(Debug, Clone)]
pub struct JobRecord {
    /// The job name.
    pub name: JobName,
    /// The job's revision.
    pub rev: Rev,
    /// The first revision with the present definition. Runs of older revisions belong to an earlier job
    /// of this name.
    pub same_since: Rev,
    /// The definition as canonical JSON, written by `config::to_canonical`.
    pub definition: String,
    /// The origin of the definition.
    pub kind: SourceKind,
    /// The file that last changed the job, by its
    /// [`SourceName`](schedd_core::domain::name::job_source::SourceName); empty for the command line.
    pub source: String,
    /// The job's lane.
    pub lane: Lane,
    /// The time zone stored with the job. This zone applies if the definition has no `tz`.
    pub tz: String,
    /// The time from which an `every` schedule counts its intervals.
    pub anchor: UnixMillis,
    /// The time from which the schedule applies.
    pub since: UnixMillis,
    /// One time for each repair that moved the planned run to an earlier time: the last occurrence
    /// that already had a run or was skipped. Keeps the newest 8.
    pub handled: Vec<UnixMillis>,
    /// The planned regular run; None if no run is planned.
    pub pending: Option<RunId>,
    /// The planned regular run that a pause removed from the due set, if any.
    pub paused_run: Option<RunId>,
    /// The time before which the next run does not start, and the run or user that set this time.
    /// None if no time was set. The time may be past.
    pub next_set: Option<(UnixMillis, String)>,
    /// The run that was planned beside the schedule for such a time; None if no run was.
    pub next_run: Option<RunId>,
    /// The time the job was added, and the user who added the job, if known.
    pub created: Option<(UnixMillis, Option<String>)>,
    /// The time since which the job is paused; None if the job is not paused.
    pub paused_at: Option<UnixMillis>,
    /// The word `finished`, or the reason of the job's removal. None for a live job.
    pub ended: Option<String>,
    /// The time the job ended; None for a live job.
    pub ended_at: Option<UnixMillis>,
    /// True for a one-shot job.
    pub is_once: bool,
    /// The number of regular runs that have begun.
    pub begun: u32,
    /// A hash of all changes of the job's skipped ranges so far. Another hash shows that a range has
    /// changed. Empty before the first change.
    pub ranges_mark: String,
    /// The number of suppressed notices of each kind since the last planned notice of that kind. A
    /// suppressed notice is counted but not sent.
    pub suppressed: BTreeMap<NoticeKind, u64>,
    /// The rest of the time window over which the job's missed runs are spread. None if no missed
    /// runs are being spread.
    pub window: Option<SpreadWindow>,
    /// The unique key that the job names, if any.
    pub unique: Option<UniqueKey>,
    /// The rule and the parents of a job in a chain. Empty for any other job.
    pub after: String,
    /// The files that list the job, each with the digest of the definition that the file gives the
    /// job. An empty digest means that the file must be applied again.
    pub listed_by: BTreeMap<String, String>,
}

fn handled_in(times: &str) -> Vec<UnixMillis> {
    times.split(' ').filter_map(|at| at.parse().ok()).filter_map(UnixMillis::new).collect()
}

impl JobRecord {
    /// Returns true if the job is defined: neither finished nor removed.
    pub fn is_live(&self) -> bool {
        self.ended.is_none()
    }

    /// Returns true if `run` belongs to an earlier job of this name with another definition.
    pub fn is_later_than(&self, run: &RunRecord) -> bool {
        run.rev.as_ref().is_some_and(|rev| rev.number() < self.same_since.number())
    }

    pub(crate) fn read(name: &JobName, answer: &Value) -> Result<Option<Self>, StoreError> {
        let corrupt = |what: String| StoreError::corrupt(format!("job {name}"), what);
        let Some(fields) = RecordFields::of(answer) else {
            return Err(corrupt(format!("found {answer:?}, wanted the fields of a hash")));
        };
        let Some(rev) = fields.get("rev") else { return Ok(None) };
        let missing = |field: &str| corrupt(format!("the field {field:?} is missing or invalid"));
        let text = |field: &str| fields.get(field).ok_or_else(|| missing(field));
        let definition =
            joined_definition(|piece| fields.get(piece)).ok_or_else(|| missing("def"))?;
        // A revision is the time of its change in microseconds.
        let added = fields.get("first_rev").unwrap_or(rev).parse::<i64>().ok();
        let created = fields.instant("created_at").or_else(|| {
            UnixMillis::new(added? / 1_000).filter(|_| fields.get("created_at").is_none())
        });
        let run = |field: &str| match fields.filled(field) {
            None => Ok(None),
            Some(id) => id.parse::<RunId>().map(Some).map_err(|_| missing(field)),
        };
        let suppressed = |kind: NoticeKind| {
            let count = fields.parsed(&format!("suppressed:{kind}")).filter(|count| *count > 0)?;
            Some((kind, count))
        };
        Ok(Some(Self {
            name: name.clone(),
            rev: Rev::of(rev),
            same_since: Rev::of(fields.get("same_since").unwrap_or(rev)),
            definition,
            kind: fields
                .get("kind")
                .map_or(Some(SourceKind::Api), SourceKind::parse)
                .ok_or_else(|| missing("kind"))?,
            source: fields.get("source").unwrap_or_default().to_owned(),
            lane: text("queue")?.parse().map_err(|_| missing("queue"))?,
            tz: text("tz")?.to_owned(),
            anchor: fields.instant("anchor").or(created).ok_or_else(|| missing("anchor"))?,
            since: fields.instant("since").ok_or_else(|| missing("since"))?,
            after: fields.get("after").unwrap_or_default().to_owned(),
            handled: fields.get("handled").map(handled_in).unwrap_or_default(),
            pending: run("pending")?,
            paused_run: run("paused_run")?,
            next_set: fields.instant("next_at").zip(fields.get("next_by").map(str::to_owned)),
            next_run: run("next_run")?,
            created: created.map(|at| (at, fields.filled("created_by").map(str::to_owned))),
            paused_at: fields.instant("paused"),
            ended: fields.get("ended").map(str::to_owned),
            ended_at: fields.instant("ended_at"),
            is_once: text("once")? == "1",
            begun: fields.parsed("started_count").unwrap_or(0),
            ranges_mark: fields.get("ranges_mark").unwrap_or_default().to_owned(),
            suppressed: NoticeKind::ALL.into_iter().filter_map(suppressed).collect(),
            window: fields.get("window").and_then(SpreadWindow::parse),
            unique: fields.parsed("unique"),
            listed_by: fields
                .iter()
                .filter_map(|(field, hash)| {
                    Some((field.strip_prefix("src:")?.to_owned(), hash.to_owned()))
                })
                .collect(),
        }))
    }
}

impl Store {
    /// Returns the records of the jobs with these names, in that order. A missing job gives None;
    /// an unreadable job gives the error.
    pub async fn read_jobs(
        &self,
        names: &[JobName],
    ) -> Result<Vec<Result<Option<JobRecord>, StoreError>>, StoreError> {
        let mut pipeline = redis::pipe();
        for name in names {
            pipeline.cmd("HGETALL").arg(self.keys.job(name));
        }
        let answers = self.link.ask(&mut pipeline).await?;
        let read = |(name, answer): (&JobName, Result<Value, redis::RedisError>)| match answer {
            Ok(fields) => JobRecord::read(name, &fields),
            Err(error) if error.code() == Some("WRONGTYPE") => Err(StoreError::WrongType {
                key: self.keys.job(name),
                found: "value of another type".to_owned(),
                wanted: "hash".to_owned(),
            }),
            Err(error) => Err(StoreError::from_redis(self.address(), &error)),
        };
        Ok(names.iter().zip(answers).map(read).collect())
    }

    /// Returns the definition text of each of these jobs; None for a missing or unreadable job.
    pub async fn read_definitions(
        &self,
        names: &[JobName],
    ) -> Result<Vec<Option<String>>, StoreError> {
        let mut pipeline = redis::pipe();
        for name in names {
            pipeline.cmd("HMGET").arg(self.keys.job(name)).arg(&DEFINITION_PIECES);
        }
        let read = |answer: &Value| {
            let Value::Array(found) = answer else { return None };
            let pieces: Vec<String> = found.iter().map_while(text_of).collect();
            (!pieces.is_empty()).then(|| pieces.concat())
        };
        Ok(self.well_typed(&mut pipeline).await?.iter().map(read).collect())
    }

    /// Returns the names of those jobs in `names` that are not one-shots. A missing or unreadable
    /// job counts as recurring. Reads one field of each job, because there may be very many
    /// one-shots.
    pub async fn recurring_of(&self, names: &[JobName]) -> Result<Vec<JobName>, StoreError> {
        let mut pipeline = redis::pipe();
        for name in names {
            pipeline.cmd("HGET").arg(self.keys.job(name)).arg("once");
        }
        let answers = self.well_typed(&mut pipeline).await?;
        let is_recurring = |answer: &Value| text_of(answer).is_none_or(|once| once != "1");
        let recurring = names.iter().zip(&answers).filter(|(_, answer)| is_recurring(answer));
        Ok(recurring.map(|(name, _)| name.clone()).collect())
    }

    /// Returns the record of the job with this name; None if there is no such job.
    pub async fn read_job(&self, name: &JobName) -> Result<Option<JobRecord>, StoreError> {
        self.read_jobs(std::slice::from_ref(name)).await?.pop().unwrap_or(Ok(None))
    }

    /// Lists job names by next due time: `limit` names starting at `offset`. Jobs without a next
    /// due time come last.
    pub async fn list_jobs(&self, offset: usize, limit: usize) -> Result<Vec<JobName>, StoreError> {
        self.names_in(&self.keys.jobs(), offset, limit).await
    }

    /// Removes the field `handled` of each of these jobs if the field has a time after `now`. Such
    /// a time was written while Redis' clock was ahead. The field stays if the job's ledger has an
    /// occurrence after `now`, because that occurrence ran early.
    pub async fn forget_dealt(&self, names: &[JobName], now: UnixMillis) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        for name in names {
            pipeline.cmd("HGET").arg(self.keys.job(name)).arg("handled");
            pipeline.cmd("HGET").arg(self.keys.ledger_before(name)).arg("latest");
        }
        // A key of the wrong type counts as missing. The consistency check reports the key.
        let answers = self.link.ask(&mut pipeline).await?;
        for (name, answers) in names.iter().zip(answers.chunks_exact(2)) {
            let Some(handled) = answers[0].as_ref().ok().and_then(text_of) else { continue };
            let has_run_early = answers[1]
                .as_ref()
                .ok()
                .and_then(number_of)
                .is_some_and(|latest| latest > now.as_i64());
            if !has_run_early && handled_in(&handled).iter().any(|at| *at > now) {
                self.drop_fields(&self.keys.job(name), &[("handled".to_owned(), handled)]).await?;
            }
        }
        Ok(())
    }

    /// Lists the names of ended jobs in order of their end: `limit` names starting at `offset`.
    pub async fn list_finished(
        &self,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<JobName>, StoreError> {
        self.names_in(&self.keys.finished(), offset, limit).await
    }

    async fn names_in(
        &self,
        index: &str,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<JobName>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(index).arg(offset).arg(offset.saturating_add(limit - 1));
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(names)) = answer.first() else { return Ok(Vec::new()) };
        Ok(names.iter().filter_map(text_of).filter_map(|name| name.parse().ok()).collect())
    }

    /// Returns the answers of a pipeline. A command on a key of the wrong type has the answer nil.
    pub(crate) async fn well_typed(
        &self,
        pipeline: &mut redis::Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let answers = self.link.ask(pipeline).await?.into_iter().map(|answer| match answer {
            Err(error) if error.code() == Some("WRONGTYPE") => Ok(Value::Nil),
            answer => answer.map_err(|error| StoreError::from_redis(self.address(), &error)),
        });
        answers.collect()
    }
}
