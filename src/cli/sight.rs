//! Looking at a run again and again, while Redis may be away for a moment.
//!
//! Invariant: a short absence is no error; a long one ends the looking, with what cannot be known from here.

use std::time::{Duration, Instant};

use super::failure::Failure;
use super::render::Console;
use super::target::known_run;
use crate::domain::ids::RunId;
use crate::store::{RunRecord, Store};

/// A Redis that is away for longer ends the looking.
const AWAY_AT_MOST: Duration = Duration::from_secs(30);

/// Since when nothing was seen, if so.
#[derive(Debug, Default)]
pub(super) struct Sight {
    away_since: Option<Instant>,
}

/// What one look showed.
pub(super) enum Look {
    /// The run.
    Run(Box<RunRecord>),
    /// Redis does not answer.
    Away,
}

impl Sight {
    /// Looks at a run. Fails if it is no longer kept, or Redis has been away for too long.
    pub(super) async fn look(&mut self, store: &Store, run: &RunId, console: &mut Console) -> Result<Look, Failure> {
        match known_run(store, run).await {
            Ok(record) => {
                self.answered();
                let gone = || Failure::Failed(format!("run {run} is no longer kept, so how it ended is not known"));
                record.map(|record| Look::Run(Box::new(record))).ok_or_else(gone)
            }
            Err(failure) => {
                let unknown = format!("how run {run} ends is not known from here (schedctl show {run})");
                self.bear(failure, &unknown, console)?;
                Ok(Look::Away)
            }
        }
    }

    /// Bears a Redis that is away, and says so once. Fails with anything else, and when it has been away for too long: then
    /// `unknown` says what is not known.
    pub(super) fn bear(&mut self, failure: Failure, unknown: &str, console: &mut Console) -> Result<(), Failure> {
        let Failure::Unreachable(why) = failure else { return Err(failure) };
        let since = *self.away_since.get_or_insert_with(|| {
            console.note(&format!("{why}; waiting for it"));
            Instant::now()
        });
        if since.elapsed() < AWAY_AT_MOST { Ok(()) } else { Err(Failure::Unreachable(format!("{why}; {unknown}"))) }
    }

    /// Redis has answered.
    pub(super) fn answered(&mut self) {
        self.away_since = None;
    }
}
