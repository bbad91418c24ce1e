//! A node's own journal: what it knows of its data that Redis may lose. Kept in memory, and in a small file over restarts.
//!
//! - [`mod@line`] the file's lines; [`memory`] what is remembered, within bounds; [`mod@file`] the file and the thread that writes it
//!
//! Invariant: a disk that is slow, full or gone holds nothing up: facts are taken into memory at once, and written behind by a
//! thread of its own. Only the start mark of an at-most-once run is waited for, and not long.

mod file;
mod line;
mod memory;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::warn;

pub(super) use line::{ApiJob, ClaimedRun, EndedRun, Line};
pub(super) use memory::{JOBS, Memory};

use crate::domain::ids::NodeName;

/// How long the start of an at-most-once run waits for its mark to be on disk.
const MARK_PATIENCE: Duration = Duration::from_millis(250);
/// Lines not yet written, in bytes: past this the file is written anew from memory instead.
const UNWRITTEN: usize = 1 << 20;
/// How long ends are remembered, ms.
const AGE_MS: i64 = 30 * 24 * 3600 * 1000;

/// The journal of one node.
pub struct Journal {
    desk: Arc<Desk>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What the node and the writing thread share.
#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    memory: Memory,
    /// Whether there is a file to write to.
    has_file: bool,
    unwritten: Vec<u8>,
    /// What is to become of the file before anything is appended to it.
    file_is: FileIs,
    /// Who waits for what is unwritten.
    waiting: Vec<oneshot::Sender<()>>,
    is_closing: bool,
}

/// What the file is to what is remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FileIs {
    /// All but what is unwritten.
    #[default]
    Current,
    /// Less: it is to be written anew from memory.
    Stale,
    /// Another data's: it is to be kept aside, and a new one written.
    Another,
}

impl State {
    fn take(&mut self, lines: impl IntoIterator<Item = Line>) {
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
    /// One that is forgotten with this process.
    pub fn in_memory() -> Self {
        Self { desk: Arc::default(), writer: Mutex::default() }
    }

    /// The journal of `node` in `namespace`, kept in `dir` if that can be written to; what could not be is said, and the node
    /// goes on without a file.
    pub fn open(dir: Option<&Path>, namespace: &str, node: &NodeName) -> Self {
        let Some(dir) = dir else {
            warn!(
                "No journal: no state directory is named (STATE_DIRECTORY, XDG_STATE_HOME, HOME); what Redis loses while this node is down is not noticed."
            );
            return Self::in_memory();
        };
        match file::File::open(dir, namespace, node) {
            Ok((file, memory)) => {
                let desk = Arc::new(Desk::default());
                (desk.state().memory, desk.state().has_file) = (memory, true);
                let shared = desk.clone();
                let writer = std::thread::Builder::new().name("journal".to_owned()).spawn(move || file::write(&shared, file));
                match writer {
                    Ok(writer) => return Self { desk, writer: Mutex::new(Some(writer)) },
                    Err(error) => warn!("No journal: its thread cannot be started ({error})."),
                }
                Self::in_memory()
            }
            Err(why) => {
                warn!("No journal: {why}; what Redis loses while this node is down is not noticed.");
                Self::in_memory()
            }
        }
    }

    /// Looks at what is remembered.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Memory) -> T) -> T {
        look(&self.desk.state().memory)
    }

    /// Takes facts in; they are written behind.
    pub(super) fn note(&self, lines: impl IntoIterator<Item = Line>) {
        self.desk.state().take(lines);
        self.desk.wake.notify_one();
    }

    /// Takes the highest fence in without writing it.
    pub(super) fn raise(&self, fence: u64, whole_at: i64, address: &str) {
        let memory = &mut self.desk.state().memory;
        (memory.highest, memory.whole_at) = (memory.highest.max(fence), memory.whole_at.max(whole_at));
        if memory.address != address {
            address.clone_into(&mut memory.address);
        }
    }

    /// Takes in without writing it that a run was claimed under this fence.
    pub(super) fn claimed(&self, fence: u64) {
        let memory = &mut self.desk.state().memory;
        memory.highest = memory.highest.max(fence);
    }

    /// Takes a start mark in, and waits a moment for it to be on disk.
    pub(super) async fn mark_start(&self, run: ClaimedRun) {
        let (sender, written) = oneshot::channel();
        {
            let mut state = self.desk.state();
            state.take([Line::Claimed(run)]);
            if state.has_file {
                state.waiting.push(sender);
            }
        }
        self.desk.wake.notify_one();
        // What cannot be written is said by who writes.
        let _ = tokio::time::timeout(MARK_PATIENCE, written).await;
    }

    /// Begins anew: what was remembered is another data's. Its file is kept beside the new one.
    pub(super) fn set_aside(&self) {
        let mut state = self.desk.state();
        state.memory = Memory::default();
        state.unwritten.clear();
        state.file_is = FileIs::Another;
        drop(state);
        self.desk.wake.notify_one();
    }

    /// Writes what is left, as far as the disk lets it within the moment a stop has for it.
    pub(super) async fn close(&self) {
        self.desk.state().is_closing = true;
        self.desk.wake.notify_one();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let ended = tokio::task::spawn_blocking(move || drop(writer.join()));
            let _ = tokio::time::timeout(Duration::from_secs(2), ended).await;
        }
    }
}
