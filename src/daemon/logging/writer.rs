//! A writer of log lines on a thread of its own: to the standard error, or to systemd's journal.
//!
//! Invariant: code that logs never waits for a reader of the log. A reader may stop (a stopped
//! journal, a full pipe, a terminal stopped with ^S) or be gone. Then lines are lost, and nothing
//! else happens. The lost lines are counted, and the count is logged once the reader goes on. Lines
//! of jobs never take more than half of the waiting lines.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::entry::LogSource;

/// The maximum number of lines that wait for the reader of the log.
const WAITING: usize = 4_096;
/// The maximum time to write the last lines at the end of the process.
const LAST_LINES: Duration = Duration::from_secs(1);
/// The interval at which the writer requests summaries of suppressed lines while nothing is logged.
const ASK: Duration = Duration::from_secs(1);

enum Item {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// A request by the writer thread for lines about the log itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrittenLines {
    /// The line about this number of lost lines.
    Lost(u64),
    /// The summaries of suppressed lines whose period is over.
    Due,
    /// The summaries of all suppressed lines, because the log ends here.
    Rest,
}

/// A handle by which log lines are passed to the writer thread. Clones write to the same
/// destination.
#[derive(Clone)]
pub(super) struct LogWriter {
    items: SyncSender<Item>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    lost: AtomicU64,
    waiting: AtomicUsize,
}

impl LogWriter {
    /// Starts a thread that writes lines to `to`. The thread gets lines about the log itself from
    /// `entries_of`. Fails if no thread can be started.
    pub(super) fn start(
        to: impl Write + Send + 'static,
        entries_of: impl Fn(WrittenLines) -> Vec<Vec<u8>> + Send + 'static,
    ) -> io::Result<Self> {
        let (items, received) = sync_channel(WAITING);
        let counts = Arc::new(Counts::default());
        let carrier = Carrier { counts: counts.clone(), to, entries_of };
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || carrier.carry(&received))?;
        Ok(Self { items, counts })
    }

    /// Passes a line to the writer thread, or counts the line as lost if too many lines wait.
    pub(super) fn put(&self, line: Vec<u8>, source: LogSource) {
        let Counts { lost, waiting } = &*self.counts;
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        let has_room = source == LogSource::Schedd || before < WAITING / 2;
        if !has_room || self.items.try_send(Item::Line(line)).is_err() {
            waiting.fetch_sub(1, Ordering::Relaxed);
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines logged so far are written, at most one second.
    pub(super) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.items.try_send(Item::Flush(done)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

struct Carrier<W, T> {
    counts: Arc<Counts>,
    to: W,
    entries_of: T,
}

impl<W: Write, T: Fn(WrittenLines) -> Vec<Vec<u8>>> Carrier<W, T> {
    fn carry(mut self, items: &Receiver<Item>) {
        loop {
            match items.recv_timeout(ASK) {
                Ok(Item::Line(line)) => {
                    self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
                    self.write(&line);
                }
                Ok(Item::Flush(done)) => {
                    self.say(WrittenLines::Rest);
                    let _ = done.try_send(());
                }
                Err(RecvTimeoutError::Timeout) => self.say(WrittenLines::Due),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Writes a line, then the number of lines lost before this line. A line that cannot be written
    /// counts as lost.
    fn write(&mut self, line: &[u8]) {
        if self.to.write_all(line).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let count = self.counts.lost.swap(0, Ordering::Relaxed);
        if count > 0 {
            for line in (self.entries_of)(WrittenLines::Lost(count)) {
                let _ = self.to.write_all(&line);
            }
        }
    }

    fn say(&mut self, written: WrittenLines) {
        for line in (self.entries_of)(written) {
            self.write(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A destination whose writes block until the test opens the gate.
    #[derive(Clone, Default)]
    struct Gate {
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn entries_of(written: WrittenLines) -> Vec<Vec<u8>> {
        match written {
            WrittenLines::Lost(count) => vec![format!("{count} lost\n").into_bytes()],
            WrittenLines::Rest => vec![b"rest\n".to_vec()],
            WrittenLines::Due => Vec::new(),
        }
    }

    #[test]
    fn logging_does_not_wait_for_a_stuck_reader_and_lost_lines_are_counted() {
        let gate = Gate::default();
        let writer = LogWriter::start(gate.clone(), entries_of).unwrap();
        let shut = gate.written.lock().unwrap();
        // Those of jobs leave room for the daemon's own.
        for _ in 0..WAITING {
            writer.put(b"job\n".to_vec(), LogSource::Job);
        }
        for _ in 0..WAITING / 2 {
            writer.put(b"line\n".to_vec(), LogSource::Schedd);
        }
        drop(shut);
        // One line may be in the thread's hand already.
        while !String::from_utf8_lossy(&gate.written.lock().unwrap()).contains(" lost\n") {
            writer.flush();
        }
        writer.flush();
        let text = String::from_utf8(gate.written.lock().unwrap().clone()).unwrap();
        let count = |wanted: &str| text.lines().filter(|line| *line == wanted).count();
        let written: usize =
            text.lines().find_map(|line| line.strip_suffix(" lost")?.parse().ok()).unwrap();
        assert!(count("line") >= WAITING / 2 - 1, "{}", count("line"));
        assert!((WAITING / 2 - 1..=WAITING / 2 + 1).contains(&written), "{written}");
        assert!(text.ends_with("rest\n"));
    }

    #[test]
    fn a_reader_that_is_gone_and_comes_back_is_reported_what_it_missed() {
        struct Door(Arc<Mutex<(bool, Vec<u8>)>>);
        impl Write for Door {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let mut door = self.0.lock().unwrap();
                if !door.0 {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                door.1.extend(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let door = Arc::new(Mutex::new((false, Vec::new())));
        let writer = LogWriter::start(Door(door.clone()), |written| match written {
            WrittenLines::Rest => Vec::new(),
            written => entries_of(written),
        });
        let writer = writer.unwrap();
        (0..3).for_each(|_| writer.put(b"line\n".to_vec(), LogSource::Schedd));
        writer.flush();
        door.lock().unwrap().0 = true;
        writer.put(b"back\n".to_vec(), LogSource::Schedd);
        writer.flush();
        assert_eq!(door.lock().unwrap().1, b"back\n3 lost\n");
    }
}
