//! The queue of news and output from the keeper to the daemon.
//!
//! Invariant: the queue is bounded, however slow the daemon is. Each run has at most one excerpt of
//! output, one start and one end in the queue.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::keeper_messages::{KeeperNews, Key};
use super::wire;
use super::wire::BUFFER;
use schedd_core::domain::run::excerpt::{Excerpt, ExcerptStream, OutputBounds};

/// An item that waits to be sent to the daemon: a message, or a run's output.
pub(crate) enum OutboxItem {
    News(KeeperNews),
    Output(Rc<Pending>),
}

/// The part of a run's output that waits to be sent to the daemon.
pub(crate) struct Pending {
    key: Key,
    excerpt: RefCell<Excerpt>,
    bounds: OutputBounds,
    is_queued: Cell<bool>,
}

impl Pending {
    /// Creates an empty buffer for the run `key`.
    pub(crate) fn new(key: Key, bounds: OutputBounds) -> Self {
        Self {
            key,
            excerpt: RefCell::new(Excerpt::new(bounds)),
            bounds,
            is_queued: Cell::new(false),
        }
    }

    /// Appends bytes of `stream`. Returns true if the caller must queue the buffer, because it is
    /// not queued yet.
    pub(crate) fn append(&self, stream: ExcerptStream, bytes: &[u8]) -> bool {
        self.excerpt.borrow_mut().append(stream, bytes);
        !self.is_queued.replace(true)
    }
}

/// Sends all items to the daemon, until the daemon is gone or the queue is closed and empty.
pub(crate) async fn deliver(
    mut items: mpsc::UnboundedReceiver<OutboxItem>,
    mut to: tokio::net::unix::OwnedWriteHalf,
) {
    while let Some(item) = items.recv().await {
        // Other tasks of this moment may have news too, which one write sends together.
        tokio::task::yield_now().await;
        let mut frames = frames_of(item);
        while frames.len() < BUFFER
            && let Ok(item) = items.try_recv()
        {
            frames.extend(frames_of(item));
        }
        if to.write_all(&frames).await.is_err() {
            return;
        }
    }
}

/// Returns the frames of `item`; none if they would be too long.
fn frames_of(item: OutboxItem) -> Vec<u8> {
    let frames = match item {
        OutboxItem::News(news) => wire::news_frame(news),
        OutboxItem::Output(pending) => {
            pending.is_queued.set(false);
            wire::output_frames(
                pending.key,
                &pending.excerpt.replace(Excerpt::new(pending.bounds)).output(),
            )
        }
    };
    frames.unwrap_or_default()
}
