//! Looks whether runs have started and ended when their jobs say they are to have, also where no node takes them.
//!
//! Invariant: any node may do so at any time, and several at once: the script looks at the run anew, and tells of it once.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use super::shared::Shared;
use crate::store::{DeadlineReply, StoreError};

/// How often it is looked whether a time has come.
const EVERY: Duration = Duration::from_secs(1);
/// How many rounds lie between two looks at what is due and was not claimed.
const OVERDUE_EVERY: u32 = 5;
/// For how long a run may be due before it is looked at: most are claimed at once.
const DUE_FOR: Duration = Duration::from_secs(1);
const BATCH: usize = 200;
/// Pages of jobs with something overdue that are looked at in a round.
const PAGES: usize = 20;

/// Looks, for ever.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut rounds = 0_u32;
    loop {
        if let Err(error) = round(&shared, rounds.is_multiple_of(OVERDUE_EVERY)).await {
            shared.weather.failed(&error, "nobody is told of runs that are late");
        }
        rounds = rounds.wrapping_add(1);
        tokio::time::sleep(EVERY).await;
    }
}

async fn round(shared: &Shared, with_overdue: bool) -> Result<(), StoreError> {
    let store = &shared.store;
    if with_overdue {
        let before = store.now().await?.saturating_sub(DUE_FOR);
        for page in 0..PAGES {
            let (runs, is_last) = store.list_overdue(before, page * BATCH, BATCH).await?;
            for run in &runs {
                unless_spoilt(store.watch_run(run).await)?;
            }
            if is_last {
                break;
            }
        }
    }
    let mut left = 0;
    loop {
        let deadlines = store.list_deadlines(left, BATCH).await?;
        if deadlines.is_empty() {
            return Ok(());
        }
        let now = store.now().await?;
        for deadline in deadlines {
            // What is spoilt is a finding of its own (`schedctl doctor`), and keeps nobody else's time from being looked at.
            let Some(deadline) = deadline else {
                left += 1;
                continue;
            };
            if deadline.at > now {
                return Ok(());
            }
            match unless_spoilt(store.judge_deadline(&deadline).await)? {
                Some(DeadlineReply::Told) => {
                    warn!(job = %deadline.run.job(), run = %deadline.run, "The run has not {} in time.", deadline.kind.past());
                }
                Some(DeadlineReply::Met | DeadlineReply::Gone) => {}
                // An edit of its job has put it off.
                Some(DeadlineReply::Early) | None => left += 1,
            }
        }
    }
}

/// What was answered; none if that says what is spoilt.
fn unless_spoilt<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Err(error) if error.is_passing() => Err(error),
        Err(error) => {
            debug!("{error}; whether its run is late is not known.");
            Ok(None)
        }
        Ok(reply) => Ok(Some(reply)),
    }
}
