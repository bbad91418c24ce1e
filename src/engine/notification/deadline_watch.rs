//! Checks whether runs started and ended by their deadlines, including runs that no node takes.
//!
//! The loop sleeps until the first deadline. A poll wakes it when a run has got an earlier
//! deadline.
//!
//! Invariant: any number of nodes may check at once, because the script reads the run again and
//! adds each notice once.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use crate::engine::node_context::NodeContext;
use crate::engine::status::node_health::NodeHealth;
use crate::keeper::BootInstant;
use crate::store::{DeadlineReply, StoreError, WatchReply};

/// The shortest interval between checks.
const EVERY: Duration = Duration::from_secs(1);
/// The longest interval between checks of the deadlines. It limits the delay if a node added a
/// deadline and then failed.
const LONGEST: Duration = Duration::from_secs(60);
/// The interval between checks of due but unclaimed runs.
const OVERDUE_EVERY: Duration = Duration::from_secs(5);
/// The time after which a due but unclaimed run is examined. Most runs are claimed earlier.
const DUE_FOR: Duration = Duration::from_secs(1);
const BATCH: usize = 200;
/// The most pages of overdue runs that one round examines.
const PAGES: usize = 20;

/// The loop that checks deadlines.
pub(crate) struct DeadlineWatch {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) health: Arc<NodeHealth>,
}

/// Checks the deadlines of runs when their times come. Never returns.
pub(crate) async fn run(watch: Arc<DeadlineWatch>) {
    let node = &watch.node;
    let mut next_look = BootInstant::now();
    loop {
        let mut is_woken = false;
        let checked = async {
            is_woken = watch_overdue(&watch).await?;
            if is_woken || BootInstant::now() >= next_look {
                round(node).await.map(Some)
            } else {
                Ok(None)
            }
        };
        match checked.await {
            Ok(None) => {}
            Ok(Some(ahead)) => {
                next_look = BootInstant::now().saturating_add(ahead.clamp(EVERY, LONGEST));
            }
            Err(error) => {
                node.outage_log.failed(&error, "late runs are not reported");
                next_look = BootInstant::now();
                tokio::time::sleep(EVERY).await;
                continue;
            }
        }
        let pause = next_look.since(BootInstant::now()).min(OVERDUE_EVERY);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = node.wakeups.deadline_watch.notified() => next_look = BootInstant::now(),
        }
    }
}

/// Adds the deadlines of due but unclaimed runs to the index of deadlines. Returns true if the
/// deadlines of a run were added.
async fn watch_overdue(watch: &DeadlineWatch) -> Result<bool, StoreError> {
    let store = &watch.node.store;
    let before = watch.health.notes.now().saturating_sub(DUE_FOR);
    let mut is_added = false;
    for page in 0..PAGES {
        let (runs, is_last) = store.list_overdue(before, page * BATCH, BATCH).await?;
        for run in &runs {
            let reply = unless_wrong_type(store.watch_run(run).await)?;
            is_added |= reply == Some(WatchReply::Watched);
        }
        if is_last {
            break;
        }
    }
    Ok(is_added)
}

/// Checks the deadlines that have passed. Returns the time until the next check: until the next
/// deadline, or a short time if deadlines are left that could not be decided.
async fn round(node: &NodeContext) -> Result<Duration, StoreError> {
    let store = &node.store;
    let mut left = 0;
    loop {
        let deadlines = store.list_deadlines(left, BATCH).await?;
        if deadlines.is_empty() {
            return Ok(if left > 0 { EVERY } else { LONGEST });
        }
        let now = store.now().await?;
        for deadline in deadlines {
            // `schedctl doctor` reports unreadable data. The remaining deadlines are still checked.
            let Some(deadline) = deadline else {
                left += 1;
                continue;
            };
            if deadline.at > now {
                return Ok(if left > 0 { EVERY } else { deadline.at.since(now) });
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
