//! The state of a journal that the node shares with the thread that writes the file.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::journal_line::JournalLine;
use super::journal_memory::Memory;

/// The most bytes of waiting lines. If there are more, the file is rewritten from memory instead.
const UNWRITTEN: usize = 1 << 20;
/// The time for which ends of runs are remembered, in ms.
pub(super) const AGE_MS: i64 = 30 * 24 * 3600 * 1000;

/// The state of a journal that the node shares with the writing thread.
#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    pub(super) wake: Condvar,
}

/// The facts of the journal, and the lines that wait to be written.
#[derive(Default)]
pub(super) struct State {
    pub(super) memory: Memory,
    /// True if the journal has a file.
    pub(super) has_file: bool,
    pub(super) unwritten: Vec<u8>,
    /// The state of the file compared with the memory, which decides how the file is written next.
    pub(super) file_is: FileIs,
    /// The senders that wake tasks once all waiting lines are on disk.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
    pub(super) is_closing: bool,
}

/// The state of the journal file compared with the memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum FileIs {
    /// The file contains all facts except the waiting lines.
    #[default]
    Current,
    /// The file lacks some facts, so it must be rewritten from memory.
    Stale,
    /// The file belongs to other data in Redis than the memory. The file must be kept under another
    /// name, and a new file written.
    Another,
}

impl State {
    pub(super) fn take(&mut self, lines: impl IntoIterator<Item = JournalLine>) {
        for line in lines {
            if self.has_file && self.file_is == FileIs::Current {
                line.encode(&mut self.unwritten);
            }
            self.memory.take(line);
        }
        if self.unwritten.len() > UNWRITTEN {
            self.unwritten = Vec::new();
            self.file_is = FileIs::Stale;
        }
    }
}

impl Desk {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
