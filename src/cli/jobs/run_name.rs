//! The names of runs on the command line: an id, a part of an id, or a place in the history.
//!
//! Invariant: a name is used only if it matches one run. A complete due time names only the run with
//! this id, so that a command repeated later never changes another run.

use super::instance_names::has_instances;
use super::target::{
    Target, extra_run, find_job, job_name, known_run, listed, no_such_job, runs_matching,
};
use crate::cli::failure::CliFailure;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::runs::id_part::IdPart;
use crate::cli::runs::open_runs::{ended_runs, open_runs};
use crate::cli::runs::short_ids::RUNS_COMPARED;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{JobName, RunId};
use schedd_store::Store;

/// The number of digits of a complete due time in milliseconds, from the year 2001 to 2286.
const COMPLETE: usize = 13;

/// The name of a run, before Redis is asked which run has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunName {
    /// An id, or digits that may be a part of an id.
    Id(RunId),
    /// A part of an id that is not an id by itself: the text behind `@`.
    Part(JobName, String),
    /// The run at this place of those that started or ended. The newest run has the place 1.
    Newest(JobName, usize),
    /// The planned run.
    Next(JobName),
}

impl RunName {
    /// Parses the name of a run.
    pub(crate) fn parse(text: &str) -> Result<Self, CliFailure> {
        let error = match text.parse::<RunId>() {
            Ok(run) => return Ok(Self::Id(run)),
            Err(error) => error,
        };
        let named = text.split_once('@').and_then(|(job, name)| {
            let job: JobName = job.parse().ok()?;
            let place = name.strip_prefix('-').and_then(|place| place.parse().ok());
            match name {
                "last" => Some(Self::Newest(job, 1)),
                "next" => Some(Self::Next(job)),
                _ => match place.filter(|place| *place > 0) {
                    Some(place) => Some(Self::Newest(job, place)),
                    None => IdPart::parse(name).map(|_| Self::Part(job, name.to_owned())),
                },
            }
        });
        named.ok_or_else(|| {
            CliFailure::Invalid(format!(
                "{error}, or JOB@last, JOB@-2, JOB@next or a part of an id"
            ))
        })
    }

    /// Returns the id of the named run, and the place that has the run: the namespace or a shard. The
    /// run of a complete id may not exist.
    pub(crate) async fn find(&self, home: &Store) -> Result<(Store, RunId), CliFailure> {
        match self {
            Self::Id(run) => {
                let place = home.place_of_run(run).await?;
                let due = run.due().as_i64().to_string();
                if due.len() >= COMPLETE || known_run(&place, run).await?.is_some() {
                    return Ok((place, run.clone()));
                }
                let text = run.to_string();
                let part = text.split_once('@').map_or("", |(_, part)| part);
                Ok(only(home, run.job(), part).await?.unwrap_or_else(|| (place, run.clone())))
            }
            Self::Part(job, part) => {
                if let Some(found) = only(home, job, part).await? {
                    return Ok(found);
                }
                find_job(&home.place_of_job(job).await?, job).await?;
                Err(CliFailure::NotFound(format!(
                    "no run {job}@{part}: no stored run of job {job} has an id with this part; schedctl history {job} lists the stored runs"
                )))
            }
            Self::Newest(job, at) => {
                let place = home.place_of_job(job).await?;
                let run = Box::pin(newest(&place, job, *at)).await?;
                Ok((place, run))
            }
            Self::Next(job) => {
                let store = home.place_of_job(job).await?;
                let run = next_of(&store, job).await?;
                Ok((store, run))
            }
        }
    }
}

/// Returns the planned run of a job.
async fn next_of(store: &Store, job: &JobName) -> Result<RunId, CliFailure> {
    let record = find_job(store, job).await?;
    let why = if record.paused_at.is_some() { ": the job is paused" } else { "" };
    let mut planned = record.pending.clone();
    if has_instances(&record) {
        let live = store.list_instances(job).await?;
        let pending = live.into_iter().filter_map(|(_, record)| record.pending);
        planned = pending.min_by_key(|run| (run.due(), run.job().clone()));
    }
    let extra = extra_run(store, &record).await?;
    let planned = planned.into_iter().chain(extra).min_by_key(RunId::due);
    planned.ok_or_else(|| CliFailure::NotFound(format!("job {job} has no planned run{why}")))
}

/// Returns the only run of the job in all places whose id has the part `part`, with its place.
/// Returns `None` if there is none, and fails if there are several.
async fn only(
    home: &Store,
    job: &JobName,
    part: &str,
) -> Result<Option<(Store, RunId)>, CliFailure> {
    let places = MergedPlaces::of(home).await?;
    let read = |store: Store| async move { runs_matching(&store, job, part).await };
    let found: Vec<(&Store, RunId)> = places
        .stores()
        .iter()
        .zip(places.each(read).await?)
        .flat_map(|(place, runs)| runs.into_iter().map(move |run| (place, run)))
        .collect();
    match found.as_slice() {
        [] => Ok(None),
        [(place, only)] => Ok(Some(((*place).clone(), only.clone()))),
        several => Err(CliFailure::Invalid(format!(
            "run {job}@{part} matches {}; wanted a complete id",
            listed(&several.iter().map(|(_, run)| run.clone()).collect::<Vec<_>>())
        ))),
    }
}

/// Returns the run at `place` of the runs that started or ended, in the order of `history JOB`.
async fn newest(store: &Store, job: &JobName, place: usize) -> Result<RunId, CliFailure> {
    let (mut runs, mut ended) =
        tokio::try_join!(open_runs(store, job), ended_runs(store, job, place.min(RUNS_COMPARED)))?;
    runs.retain(|run| run.state == RunState::Running || run.attempt > 0);
    // A run may have ended between the two reads, and is then in both.
    ended.retain(|run| !runs.iter().any(|open| open.run == run.run));
    runs.extend(ended);
    if let Some(run) = runs.get(place - 1) {
        return Ok(run.run.clone());
    }
    if runs.is_empty() && store.read_job(job).await?.is_none() {
        return Err(no_such_job(store, job).await);
    }
    Err(CliFailure::NotFound(match runs.len() {
        0 => format!("job {job} has no run that started or ended"),
        1 => format!("job {job} has only 1 run that started or ended, wanted {place}"),
        count => format!("job {job} has only {count} runs that started or ended, wanted {place}"),
    }))
}

/// The name of a job or a run, before Redis is asked which run is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetName {
    /// The name of a job.
    Job(JobName),
    /// The name of a run.
    Run(RunName),
}

impl TargetName {
    /// Parses the name of a job or a run. The name of a run contains an `@`.
    pub(crate) fn parse(text: &str) -> Result<Self, CliFailure> {
        if text.contains('@') {
            return RunName::parse(text).map(Self::Run);
        }
        job_name(text).map(Self::Job)
    }

    /// Returns the named job or run, and the place that has it: the namespace or a shard.
    pub(crate) async fn find(&self, home: &Store) -> Result<(Store, Target), CliFailure> {
        match self {
            Self::Job(job) => Ok((home.place_of_job(job).await?, Target::Job(job.clone()))),
            Self::Run(name) => name.find(home).await.map(|(place, run)| (place, Target::Run(run))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_an_id_a_part_of_it_or_a_place() {
        let job: JobName = "a".parse().unwrap();
        for (text, name) in [
            ("a@179", RunName::Id("a@179".parse().unwrap())),
            ("a@0411", RunName::Part(job.clone(), "0411".to_owned())),
            ("a@~k3", RunName::Part(job.clone(), "~k3".to_owned())),
            ("a@last", RunName::Newest(job.clone(), 1)),
            ("a@-1", RunName::Newest(job.clone(), 1)),
            ("a@-12", RunName::Newest(job.clone(), 12)),
            ("a@next", RunName::Next(job.clone())),
        ] {
            assert_eq!(RunName::parse(text).unwrap(), name, "{text}");
        }
        for bad in ["a", "a@", "a@-0", "a@-", "a@first", "A@last", "a@1~", "@last"] {
            assert_eq!(RunName::parse(bad).unwrap_err().code(), 2, "{bad}");
        }
    }
}
