//! The search for the output of an attempt, by run or by job.

use crate::cli::failure::CliFailure;
use crate::cli::jobs::target::{find_run, no_such_job};
use crate::cli::runs::open_runs::{ended_runs, open_runs};
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{JobName, RunId};
use schedd_store::{KeptOutput, RunRecord, Store};

/// The number of a job's newest ended runs that are searched for output.
const RUNS_LOOKED_AT: usize = 200;

/// An attempt with its output. `attempt` is 0 if no attempt of the run has started.
pub(super) struct FoundOutput {
    pub(super) run: RunId,
    pub(super) attempt: u32,
    /// The state of the run. `None` if the run was named and `attempt` is not its last attempt.
    pub(super) state: Option<RunState>,
    /// The newest run of the job that started, and its state, if that run has no output. `None` if
    /// the run was named.
    pub(super) silent: Option<(RunId, RunState)>,
    pub(super) output: Option<KeptOutput>,
}

/// Returns an attempt of a run with its output: `attempt`, or the last attempt if `attempt` is
/// `None`.
pub(super) async fn of_run(
    store: &Store,
    run: &RunId,
    attempt: Option<u32>,
) -> Result<FoundOutput, CliFailure> {
    let record = find_run(store, run).await?;
    let (run, last) = (&record.run, last_with_output(&record));
    if let Some(wanted) = attempt.filter(|wanted| *wanted > last) {
        return Err(CliFailure::NotFound(format!(
            "run {run} has no attempt {wanted}: its last attempt is {last}"
        )));
    }
    let attempt = attempt.unwrap_or(last);
    let output = if attempt == 0 { None } else { read_output(store, run, attempt).await? };
    let state = (attempt == last).then_some(record.state);
    Ok(FoundOutput { run: run.clone(), attempt, state, silent: None, output })
}

/// Returns the number of the last attempt of a run that may have output.
///
/// Usually this is `record.attempt`. It is the next number if the attempt with that number was cut
/// short by the stop of its node, or if its `done_check` gave no clear answer. Such an attempt has
/// output but does not count, so the next attempt uses its number.
pub(super) fn last_with_output(record: &RunRecord) -> u32 {
    let is_held_back =
        record.state == RunState::Scheduled && record.unclear > 0 || record.is_cut_short();
    record.attempt.saturating_add(u32::from(is_held_back))
}

/// Returns the stored output of an attempt, or `None` if there is no output.
async fn read_output(
    store: &Store,
    run: &RunId,
    attempt: u32,
) -> Result<Option<KeptOutput>, CliFailure> {
    let output = store.read_output(run, attempt).await?;
    Ok(output.filter(|kept| {
        !kept.stdout.is_empty() || !kept.stderr.is_empty() || kept.dropped_bytes > 0
    }))
}

/// Returns the newest run of a job that has output, with that output. Returns `None` if none of its
/// open runs and newest 200 ended runs has output.
pub(super) async fn of_job(
    store: &Store,
    job: &JobName,
    attempt: Option<u32>,
) -> Result<Option<FoundOutput>, CliFailure> {
    let mut runs: Vec<RunRecord> = open_runs(store, job).await?;
    runs.extend(ended_runs(store, job, RUNS_LOOKED_AT).await?);
    if runs.is_empty() && store.read_job(job).await?.is_none() {
        return Err(no_such_job(store, job).await);
    }
    let most = runs.iter().map(last_with_output).max().unwrap_or(0);
    if let Some(wanted) = attempt.filter(|wanted| *wanted > most) {
        let no_such_attempt = format!("none of the last runs of job {job} has an attempt {wanted}");
        return Err(CliFailure::NotFound(format!(
            "{no_such_attempt}: their highest attempt is {most}; for an older run use schedctl logs RUN --attempt N"
        )));
    }
    let mut silent = None;
    for record in runs.into_iter().filter(|record| last_with_output(record) > 0) {
        let number = attempt.unwrap_or_else(|| last_with_output(&record));
        if let Some(output) = read_output(store, &record.run, number).await? {
            return Ok(Some(FoundOutput {
                run: record.run,
                attempt: number,
                state: Some(record.state),
                silent,
                output: Some(output),
            }));
        }
        silent.get_or_insert((record.run, record.state));
    }
    Ok(None)
}
