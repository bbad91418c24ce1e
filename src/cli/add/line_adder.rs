//! The adder of the jobs of lines: one batch of lines at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::added_job::{AddResult, is_dropped, pending, request};
use super::key_conflict::key_taken;
use super::line_reader::Batch;
use super::name_conflict;
use crate::cli::failure::CliFailure;
use schedd::adding::{AddPools, DRAWS, PlacedAnswer, draw_name, past_problem};
use schedd::engine::planning::planting::{Applied, PlantingError, Request};
use schedd_core::config::NamedJob;
use schedd_schedule::names::{IdError, JobName};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{Existing, Store};

/// The results by line number: an added job with its definition, or the reason for a refusal.
pub(super) type AddedLines = BTreeMap<usize, Result<(AddResult, NamedJob), CliFailure>>;

/// Adds the jobs of batches to Redis.
pub(super) struct LineAdder {
    /// True if a line may change an existing job.
    pub(super) replaces: bool,
    /// True if a line for an existing job counts as added.
    pub(super) if_absent: bool,
    /// True if a job whose time is past runs at once.
    pub(super) allows_past: bool,
    /// Redis' time, and the instant at which Redis reported that time.
    pub(super) asked: (UnixMillis, Instant),
    pub(super) pools: AddPools,
    pub(super) host_zone: Zone,
}

impl LineAdder {
    /// Adds one batch and returns the result for each of its lines.
    pub(super) async fn add(self: Arc<Self>, batch: Batch) -> Result<AddedLines, CliFailure> {
        let Batch { jobs, refused, .. } = batch;
        let mut outcomes: AddedLines =
            refused.into_iter().map(|(line, why)| (line, Err(why))).collect();
        let mut open = Vec::with_capacity(jobs.len());
        for (line, job) in jobs {
            match self.refusal(&job) {
                Some(why) => {
                    outcomes.insert(line, Err(why));
                }
                None => open.push((line, job)),
            }
        }
        for _ in 0..DRAWS {
            if open.is_empty() {
                break;
            }
            let requests =
                open.iter().map(|(_, job)| self.request(job)).collect::<Result<Vec<Request>, _>>();
            let requests = requests.map_err(|error| CliFailure::Failed(error.to_string()))?;
            let applied = self.apply(&open, &requests).await?;
            let mut clashed = Vec::new();
            for (((line, job), request), (place, answer)) in
                open.into_iter().zip(requests).zip(applied)
            {
                let is_drawn = job.name.is_none();
                match answer {
                    Ok(Applied::Exists | Applied::OtherKind(_)) if is_drawn => {
                        clashed.push((line, job));
                    }
                    answer => {
                        let added = self.answered(&place, request.name, &job, answer).await?;
                        outcomes.insert(line, added.map(|added| (added, job)));
                    }
                }
            }
            open = clashed;
        }
        for (line, _) in open {
            let why = "no free random name was found; give the job a name".to_owned();
            outcomes.insert(line, Err(CliFailure::Conflict(why)));
        }
        Ok(outcomes)
    }

    /// Returns the reason why `job` cannot be added, as far as it is known without a request to Redis.
    fn refusal(&self, job: &NamedJob) -> Option<CliFailure> {
        let now = self.asked.0.saturating_add(self.asked.1.elapsed());
        if let Some(problem) = past_problem(&job.spec, now).filter(|_| !self.allows_past) {
            return Some(CliFailure::Keys(vec![problem]));
        }
        self.pools.unknown_to(job).map(|problem| CliFailure::Keys(vec![problem]))
    }

    fn request(&self, job: &NamedJob) -> Result<Request, IdError> {
        match &job.name {
            Some(name) => {
                let existing = if self.replaces { Existing::Edit } else { Existing::Refuse };
                Ok(request(name.clone(), job, existing))
            }
            None => Ok(request(draw_name()?, job, Existing::Refuse)),
        }
    }

    async fn apply(
        &self,
        open: &[(usize, NamedJob)],
        requests: &[Request],
    ) -> Result<Vec<PlacedAnswer>, CliFailure> {
        let applied = self.pools.apply(&self.host_zone, requests).await;
        applied.map_err(|error| {
            let (first, last) = (open.first().map_or(0, |(line, _)| *line), open.last().map_or(0, |(line, _)| *line));
            let failure = CliFailure::from(error);
            let failure_text = failure.lines().join("; ");
            let nameless =
                if open.iter().any(|(_, job)| job.name.is_none()) { ", which adds lines without a name twice" } else { "" };
            let hint = format!(
                "{failure_text}; it is not known which of lines {first} to {last} were added; run the command again with --if-absent{nameless}"
            );
            if failure.code() == 69 { CliFailure::Unreachable(hint) } else { CliFailure::Failed(hint) }
        })
    }

    /// Converts Redis' answer for one line into the result of the line: the added job, or the
    /// reason for a refusal.
    async fn answered(
        &self,
        store: &Store,
        name: JobName,
        job: &NamedJob,
        answer: Result<Applied, PlantingError>,
    ) -> Result<Result<AddResult, CliFailure>, CliFailure> {
        Ok(match answer {
            Ok(Applied::Created(next)) => Ok((name, "created", next)),
            Ok(Applied::Updated(next @ Some(_))) => Ok((name, "updated", next)),
            Ok(Applied::Updated(None)) => Ok(pending(store, name, "updated").await?),
            Ok(Applied::Unchanged) => Ok(pending(store, name, "unchanged").await?),
            Ok(Applied::Moved(first, next)) => Ok((first, "updated", next)),
            Ok(Applied::Exists | Applied::OtherKind(_)) if self.if_absent => {
                Ok(pending(store, name, "exists").await?)
            }
            Ok(Applied::Taken(first)) if self.if_absent || is_dropped(job) => {
                Ok(pending(store, first, "exists").await?)
            }
            Ok(Applied::Taken(first)) => Err(key_taken(store, &first, job).await),
            Ok(Applied::Exists | Applied::OtherKind(_)) => {
                Err(name_conflict::name_taken(store, &name, job).await)
            }
            Ok(Applied::Newer(now)) => {
                Err(CliFailure::Conflict(name_conflict::changed_meanwhile(&name, &now)))
            }
            Ok(Applied::Past(at)) => Err(CliFailure::Invalid(format!(
                "job {name}: time {at} is past, wanted a future time"
            ))),
            Ok(Applied::Done(at)) => {
                Err(CliFailure::Conflict(name_conflict::done_already(&name, at)))
            }
            Err(error) => Err(error.into()),
        })
    }
}
