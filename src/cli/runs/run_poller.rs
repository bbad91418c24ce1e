//! Repeated reads of a run that tolerate a short outage of Redis.
//!
//! Invariant: a short outage of Redis is not an error. A long outage ends the reading with a
//! message that says what is not known, such as the end of a run.

use std::time::{Duration, Instant};

use crate::cli::failure::CliFailure;
use crate::cli::jobs::target::known_run;
use crate::cli::render::Console;
use schedd_schedule::names::RunId;
use schedd_store::{JobRecord, RunRecord, Store};

/// The longest outage of Redis that is tolerated.
const AWAY_AT_MOST: Duration = Duration::from_secs(30);

/// A reader of runs that tolerates short outages of Redis. The field is the start of the current
/// outage, or `None` while Redis answers.
#[derive(Debug, Default)]
pub(crate) struct RunPoller {
    away_since: Option<Instant>,
}

/// The result of one read of a run.
pub(crate) enum PolledRun {
    /// The record of the run.
    Run(Box<RunRecord>),
    /// No record, because Redis does not answer.
    Away,
}

impl RunPoller {
    /// Reads the record of a run. Fails if the run is no longer stored, or if Redis has been out of
    /// reach for too long.
    pub(crate) async fn look(
        &mut self,
        store: &Store,
        run: &RunId,
        console: &mut Console,
    ) -> Result<PolledRun, CliFailure> {
        match known_run(store, run).await {
            Ok(record) => {
                self.answered();
                match record {
                    Some(record) => Ok(PolledRun::Run(Box::new(record))),
                    None => Err(gone(store, run).await),
                }
            }
            Err(failure) => {
                let unknown =
                    format!("the end of run {run} is not known here; see schedctl show {run}");
                self.report_outage(failure, &unknown, console)?;
                Ok(PolledRun::Away)
            }
        }
    }

    /// Tolerates a short outage of Redis and prints a note when the outage starts. Fails with any
    /// other error.
    ///
    /// A long outage is a failure too. The message then ends with `unknown`, a phrase that says
    /// what is not known.
    pub(crate) fn report_outage(
        &mut self,
        failure: CliFailure,
        unknown: &str,
        console: &mut Console,
    ) -> Result<(), CliFailure> {
        let CliFailure::Unreachable(why) = failure else { return Err(failure) };
        let since = *self.away_since.get_or_insert_with(|| {
            console.note(&format!("{why}; waiting for Redis"));
            Instant::now()
        });
        if since.elapsed() < AWAY_AT_MOST {
            Ok(())
        } else {
            Err(CliFailure::Unreachable(format!("{why}; {unknown}")))
        }
    }

    /// Records that Redis answered, which ends an outage.
    pub(crate) fn answered(&mut self) {
        self.away_since = None;
    }
}

/// Returns the error for a run that is not stored. A change of a one-shot plans another run in its
/// place.
async fn gone(store: &Store, run: &RunId) -> CliFailure {
    let job = run.job();
    match store.read_job(job).await {
        Ok(Some(JobRecord { is_once: true, pending: Some(other), .. })) if other != *run => {
            CliFailure::Conflict(format!(
                "run {run} is not planned any more: job {job} was changed, and its run is now {other}"
            ))
        }
        Err(error) => error.into(),
        Ok(_) => {
            CliFailure::Failed(format!("run {run} is no longer stored, so its end is not known"))
        }
    }
}
