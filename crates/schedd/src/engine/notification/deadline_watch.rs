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
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{DeadlineReply, DueRange, StoreError, WatchReply};

/// The shortest interval between two searches for overdue runs, and the wait after a failure.
const EVERY: Duration = Duration::from_secs(1);
/// The longest interval between checks of the deadlines. It limits the delay if a node added a
/// deadline and then failed.
const LONGEST: Duration = Duration::from_secs(60);
/// The interval between two searches of all due but unclaimed runs.
const OVERDUE_EVERY: Duration = Duration::from_secs(5);
/// The time after which a due but unclaimed run is examined. Most runs are claimed earlier.
const DUE_FOR: Duration = Duration::from_secs(1);
const BATCH: usize = 200;
/// The most pages of overdue runs that one round examines. The next round goes on with the rest.
const PAGES: usize = 20;
/// The pause between two rounds of a search that found more runs than a round examines.
const REST_AFTER: Duration = Duration::from_millis(100);

/// The loop that checks deadlines.
pub(crate) struct DeadlineWatch {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) health: Arc<NodeHealth>,
}

/// Checks the deadlines of runs when their times come. Never returns.
pub(crate) async fn run(watch: Arc<DeadlineWatch>) {
    let node = &watch.node;
    let mut next_look = BootInstant::now();
    let mut overdue = OverdueSearch::new();
    loop {
        let checked = async {
            let is_added = overdue.look(&watch).await?;
            if is_added || BootInstant::now() >= next_look {
                round(node).await.map(Some)
            } else {
                Ok(None)
            }
        };
        match checked.await {
            Ok(None) => {}
            Ok(Some(ahead)) => {
                next_look = BootInstant::now().saturating_add(ahead.min(LONGEST));
            }
            Err(error) => {
                node.outage_log.failed(&error, "late runs are not reported");
                next_look = BootInstant::now();
                tokio::time::sleep(EVERY).await;
                continue;
            }
        }
        let pause = next_look.min(overdue.next).since(BootInstant::now());
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = node.wakeups.deadline_watch.notified() => next_look = BootInstant::now(),
            () = node.wakeups.overdue_search.notified() => overdue.wake(),
        }
    }
}

/// The search for due but unclaimed runs, which adds their deadlines to the index of deadlines.
///
/// A run is examined [`DUE_FOR`] after its due time. The search of all such runs is repeated at
/// intervals, because a run may get an earlier due time.
struct OverdueSearch {
    next: BootInstant,
    next_full: BootInstant,
    last: BootInstant,
    /// The time before which the last search examined all due runs.
    searched_to: UnixMillis,
    /// The search that the next round goes on with. `None` if the last search is at its end.
    rest: Option<RestOfSearch>,
}

/// A search that found more due runs than a round examines.
#[derive(Debug, Clone, Copy)]
struct RestOfSearch {
    range: DueRange,
    is_full: bool,
}

impl OverdueSearch {
    fn new() -> Self {
        let now = BootInstant::now();
        Self { next: now, next_full: now, last: now, searched_to: UnixMillis::EPOCH, rest: None }
    }

    /// Searches soon, because a job was added or edited. One search each [`EVERY`] is enough for a
    /// job that is due now.
    fn wake(&mut self) {
        self.next = self.next.min(self.last.saturating_add(EVERY));
    }

    /// Searches if the time of the next search has come. Returns true if the deadlines of a run
    /// were added.
    async fn look(&mut self, watch: &DeadlineWatch) -> Result<bool, StoreError> {
        let started = BootInstant::now();
        if started < self.next {
            return Ok(false);
        }
        let now = watch.health.notes.now();
        let mut search = self.rest.take().unwrap_or_else(|| self.new_search(started, now));
        let store = &watch.node.store;
        let (mut is_added, mut next_due) = (false, None);
        for page in 1.. {
            let found = store.list_overdue(search.range, BATCH).await?;
            for run in &found.runs {
                let reply = unless_wrong_type(store.watch_run(run).await)?;
                is_added |= reply == Some(WatchReply::Watched);
            }
            next_due = found.next_due;
            let Some(next) = found.next_page else { break };
            search.range = next;
            if page == PAGES {
                self.rest = Some(search);
                break;
            }
        }
        self.last = started;
        if self.rest.is_some() {
            self.next = started.saturating_add(REST_AFTER);
            return Ok(is_added);
        }
        self.searched_to = search.range.before;
        if search.is_full {
            self.next_full = started.saturating_add(OVERDUE_EVERY);
        }
        self.next = started.saturating_add(until_overdue(next_due, now)).min(self.next_full);
        Ok(is_added)
    }

    fn new_search(&self, started: BootInstant, now: UnixMillis) -> RestOfSearch {
        let is_full = started >= self.next_full;
        let from = if is_full { UnixMillis::EPOCH } else { self.searched_to };
        let range = DueRange { from, skip: 0, before: now.saturating_sub(DUE_FOR) };
        RestOfSearch { range, is_full }
    }
}

/// Returns the time from `now` until the run that is due at `next_due` has been due for
/// [`DUE_FOR`], within the bounds of the interval between two searches.
fn until_overdue(next_due: Option<UnixMillis>, now: UnixMillis) -> Duration {
    // Runs due at exactly the end of a search are left to the next search.
    const PAST: Duration = Duration::from_millis(5);
    next_due.map_or(OVERDUE_EVERY, |due| {
        due.saturating_add(DUE_FOR + PAST).since(now).clamp(EVERY, OVERDUE_EVERY)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_for_overdue_runs_waits_until_a_second_after_the_next_due_time() {
        let at = |ms| UnixMillis::new(ms).unwrap();
        let wait = |due| until_overdue(due, at(10_000)).as_millis();
        assert_eq!(wait(Some(at(12_000))), 3_005);
        assert_eq!(wait(Some(at(9_200))), 1_000, "never more than one search each second");
        assert_eq!(wait(Some(at(60_000))), 5_000);
        assert_eq!(wait(None), 5_000);
    }
}
