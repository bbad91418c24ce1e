//! The verbs for dead letters, which are runs that ended `failed`, `timed_out` or `lost`: `retry`
//! and `purge`.
//!
//! Invariant: nothing happens unless a run or `--dead` is given. All selected runs are read before
//! the first run is changed, so changes do not affect the selection.

mod purge_verb;
mod retry_verb;

pub(crate) use purge_verb::{PurgeArgs, purge};
pub(crate) use retry_verb::{RetryArgs, retry};

use super::failure::CliFailure;
use super::jobs::target::no_such_run;
use crate::domain::name::names::{IdError, RunId};
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::Zone;
use crate::store::Store;

/// The dead letters to handle.
#[derive(Debug, clap::Args)]
struct Chosen {
    /// Ids of runs
    #[arg(value_name = "RUN", add = super::shell::completion::runs(), required_unless_present = "dead", conflicts_with = "dead")]
    runs: Vec<String>,
    /// All dead letters that the filters select
    #[arg(long)]
    dead: bool,
    /// Only runs of this job
    #[arg(long, requires = "dead", conflicts_with = "runs")]
    job: Option<String>,
}

impl Chosen {
    /// Returns the ids of the runs named on the command line.
    fn named(&self) -> Result<Vec<RunId>, CliFailure> {
        let parsed = self.runs.iter().map(|word| word.parse().map_err(|error: IdError| CliFailure::Invalid(error.to_string())));
        parsed.collect()
    }
}

/// Returns the failure for a run that is not a dead letter.
fn not_dead(run: &RunId, state: &str, at: Option<UnixMillis>, advice: &str) -> CliFailure {
    let at = at.map_or_else(String::new, |at| format!(" at {}", super::render::shown(at, &Zone::of_host())));
    let state = state.replace('_', " ");
    CliFailure::Conflict(format!("run {run} is no dead letter: found {state}{at}, wanted failed, timed_out or lost; {advice}"))
}

/// Fails unless `run` exists and is a dead letter.
async fn demand_dead(store: &Store, run: &RunId, advice: &str) -> Result<(), CliFailure> {
    match store.read_run(run).await? {
        Some(record) if record.state.is_dead() => Ok(()),
        Some(record) => Err(not_dead(run, record.state.as_str(), record.finished_at, advice)),
        None => Err(no_such_run(store, run).await),
    }
}
