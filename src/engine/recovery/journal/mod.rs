//! The journal of a node: facts about the data in Redis that Redis may lose. The facts are kept in
//! memory, and in a small file across restarts.
//!
//! - [`journal_line`] is the line format of the file
//! - [`journal_memory`] is what the node remembers, within bounds
//! - [`journal_file`] is the file, and the thread that writes it
//!
//! Invariant: a disk that is slow, full or gone delays nothing. Facts enter the memory at once, and
//! a separate thread writes them later. Only the start mark of an at-most-once run waits for the
//! disk, for a short time.

mod journal_file;
mod journal_line;
mod journal_memory;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::warn;

pub(crate) use journal_line::{ApiJob, ClaimedRun, EndedRun, JournalLine};
pub(crate) use journal_memory::{JOBS, Memory};

use crate::domain::name::names::NodeName;

/// The longest time for which an at-most-once run waits until its start mark is on disk.
const MARK_PATIENCE: Duration = Duration::from_millis(250);
/// The most bytes of unwritten lines. Past this bound the file is rewritten from memory instead.
const UNWRITTEN: usize = 1 << 20;
/// The time for which ends of runs are remembered, in ms.
const AGE_MS: i64 = 30 * 24 * 3600 * 1000;

/// The journal of one node, in memory and in a file.
pub struct Journal {
    desk: Arc<Desk>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// The state shared by the node and the writing thread.
#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    memory: Memory,
    /// True if the journal has a file.
    has_file: bool,
    unwritten: Vec<u8>,
    /// The state of the file, which decides how it is written next.
    file_is: FileIs,
    /// The tasks that wait until the unwritten lines are on disk.
    waiting: Vec<oneshot::Sender<()>>,
    is_closing: bool,
}

/// The state of the file compared with the memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FileIs {
    /// The file has everything but the unwritten lines.
    #[default]
    Current,
    /// The file lacks facts, and must be rewritten from memory.
    Stale,
    /// The file belongs to other data than the memory. The file must be kept under another name,
    /// and a new file written.
    Another,
}

impl State {
    fn take(&mut self, lines: impl IntoIterator<Item = JournalLine>) {
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal {
    /// Returns a journal without a file, which ends with this process.
    pub fn in_memory() -> Self {
        Self { desk: Arc::default(), writer: Mutex::default() }
    }

    /// Opens the journal of `node` in `namespace`, kept in the directory `dir`. If the directory
    /// cannot be used, logs the reason, and the node continues without a file.
    pub fn open(dir: Option<&Path>, namespace: &str, node: &NodeName) -> Self {
        let Some(dir) = dir else {
            warn!(
                "This node has no journal: none of STATE_DIRECTORY, XDG_STATE_HOME and HOME is set. It cannot notice data that Redis loses while the node is down."
            );
            return Self::in_memory();
        };
        match journal_file::JournalFile::open(dir, namespace, node) {
            Ok((file, memory)) => {
                let desk = Arc::new(Desk::default());
                (desk.state().memory, desk.state().has_file) = (memory, true);
                let shared = desk.clone();
                let writer =
                    std::thread::Builder::new().name("journal".to_owned()).spawn(move || journal_file::write(&shared, file));
                match writer {
                    Ok(writer) => return Self { desk, writer: Mutex::new(Some(writer)) },
                    Err(error) => warn!("This node has no journal, because the journal thread cannot be started ({error})."),
                }
                Self::in_memory()
            }
            Err(why) => {
                warn!("This node has no journal: {why}. It cannot notice data that Redis loses while the node is down.");
                Self::in_memory()
            }
        }
    }

    /// Calls `look` with the memory of this journal, and returns the result.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Memory) -> T) -> T {
        look(&self.desk.state().memory)
    }

    /// Adds facts to the memory. The facts are written to the file later.
    pub(crate) fn note(&self, lines: impl IntoIterator<Item = JournalLine>) {
        self.desk.state().take(lines);
        self.desk.wake.notify_one();
    }

    /// Raises the highest fence in memory, without writing the fence to the file.
    pub(crate) fn raise(&self, fence: u64, whole_at: i64, address: &str) {
        let memory = &mut self.desk.state().memory;
        (memory.highest, memory.whole_at) = (memory.highest.max(fence), memory.whole_at.max(whole_at));
        if memory.address != address {
            address.clone_into(&mut memory.address);
        }
    }

    /// Notes the fence of a claim in memory, without writing the fence to the file.
    pub(crate) fn claimed(&self, fence: u64) {
        let memory = &mut self.desk.state().memory;
        memory.highest = memory.highest.max(fence);
    }

    /// Adds the start mark of `run`, and waits briefly until the mark is on disk.
    pub(crate) async fn mark_start(&self, run: ClaimedRun) {
        let (sender, written) = oneshot::channel();
        {
            let mut state = self.desk.state();
            state.take([JournalLine::Claimed(run)]);
            if state.has_file {
                state.waiting.push(sender);
            }
        }
        self.desk.wake.notify_one();
        // The writing thread logs its failures.
        let _ = tokio::time::timeout(MARK_PATIENCE, written).await;
    }

    /// Starts an empty memory, because the remembered data is not the present data. The old file is
    /// kept beside the new file.
    pub(crate) fn set_aside(&self) {
        let mut state = self.desk.state();
        state.memory = Memory::default();
        state.unwritten.clear();
        state.file_is = FileIs::Another;
        drop(state);
        self.desk.wake.notify_one();
    }

    /// Writes the unwritten lines, as far as the disk allows within 2 seconds, and closes the
    /// journal.
    pub(crate) async fn close(&self) {
        self.desk.state().is_closing = true;
        self.desk.wake.notify_one();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let ended = tokio::task::spawn_blocking(move || drop(writer.join()));
            let _ = tokio::time::timeout(Duration::from_secs(2), ended).await;
        }
    }
}
