//! What the keeper has to say to the daemon, and its way there.
//!
//! Invariant: what waits is bounded, however slow the daemon is: one excerpt a run, a start and an end a run.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::excerpt::{Excerpt, OutputBounds, Stream};
use super::wire::{self, Key, News};

/// What waits for the daemon.
pub(super) enum Item {
    News(News),
    Output(Rc<Pending>),
}

/// What a run wrote and the daemon has not taken yet.
pub(super) struct Pending {
    key: Key,
    excerpt: RefCell<Excerpt>,
    bounds: OutputBounds,
    is_queued: Cell<bool>,
}

impl Pending {
    /// Nothing yet, of the run `key`.
    pub(super) fn new(key: Key, bounds: OutputBounds) -> Self {
        Self { key, excerpt: RefCell::new(Excerpt::new(bounds)), bounds, is_queued: Cell::new(false) }
    }

    /// Adds what it wrote. Whether it has to be queued for that: it is not yet.
    pub(super) fn append(&self, stream: Stream, bytes: &[u8]) -> bool {
        self.excerpt.borrow_mut().append(stream, bytes);
        !self.is_queued.replace(true)
    }
}

/// Carries everything to the daemon until it is gone or all has been said.
pub(super) async fn deliver(mut items: mpsc::UnboundedReceiver<Item>, mut to: tokio::net::unix::OwnedWriteHalf) {
    while let Some(item) = items.recv().await {
        let frames = match item {
            Item::News(news) => wire::news_frame(news),
            Item::Output(pending) => {
                pending.is_queued.set(false);
                wire::output_frames(pending.key, &pending.excerpt.replace(Excerpt::new(pending.bounds)).output())
            }
        };
        let Ok(frames) = frames else { continue };
        if to.write_all(&frames).await.is_err() {
            return;
        }
    }
}
