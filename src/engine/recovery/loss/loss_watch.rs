//! The check of each poll against the knowledge of this node about its data.
//!
//! Invariant: a poll that does not match that knowledge is never acted on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::data_state::Remembered;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::recovery::journal::{Journal, JournalLine};
use crate::store::{DataMarks, Met, Poll, begun_at};

/// The interval at which a higher fence is written to the journal.
const WRITE_SEEN: Duration = Duration::from_secs(5);

/// The knowledge of this node about its data, and the check of each poll against that knowledge.
pub(crate) struct LossWatch {
    journal: Journal,
    address: String,
    /// Unknown marks of data that wait to be judged.
    found: Mutex<Option<FoundData>>,
    has_found: Notify,
    /// The number of times that this node accepted data as known.
    accepted: AtomicU64,
    written: Mutex<(u64, Instant)>,
}

/// Data whose marks this node does not know.
#[derive(Clone)]
pub(super) struct FoundData {
    pub(super) marks: DataMarks,
    pub(super) now: UnixMillis,
    pub(super) known: LossQuestion,
}

/// The knowledge of this node when a poll was sent. The answer to the poll is judged by this
/// knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossQuestion {
    pub(super) highest: u64,
    accepted: u64,
}

impl LossWatch {
    pub(crate) fn new(journal: Journal, address: &str) -> Self {
        let written = (journal.with(|memory| memory.highest), Instant::now());
        Self {
            journal,
            address: address.to_owned(),
            found: Mutex::default(),
            has_found: Notify::new(),
            accepted: AtomicU64::new(0),
            written: Mutex::new(written),
        }
    }

    /// Returns the journal of this node.
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the epoch of the data that this node knows.
    pub(crate) fn epoch(&self) -> String {
        self.journal.with(|memory| memory.epoch.clone().unwrap_or_default())
    }

    pub(super) fn remembered(&self) -> Remembered {
        self.journal.with(|memory| Remembered {
            epoch: memory.epoch.clone(),
            past_epochs: memory.past_epochs.clone(),
            highest: memory.highest,
            whole_at: memory.whole_at,
            address: memory.address.clone(),
            server: memory.server.clone(),
        })
    }

    /// Waits for unknown data, and returns it.
    pub(super) async fn next_found(&self) -> FoundData {
        loop {
            self.has_found.notified().await;
            if let Some(found) = self.found().take() {
                return found;
            }
        }
    }

    /// Returns the address of the Redis that this node polls.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns true if this node accepted data after `known` was taken.
    pub(super) fn has_accepted_since(&self, known: LossQuestion) -> bool {
        self.accepted.load(Ordering::Acquire) != known.accepted
    }

    fn found(&self) -> MutexGuard<'_, Option<FoundData>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the present knowledge. The fence in the answer to a poll sent from now on may not
    /// fall below this knowledge.
    pub(crate) fn known_now(&self) -> LossQuestion {
        let accepted = self.accepted.load(Ordering::Acquire);
        LossQuestion { highest: self.journal.with(|memory| memory.highest), accepted }
    }

    /// Returns true if a poll found the data that this node knows. `known` must be taken before the
    /// poll was sent. After false, the caller may act on nothing in the poll.
    pub(crate) fn knows(&self, poll: &Poll, known: LossQuestion) -> bool {
        if self.has_accepted_since(known) {
            // The poll was sent before the last acceptance: the fence was lower then, and nothing
            // is lost.
            return false;
        }
        let marks = &poll.marks;
        let is_known = marks.met != Met::No
            && (marks.is_damaged
                || self.journal.with(|memory| {
                    let is_here =
                        marks.server.is_empty() || memory.server.as_ref() == Some(&marks.server);
                    is_here
                        && memory.epoch.as_ref() == Some(&marks.epoch)
                        && marks.fence >= known.highest
                }));
        if !is_known {
            *self.found() = Some(FoundData { marks: marks.clone(), now: poll.now, known });
            self.has_found.notify_one();
            return false;
        }
        if marks.is_damaged {
            if self.mark_to_write_back(marks, known.highest).is_some() {
                *self.found() = Some(FoundData { marks: marks.clone(), now: poll.now, known });
                self.has_found.notify_one();
            }
            return true;
        }
        self.journal.raise(marks.fence, poll.now.as_i64(), &self.address);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.fence > written.0 && written.1.elapsed() >= WRITE_SEEN {
            *written = (marks.fence, Instant::now());
            self.journal.note([self.seen(marks.fence, poll.now)]);
        }
        true
    }

    /// Returns the epoch to write back if the epoch key has a bad value and the data is otherwise
    /// known. Known data has the same server and no fence below the highest fence seen.
    pub(super) fn mark_to_write_back(&self, marks: &DataMarks, highest: u64) -> Option<String> {
        let is_damaged = !marks.epoch.is_empty() && begun_at(&marks.epoch).is_none();
        self.journal.with(|memory| {
            let is_here =
                memory.server.as_ref() == Some(&marks.server) && memory.address == self.address;
            memory.epoch.clone().filter(|_| is_damaged && is_here && marks.fence >= highest)
        })
    }

    fn seen(&self, fence: u64, now: UnixMillis) -> JournalLine {
        JournalLine::Seen(fence, now.as_i64(), self.address.clone())
    }

    /// Accepts the data with this epoch and fence, on this server, from now on.
    pub(super) fn accept(&self, epoch: &str, fence: u64, server: &str, now: UnixMillis) {
        let server = JournalLine::Server(server.to_owned());
        self.journal.note([JournalLine::Epoch(epoch.to_owned()), server, self.seen(fence, now)]);
        self.accepted.fetch_add(1, Ordering::AcqRel);
    }
}
