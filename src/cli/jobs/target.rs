//! The lookup of the job or run that an argument names. The failure for an unknown name lists the
//! nearest names.

use anyhow::Context as _;
use serde_json::{Value, json};

use super::instance_names::run_names;
use crate::cli::failure::CliFailure;
use crate::cli::local_zone::local_zone;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::runs::id_part::IdPart;
use crate::cli::runs::short_ids::RUNS_COMPARED;
use schedd::engine::Definition;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{JobRecord, RunRecord, Store};

/// The maximum number of names compared to find the nearest names.
const NAMES_COMPARED: usize = 2_000;
const NEAREST_SHOWN: usize = 3;
const ALIKE_SHOWN: usize = 5;

/// The target of a verb: a job or a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Job(JobName),
    Run(RunId),
}

impl Target {
    /// Parses the text of an argument as a job name or a run id. A run id contains an `@`.
    pub(crate) fn parse(text: &str) -> Result<Self, CliFailure> {
        let parsed = if text.contains('@') {
            text.parse().map(Self::Run)
        } else {
            text.parse().map(Self::Job)
        };
        parsed.map_err(|error| CliFailure::Invalid(error.to_string()))
    }

    /// Returns a JSON object with the fields `job` and `run_id`; `run_id` is null for a job.
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Job(job) => json!({"job": job.as_str(), "run_id": null}),
            Self::Run(run) => {
                json!({"job": run.job().defined().as_str(), "run_id": run.to_string()})
            }
        }
    }
}

/// Parses the name of a job.
pub(crate) fn job_name(text: &str) -> Result<JobName, CliFailure> {
    text.parse()
        .map_err(|error: schedd_schedule::names::IdError| CliFailure::Invalid(error.to_string()))
}

/// Reads the record of a job, even if the job is over.
pub(crate) async fn find_job(store: &Store, name: &JobName) -> Result<JobRecord, CliFailure> {
    match store.read_job(name).await? {
        Some(job) => Ok(job),
        None => Err(no_such_job(store, name).await),
    }
}

/// Returns the run that `next=` or `next --set` planned beside the schedule of a job, if it waits.
pub(crate) async fn extra_run(store: &Store, job: &JobRecord) -> Result<Option<RunId>, CliFailure> {
    let Some(extra) = job.next_run.clone() else { return Ok(None) };
    let stored = store.read_run(&extra).await?;
    Ok(stored.is_some_and(|run| run.state == RunState::Scheduled).then_some(extra))
}

/// Returns the definition in the record of a job.
pub(crate) fn definition_of(record: JobRecord) -> Result<Definition, CliFailure> {
    let name = record.name.clone();
    Ok(Definition::of(record)
        .with_context(|| format!("job {name}: stored definition cannot be used"))?)
}

/// Returns the files that declare a job, in words.
pub(crate) fn declared_in(job: &JobRecord) -> String {
    let files: Vec<String> = job
        .listed_by
        .keys()
        .map(|name| name.parse().map_or_else(|_| name.clone(), |source: SourceName| source.words()))
        .collect();
    if files.is_empty() { "a jobs file".to_owned() } else { files.join(" and ") }
}

/// Returns true if only applied files declare the job. No node reads an applied file again.
pub(crate) fn is_applied(job: &JobRecord) -> bool {
    let is_applied =
        |name: &String| name.parse().is_ok_and(|source: SourceName| source.is_applied());
    !job.listed_by.is_empty() && job.listed_by.keys().all(is_applied)
}

/// Returns the failure for a job that does not exist. The message lists the nearest names.
pub(crate) async fn no_such_job(store: &Store, name: &JobName) -> CliFailure {
    let namespace = store.namespace();
    if let Some(at) = lost_with(store, name).await {
        let at = crate::cli::render::shown(at, &local_zone());
        return CliFailure::NotFound(format!(
            "no job {name} in namespace {namespace}: the job was lost when Redis lost data, noticed {at}; see schedctl data-loss, and add \
             the job again if you need it"
        ));
    }
    let names = match names_like(store).await {
        Ok(names) => names,
        Err(failure) => return failure,
    };
    if names.is_empty() {
        return CliFailure::NotFound(format!(
            "no job {name}: there are no jobs in namespace {namespace}; add one with schedctl add"
        ));
    }
    let near = nearest(name.as_str(), &names);
    if near.is_empty() {
        return CliFailure::NotFound(format!(
            "no job {name} in namespace {namespace}; schedctl list shows all jobs"
        ));
    }
    CliFailure::NotFound(format!(
        "no job {name} in namespace {namespace}; similar names: {}",
        near.join(", ")
    ))
}

/// Returns the names of jobs in all places that answer, among which a name may be meant.
async fn names_like(store: &Store) -> Result<Vec<JobName>, CliFailure> {
    let places = MergedPlaces::of(store).await?;
    let read = |store: Store| async move { store.list_jobs(0, NAMES_COMPARED).await };
    Ok(places.each(read).await?.concat())
}

/// Returns the time at which a node last noticed that Redis had lost this job; `None` if no node
/// did.
async fn lost_with(store: &Store, name: &JobName) -> Option<UnixMillis> {
    let losses = store.read_losses().await.unwrap_or_default();
    losses
        .iter()
        .find(|record| record.jobs_gone().iter().any(|(gone, _)| gone == name))
        .and_then(|record| record.at)
}

/// Returns the record of a run by its id.
pub(crate) async fn find_run(store: &Store, run: &RunId) -> Result<RunRecord, CliFailure> {
    match known_run(store, run).await? {
        Some(record) => Ok(record),
        None => Err(no_such_run(store, run).await),
    }
}

/// Returns the stored record of a run, or a new record if the run is the planned run of its job.
/// Returns `None` for any other run.
pub(crate) async fn known_run(store: &Store, run: &RunId) -> Result<Option<RunRecord>, CliFailure> {
    if let Some(record) = store.read_run(run).await? {
        return Ok(Some(record));
    }
    let job = store.read_job(run.job()).await?;
    match job.filter(|job| job.pending.as_ref() == Some(run)) {
        Some(job) => Ok(Some(RunRecord::planted(run.clone(), job.lane))),
        // A planned run may have been claimed between the two reads.
        None => Ok(store.read_run(run).await?),
    }
}

/// Returns the runs whose ids have the text of `run` as a part, newest first.
async fn runs_like(store: &Store, run: &RunId) -> Result<Vec<RunId>, CliFailure> {
    let text = run.to_string();
    runs_matching(store, run.job(), text.split_once('@').map_or("", |(_, part)| part)).await
}

/// Returns the runs of a job whose ids have the part `part` behind `@`, newest first.
pub(crate) async fn runs_matching(
    store: &Store,
    job: &JobName,
    part: &str,
) -> Result<Vec<RunId>, CliFailure> {
    let Some(part) = IdPart::parse(part) else { return Ok(Vec::new()) };
    let mut runs = runs_of(store, job, RUNS_COMPARED).await?;
    runs.retain(|run| part.matches(&run.due().as_i64().to_string(), run.word()));
    Ok(runs)
}

/// Returns the runs of a job, newest first. Of the ended runs only the last `newest` are returned.
pub(crate) async fn runs_of(
    store: &Store,
    job: &JobName,
    newest: usize,
) -> Result<Vec<RunId>, CliFailure> {
    let names = run_names(store, job).await?;
    let mut runs: Vec<RunId> =
        store.list_runs_of(&names, newest).await?.into_iter().flatten().collect();
    runs.sort_unstable_by(|a, b| b.due().cmp(&a.due()).then_with(|| b.cmp(a)));
    Ok(runs)
}

/// Returns the ids of the first runs, and the number of the other runs, in words.
pub(crate) fn listed(runs: &[RunId]) -> String {
    let shown: Vec<String> = runs.iter().take(ALIKE_SHOWN).map(ToString::to_string).collect();
    let more = runs.len().saturating_sub(ALIKE_SHOWN);
    if more == 0 {
        shown.join(" or ")
    } else {
        format!("{} or one of {more} more", shown.join(", "))
    }
}

/// Returns the failure for a run that does not exist. The message lists similar runs, if there are
/// any.
pub(crate) async fn no_such_run(store: &Store, run: &RunId) -> CliFailure {
    let job = run.job();
    match store.read_job(job).await {
        Err(error) => error.into(),
        Ok(None) => match store.read_history(Some(job), 0, 1).await {
            Err(error) => error.into(),
            Ok(page) if page.entries == 0 => no_such_job(store, job).await,
            Ok(_) => no_run_of(store, run).await,
        },
        Ok(Some(_)) => no_run_of(store, run).await,
    }
}

async fn no_run_of(store: &Store, run: &RunId) -> CliFailure {
    let job = run.job();
    let alike = match runs_like(store, run).await {
        Ok(alike) => alike,
        Err(failure) => return failure,
    };
    if !alike.is_empty() {
        return CliFailure::NotFound(format!("no run {run}; similar ids: {}", listed(&alike)));
    }
    CliFailure::NotFound(format!(
        "no run {run}; schedctl history {job} lists the stored runs, schedctl show {job} shows the next run"
    ))
}

/// Returns the names that are most similar to `text`, best first.
fn nearest<'n>(text: &str, names: &'n [JobName]) -> Vec<&'n str> {
    const ALIKE: f64 = 0.6;
    let mut scored: Vec<(f64, &str)> = names
        .iter()
        .map(JobName::as_str)
        .map(|name| {
            let begins = text.len() >= 3 && name.starts_with(text);
            let score = strsim::normalized_damerau_levenshtein(text, name);
            (if begins { score.max(ALIKE) } else { score }, name)
        })
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    scored.sort_by(|(a, left), (b, right)| b.total_cmp(a).then_with(|| left.cmp(right)));
    scored.into_iter().take(NEAREST_SHOWN).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_that_was_meant_and_a_stranger_none() {
        let names: Vec<JobName> =
            ["backup", "backup-weekly", "report"].map(|name| name.parse().unwrap()).into();
        assert_eq!(nearest("bakcup", &names), ["backup"]);
        assert_eq!(nearest("back", &names), ["backup", "backup-weekly"]);
        assert!(nearest("zzz", &names).is_empty());
    }

    #[test]
    fn an_at_sign_makes_a_run() {
        assert!(matches!(Target::parse("a@5"), Ok(Target::Run(_))));
        assert!(matches!(Target::parse("a"), Ok(Target::Job(_))));
        for bad in ["A", "a@", "", "../x", "a@1~"] {
            assert_eq!(Target::parse(bad).unwrap_err().code(), 2, "{bad}");
        }
    }
}
