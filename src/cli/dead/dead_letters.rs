//! The dead letters that a command names or selects.

use crate::cli::failure::CliFailure;
use crate::cli::jobs::run_name::RunName;
use crate::cli::jobs::target::{known_run, no_such_run};
use crate::cli::local_zone::local_zone;
use crate::cli::render::shown;
use crate::cli::shell::completion;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::Store;

/// The arguments that name or select dead letters.
#[derive(Debug, clap::Args)]
pub(super) struct Chosen {
    /// Ids or names of runs, such as backup@last
    #[arg(value_name = "RUN", add = completion::dead_runs(), required_unless_present = "dead", conflicts_with = "dead")]
    pub(super) runs: Vec<String>,
    /// Select all dead letters that match the filters
    #[arg(long)]
    pub(super) dead: bool,
    /// Only runs of this job
    #[arg(long, requires = "dead", conflicts_with = "runs", add = completion::jobs())]
    pub(super) job: Option<String>,
}

impl Chosen {
    /// Returns the names of the runs on the command line.
    pub(super) fn named(&self) -> Result<Vec<RunName>, CliFailure> {
        self.runs.iter().map(|word| RunName::parse(word)).collect()
    }
}

/// Returns the failure for a run that is in the state `state` and so is not a dead letter. The
/// message ends with `advice`, a sentence for the user. `at` is the end of the run, if it has
/// ended.
pub(super) fn not_dead(
    run: &RunId,
    state: &str,
    at: Option<UnixMillis>,
    advice: &str,
) -> CliFailure {
    let at = at.map_or_else(String::new, |at| format!(" at {}", shown(at, &local_zone())));
    let state = state.replace('_', " ");
    CliFailure::Conflict(format!(
        "run {run} is not a dead letter: found {state}{at}, wanted failed, timed_out or lost; {advice}"
    ))
}

/// Fails unless `run` exists and is a dead letter. The message ends with `advice`, a sentence for
/// the user.
pub(super) async fn demand_dead(
    store: &Store,
    run: &RunId,
    advice: &str,
) -> Result<(), CliFailure> {
    match store.read_run(run).await? {
        Some(record) if record.state.is_dead() => Ok(()),
        Some(record) => Err(not_dead(run, record.state.as_str(), record.finished_at, advice)),
        None => Err(without_record(store, run).await),
    }
}

/// Returns the failure for a run without a stored record: the run is planned, or does not exist.
pub(super) async fn without_record(store: &Store, run: &RunId) -> CliFailure {
    match known_run(store, run).await {
        Err(failure) => failure,
        Ok(Some(record)) if record.state == RunState::Scheduled => {
            not_dead(run, record.state.as_str(), None, "the run is planned and has not begun")
        }
        Ok(_) => no_such_run(store, run).await,
    }
}
