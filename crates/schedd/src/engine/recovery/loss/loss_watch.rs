//! Compares each poll with the data that this node knows.
//!
//! Invariant: the node does not act on a poll that shows data unknown to this node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::data_state::Remembered;
use crate::engine::recovery::journal::{Journal, JournalLine};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{DataMarks, Met, Poll, begun_at};

/// The shortest interval between two writes of the highest fence to the journal.
const WRITE_SEEN: Duration = Duration::from_secs(5);

/// The data that this node knows, and the comparison of each poll with this data.
pub(crate) struct LossWatch {
    journal: Journal,
    address: String,
    /// The data that a poll found, that this node does not know, and that the recovery loop has not
    /// yet judged.
    found: Mutex<Option<FoundData>>,
    has_found: Notify,
    /// The number of times that this node accepted data as its own.
    accepted: AtomicU64,
    written: Mutex<(u64, Instant)>,
}

/// Data in Redis whose marks (epoch, fence and server) this node does not know.
#[derive(Clone)]
pub(super) struct FoundData {
    pub(super) marks: DataMarks,
    pub(super) now: UnixMillis,
    pub(super) known: LossQuestion,
}

/// The highest fence that this node knew when a poll was sent, and how often this node had accepted
/// data as its own. The answer to the poll is compared with both.
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

    /// Returns the epoch of the data that this node knows, or an empty text if none is known.
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

    /// Waits until a poll finds data that this node does not know. Returns the epoch, fence and
    /// server of this data.
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

    /// Returns true if this node accepted data as its own after `known_now` returned `known`.
    pub(in crate::engine) fn has_accepted_since(&self, known: LossQuestion) -> bool {
        self.accepted.load(Ordering::Acquire) != known.accepted
    }

    fn found(&self) -> MutexGuard<'_, Option<FoundData>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the highest fence that this node knows now, with which `knows` compares a poll. Call
    /// this before the poll is sent. A lower fence in the answer then means a data loss.
    pub(crate) fn known_now(&self) -> LossQuestion {
        let accepted = self.accepted.load(Ordering::Acquire);
        LossQuestion { highest: self.journal.with(|memory| memory.highest), accepted }
    }

    /// Returns true if `poll` found the data that this node knows. `known` was taken by `known_now`
    /// before the poll was sent. If the result is false, the caller must ignore the poll.
    pub(crate) fn knows(&self, poll: &Poll, known: LossQuestion) -> bool {
        if self.has_accepted_since(known) {
            // The poll was sent before this node last accepted data. So a lower fence is not a data
            // loss.
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

    /// Records that Redis had at `now` all data that it had at the last poll.
    pub(crate) fn saw_again(&self, now: UnixMillis) {
        self.journal.raise(0, now.as_i64(), &self.address);
    }

    /// Returns the epoch to write back into Redis if only the value of the epoch key is damaged.
    /// This is the case if this node knows the server, and the fence is at least `highest`.
    /// Otherwise returns `None`.
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

    /// Accepts the data with this epoch and fence, on this server, as the data of this node.
    pub(super) fn accept(&self, epoch: &str, fence: u64, server: &str, now: UnixMillis) {
        let server = JournalLine::Server(server.to_owned());
        self.journal.note([JournalLine::Epoch(epoch.to_owned()), server, self.seen(fence, now)]);
        self.accepted.fetch_add(1, Ordering::AcqRel);
    }
}
