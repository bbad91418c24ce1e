//! The journal file. The file is read once at the start. A separate thread appends new facts, and
//! rewrites the file from memory when it has grown.
//!
//! Invariant: a lock ensures that only one process writes the file. Only the user of the process
//! can read the file (mode 0600). After a crash, the file contains only facts that were recorded.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{info, warn};

use super::journal_line::JournalLine;
use super::journal_memory::Memory;
use super::journal_state::{AGE_MS, Desk, FileIs};
use schedd_schedule::names::NodeName;

/// The time for which lines are collected before they are written together.
const GATHER: Duration = Duration::from_millis(20);
/// The wait after a failed write before the next write.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// The size in bytes at which the file is rewritten. The file must also have doubled since its last
/// rewrite.
pub(super) const GROWN: u64 = 4 << 20;
/// The most bytes that are read of the file. No journal of schedd becomes so large.
const READ_AT_MOST: u64 = 256 << 20;

/// The journal file, open and locked by this process.
pub(super) struct JournalFile {
    path: PathBuf,
    pub(super) open: fs::File,
    lock: fs::File,
    size: u64,
    size_when_new: u64,
}

impl JournalFile {
    /// Opens and reads the journal of `node` for `namespace` in the directory `dir`. The error is
    /// the reason why this node has no journal, as text.
    pub(super) fn open(
        dir: &Path,
        namespace: &str,
        node: &NodeName,
    ) -> Result<(Self, Memory), String> {
        let path = dir.join(format!("journal-{namespace}@{node}"));
        let cannot = |verb: &str, path: &Path, error: &io::Error| {
            format!("{} cannot be {verb}: {error}", path.display())
        };
        let lock_path = beside(&path, "lock");
        let lock = opened(&lock_path).map_err(|error| cannot("opened", &lock_path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("{} is in use by another schedd", path.display()));
            }
            Err(TryLockError::Error(error)) => return Err(cannot("locked", &lock_path, &error)),
        }
        let file = opened(&path).map_err(|error| cannot("opened", &path, &error))?;
        keep_name(&path).map_err(|error| cannot("kept", &path, &error))?;
        let size = file.metadata().map_err(|error| cannot("read", &path, &error))?.len();
        let text = if size > READ_AT_MOST { Ok(Vec::new()) } else { fs::read(&path) };
        let text = text.map_err(|error| cannot("read", &path, &error))?;
        let (memory, bad) = read(&text);
        // A crash can damage only the last line. More damaged lines have another cause.
        if bad > 1 || size > READ_AT_MOST {
            let aside = beside(&path, "damaged");
            let kept = fs::copy(&path, &aside).map_or_else(
                |error| format!("no copy was kept: {error}"),
                |_| format!("a copy of the file is {}", aside.display()),
            );
            warn!(file = %path.display(), lines = bad, "A part of the journal cannot be read and is ignored; {kept}.");
        }
        let mut file = Self { path, open: file, lock, size, size_when_new: 0 };
        if bad > 0 || size > READ_AT_MOST {
            file.write_anew(&memory).map_err(|error| cannot("written", &file.path, &error))?;
        }
        Ok((file, memory))
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.open.write_all(lines)?;
        self.size += lines.len() as u64;
        Ok(())
    }

    /// Rewrites the file from memory. The text is first written to a new file, which then replaces
    /// the old file. So a crash leaves a complete file.
    fn write_anew(&mut self, memory: &Memory) -> io::Result<()> {
        let mut text = Vec::new();
        memory.lines().for_each(|line| line.encode(&mut text));
        let new = beside(&self.path, "new");
        // A new file that an earlier crash left may be longer than the new text.
        let _ = fs::remove_file(&new);
        let mut file = opened(&new)?;
        file.write_all(&text)?;
        file.sync_data()?;
        fs::rename(&new, &self.path)?;
        keep_name(&self.path)?;
        self.open = file;
        self.size = text.len() as u64;
        self.size_when_new = self.size;
        Ok(())
    }

    /// Returns true if `path` names no file or another file than the open one, because somebody removed
    /// the open file.
    fn is_removed(&self) -> bool {
        let id = |file: fs::Metadata| (file.dev(), file.ino());
        match (self.open.metadata(), fs::metadata(&self.path)) {
            (Ok(open), Ok(named)) => id(open) != id(named),
            (_, named) => named.is_err(),
        }
    }

    fn has_grown(&self) -> bool {
        self.size > GROWN.max(self.size_when_new * 2)
    }
}

/// Waits until the disk has the name of the file `path`. Without it, a power cut can bring back the
/// former file, although the content of this file was on disk (fsync(2)).
fn keep_name(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let kept = fs::File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all();
    // Some file systems cannot do so for a directory.
    kept.or_else(|error| match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Ok(()),
        _ => Err(error),
    })
}

/// Returns `path` with `ending` appended to its file name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

impl Drop for JournalFile {
    /// Releases the lock. Closing the lock file is not enough: a child process that is being started
    /// shares the open file until its exec(2), and with it the lock (flock(2)).
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

fn opened(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Returns the facts in `text`, the content of a journal file, and the number of its damaged lines.
pub(super) fn read(text: &[u8]) -> (Memory, usize) {
    let mut memory = Memory::default();
    let mut bad = 0;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match JournalLine::decode(line) {
            Some(line) => memory.take(line),
            None => bad += 1,
        }
    }
    // A last line without a line end has a correct checksum. Still the file is rewritten, because
    // the next line would be appended to it.
    if bad == 0 && !text.is_empty() && !text.ends_with(b"\n") {
        bad = 1;
    }
    (memory, bad)
}

/// Writes the waiting lines to the file until the journal is closed.
pub(super) fn write(desk: &Desk, mut file: JournalFile) {
    let mut is_refused = false;
    loop {
        let mut state = desk.state();
        while state.unwritten.is_empty()
            && state.file_is == FileIs::Current
            && !state.is_closing
            && state.waiting.is_empty()
        {
            state = desk.wake.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        let gathers = state.waiting.is_empty() && !state.is_closing;
        // No task waits for the disk while it waits for the state.
        drop(state);
        if gathers {
            std::thread::sleep(GATHER);
        }
        let is_removed = file.is_removed();
        let mut state = desk.state();
        let lines = std::mem::take(&mut state.unwritten);
        let waiting = std::mem::take(&mut state.waiting);
        let is_closing = state.is_closing;
        let file_was = std::mem::take(&mut state.file_is);
        let anew = (file_was != FileIs::Current || is_removed || file.has_grown()).then(|| {
            let before = state.memory.whole_at - AGE_MS;
            state.memory.forget_before(before);
            state.memory.clone()
        });
        drop(state);
        if file_was == FileIs::Another {
            // If the file cannot be renamed, it is overwritten.
            let _ = fs::rename(&file.path, beside(&file.path, "aside"));
        }
        let written = match &anew {
            Some(memory) => file.write_anew(memory),
            None if waiting.is_empty() => file.append(&lines),
            None => file.append(&lines).and_then(|()| file.open.sync_data()),
        };
        match written {
            Ok(()) => {
                if is_removed && !is_refused {
                    warn!(file = %file.path.display(), "The file of the journal was removed, and is written anew.");
                }
                if std::mem::take(&mut is_refused) {
                    info!(file = %file.path.display(), "The journal can be written again.");
                }
                for waiting in waiting {
                    let _ = waiting.send(());
                }
                if is_closing {
                    return;
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut is_refused, true) {
                    warn!(file = %file.path.display(), "The journal cannot be written: {error}. This node runs jobs without the journal and tries again.");
                }
                // The tasks that wait are woken, so that no run waits for a disk that fails.
                drop(waiting);
                if is_closing {
                    return;
                }
                let mut state = desk.state();
                state.unwritten.clear();
                if state.file_is == FileIs::Current {
                    state.file_is = FileIs::Stale;
                }
                drop(state);
                // An at-most-once run that starts during this pause does not wait until its start
                // mark is on disk.
                rest(desk);
            }
        }
    }
}

/// Waits until the next write may be tried, or the journal is closed.
fn rest(desk: &Desk) {
    let end = std::time::Instant::now() + TRY_AGAIN;
    let mut state = desk.state();
    loop {
        state.waiting.clear();
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() || state.is_closing {
            return;
        }
        state = desk
            .wake
            .wait_timeout(state, left)
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .0;
    }
}
