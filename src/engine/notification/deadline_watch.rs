//! Checks whether runs started and ended by their deadlines, including runs that no node takes.
//!
//! Invariant: any number of nodes may check at once, because the script reads the run again and
//! adds each notice once.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use crate::engine::node_context::NodeContext;
use crate::store::{DeadlineReply, StoreError};

/// The interval between checks.
const EVERY: Duration = Duration::from_secs(1);
/// The number of rounds from one check of due but unclaimed runs to the next.
const OVERDUE_EVERY: u32 = 5;
/// The time after which a due but unclaimed run is examined. Most runs are claimed earlier.
const DUE_FOR: Duration = Duration::from_secs(1);
const BATCH: usize = 200;
/// The most pages of overdue runs that one round examines.
const PAGES: usize = 20;

/// Checks the deadlines of runs at intervals. Never returns.
pub(crate) async fn run(node: Arc<NodeContext>) {
    let mut rounds = 0_u32;
    loop {
        if let Err(error) = round(&node, rounds.is_multiple_of(OVERDUE_EVERY)).await {
            node.outage_log.failed(&error, "late runs are not reported");
        }
        rounds = rounds.wrapping_add(1);
        tokio::time::sleep(EVERY).await;
    }
}

async fn round(node: &NodeContext, with_overdue: bool) -> Result<(), StoreError> {
    let store = &node.store;
    if with_overdue {
        let before = store.now().await?.saturating_sub(DUE_FOR);
        for page in 0..PAGES {
            let (runs, is_last) = store.list_overdue(before, page * BATCH, BATCH).await?;
            for run in &runs {
                unless_wrong_type(store.watch_run(run).await)?;
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
            // `schedctl doctor` reports unreadable data. The remaining deadlines are still checked.
            let Some(deadline) = deadline else {
                left += 1;
                continue;
            };
            if deadline.at > now {
                return Ok(());
            }
            match unless_wrong_type(store.judge_deadline(&deadline).await)? {
                Some(DeadlineReply::Notified) => {
                    warn!(job = %deadline.run.job(), run = %deadline.run, "The run has not {} by its deadline.", deadline.kind.past());
                }
                Some(DeadlineReply::Met | DeadlineReply::Gone) => {}
                // The deadline is later now, because an operator edited the job.
                Some(DeadlineReply::Early) | None => left += 1,
            }
        }
    }
}

/// Returns the answer of Redis, or `None` if the data is unreadable (wrong type or corrupt).
fn unless_wrong_type<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Err(error) if error.is_passing() => Err(error),
        Err(error) => {
            debug!("The deadline of a run could not be checked: {error}.");
            Ok(None)
        }
        Ok(reply) => Ok(Some(reply)),
    }
}
