//! The journal of a node: facts about the data in Redis that Redis may lose. The facts are kept in
//! memory, and in a small file that outlives a restart.
//!
//! - [`journal_line`] is the line format of the file
//! - [`journal_memory`] has the facts that the node remembers, within limits
//! - [`journal_state`] is the state shared with the thread that writes the file
//! - [`journal_file`] is the file, and the thread that writes it
//!
//! Invariant: a slow, full or missing disk delays no run. Facts enter the memory at once, and a
//! separate thread writes them later. Only the start mark of an at-most-once run waits for the
//! disk, for at most a quarter of a second.

mod journal_file;
mod journal_line;
mod journal_memory;
mod journal_state;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::warn;

pub(crate) use journal_line::{ApiJob, ClaimedRun, EndedRun, JournalLine};
pub(crate) use journal_memory::{JOBS, Memory};

use journal_state::{Desk, FileIs};
use schedd_schedule::names::NodeName;

/// The longest time for which an at-most-once run waits until its start mark is on disk.
const MARK_PATIENCE: Duration = Duration::from_millis(250);
/// The journal of one node, in memory and, if possible, in a file.
pub struct Journal {
    desk: Arc<Desk>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Journal {
    /// Returns a journal that is only in memory and ends with this process.
    pub fn in_memory() -> Self {
        Self { desk: Arc::default(), writer: Mutex::default() }
    }

    /// Opens the journal of `node` for `namespace` in the directory `dir`. If the directory is
    /// unusable, logs the reason and returns a journal that is only in memory.
    pub fn open(dir: Option<&Path>, namespace: &str, node: &NodeName) -> Self {
        let Some(dir) = dir else {
            warn!(
                "This node has no journal: none of the variables STATE_DIRECTORY, XDG_STATE_HOME and HOME is set. The node cannot notice data that Redis loses while the node is down."
            );
            return Self::in_memory();
        };
        match journal_file::JournalFile::open(dir, namespace, node) {
            Ok((file, memory)) => {
                let desk = Arc::new(Desk::default());
                (desk.state().memory, desk.state().has_file) = (memory, true);
                let shared = desk.clone();
                let writer = std::thread::Builder::new()
                    .name("journal".to_owned())
                    .spawn(move || journal_file::write(&shared, file));
                match writer {
                    Ok(writer) => return Self { desk, writer: Mutex::new(Some(writer)) },
                    Err(error) => warn!(
                        "This node has no journal, because the journal thread cannot be started: {error}."
                    ),
                }
                Self::in_memory()
            }
            Err(why) => {
                warn!(
                    "This node has no journal: {why}. The node cannot notice data that Redis loses while the node is down."
                );
                Self::in_memory()
            }
        }
    }

    /// Calls `look` with the memory of this journal, and returns its result.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Memory) -> T) -> T {
        look(&self.desk.state().memory)
    }

    /// Adds facts to the memory. The writing thread adds these facts to the file later.
    pub(crate) fn note(&self, lines: impl IntoIterator<Item = JournalLine>) {
        self.desk.state().take(lines);
        self.desk.wake.notify_one();
    }

    /// Raises the highest fence in memory to `fence`. Also records there that the data at `address`
    /// was complete at `whole_at` (Redis' time in Unix ms). The file is not changed.
    pub(crate) fn raise(&self, fence: u64, whole_at: i64, address: &str) {
        let memory = &mut self.desk.state().memory;
        (memory.highest, memory.whole_at) =
            (memory.highest.max(fence), memory.whole_at.max(whole_at));
        if memory.address != address {
            address.clone_into(&mut memory.address);
        }
    }

    /// Raises the highest fence in memory to the fence of a claim. The file is not changed.
    pub(crate) fn claimed(&self, fence: u64) {
        let memory = &mut self.desk.state().memory;
        memory.highest = memory.highest.max(fence);
    }

    /// Adds the start mark of `run`, and waits at most `MARK_PATIENCE` until the mark is on disk.
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
        // A failure of the writing thread is logged there and does not stop the run.
        let _ = tokio::time::timeout(MARK_PATIENCE, written).await;
    }

    /// Starts with an empty memory, because the remembered data is not the data in this Redis. The
    /// old file is kept under another name.
    pub(crate) fn set_aside(&self) {
        let mut state = self.desk.state();
        state.memory = Memory::default();
        state.unwritten.clear();
        state.file_is = FileIs::Another;
        drop(state);
        self.desk.wake.notify_one();
    }

    /// Closes the journal. Waiting lines are still written, for at most 2 seconds.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::OpenOptions;
    use std::os::unix::fs::PermissionsExt;

    use super::journal_file::{GROWN, JournalFile, read, write};
    use super::*;

    fn node() -> NodeName {
        "n1".parse().unwrap()
    }

    fn ended(number: i64) -> JournalLine {
        JournalLine::Ended(EndedRun {
            run: format!("a{}@{number}", number % 50),
            queue: "default".to_owned(),
            state: "succeeded".to_owned(),
            reason: String::new(),
            ended_at: number,
            fence: 1,
            facts: Vec::new(),
        })
    }

    async fn written(dir: &Path, lines: impl IntoIterator<Item = JournalLine>) {
        let journal = Journal::open(Some(dir), "ns", &node());
        assert!(journal.desk.state().has_file);
        journal.note(lines);
        journal.close().await;
    }

    fn memory(dir: &Path) -> Memory {
        JournalFile::open(dir, "ns", &node()).unwrap().1
    }

    #[tokio::test]
    async fn what_was_noted_is_there_after_a_restart_and_nobody_else_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), [JournalLine::Epoch("e".to_owned()), ended(1), ended(2)]).await;
        let memory = memory(dir.path());
        assert_eq!((memory.epoch.as_deref(), memory.ended().count()), (Some("e"), 2));
        let mode = dir.path().join("journal-ns@n1").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_torn_tail_costs_its_own_line_and_what_is_written_next_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal-ns@n1");
        written(dir.path(), [ended(1), ended(2)]).await;
        let text = fs::read(&path).unwrap();
        for cut in 1..60 {
            fs::write(&path, &text[..text.len() - cut]).unwrap();
            written(dir.path(), [ended(3)]).await;
            let ends: Vec<i64> = memory(dir.path()).ended().map(|run| run.ended_at).collect();
            assert_eq!(ends, if cut == 1 { vec![1, 2, 3] } else { vec![1, 3] }, "cut {cut}");
        }
    }

    #[test]
    fn garbage_is_left_out_and_kept_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal-ns@n1");
        let mut text = b"\xff\xfe\x00garbage\nmore\n".to_vec();
        ended(1).encode(&mut text);
        fs::write(&path, &text).unwrap();
        assert_eq!(memory(dir.path()).ended().count(), 1);
        assert_eq!(fs::read(dir.path().join("journal-ns@n1.damaged")).unwrap(), text);
        assert_eq!(read(&fs::read(&path).unwrap()).1, 0, "it was written anew");
    }

    /// The start of an at-most-once run under this fence.
    fn begun(fence: u64) -> ClaimedRun {
        let (run, queue) = ("once@1".to_owned(), "default".to_owned());
        ClaimedRun { run, queue, attempt: 1, fence, at: 1 }
    }

    #[tokio::test]
    async fn a_file_that_has_grown_is_written_anew_and_stays_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal-ns@n1");
        let journal = Journal::open(Some(dir.path()), "ns", &node());
        for batch in 0..60 {
            journal.note((0..1_000).map(|number| ended(batch * 1_000 + number)));
            journal.mark_start(begun(1)).await;
        }
        journal.close().await;
        assert!(path.metadata().unwrap().len() < GROWN * 2, "{}", path.metadata().unwrap().len());
        drop(journal);
        assert_eq!(memory(dir.path()).ended().count(), 10_000);
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_written_and_one_in_use_leave_a_journal_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let nowhere = Journal::open(Some(&dir.path().join("missing")), "ns", &node());
        nowhere.note([ended(1)]);
        assert_eq!(nowhere.with(|memory| memory.ended().count()), 1);
        let first = Journal::open(Some(dir.path()), "ns", &node());
        let second = Journal::open(Some(dir.path()), "ns", &node());
        assert!(first.desk.state().has_file && !second.desk.state().has_file);
        first.close().await;
    }

    #[tokio::test]
    async fn a_file_that_was_removed_is_written_anew_with_all_that_is_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(Some(dir.path()), "ns", &node());
        journal.note([ended(1)]);
        journal.mark_start(begun(1)).await;
        std::fs::remove_file(dir.path().join("journal-ns@n1")).unwrap();
        journal.mark_start(begun(2)).await;
        journal.close().await;
        drop(journal);
        let kept = memory(dir.path());
        assert_eq!((kept.ended().count(), kept.claimed().count()), (1, 1));
    }

    #[tokio::test]
    async fn a_full_disk_holds_nothing_up_and_loses_nothing_from_memory() {
        let Ok(full) = OpenOptions::new().append(true).open("/dev/full") else { return };
        let dir = tempfile::tempdir().unwrap();
        let (mut file, memory) = JournalFile::open(dir.path(), "ns", &node()).unwrap();
        file.open = full;
        let desk = Arc::new(Desk::default());
        (desk.state().memory, desk.state().has_file) = (memory, true);
        let shared = desk.clone();
        let writer = std::thread::spawn(move || write(&shared, file));
        let journal = Journal { desk, writer: Mutex::new(Some(writer)) };
        for _ in 0..20 {
            journal.mark_start(begun(1)).await;
        }
        assert_eq!(journal.with(|memory| memory.claimed().count()), 1);
        journal.close().await;
    }
}
