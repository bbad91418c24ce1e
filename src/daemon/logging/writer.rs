//! A writer of log lines on a separate thread, to standard error or to systemd's journal.
//!
//! Invariant: code that logs never waits for a reader of the log. If a reader stops (a stopped
//! journal, a full pipe, a terminal stopped with ^S) or is gone, lines are lost. The number of lost
//! lines is logged when the reader continues. Lines of jobs take at most half of the queue of
//! waiting lines.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::entry::LogSource;

/// The most lines that wait for the writer thread.
const WAITING: usize = 4_096;
/// The longest time for writing the last lines at the end of the process.
const LAST_LINES: Duration = Duration::from_secs(1);
/// The interval at which the idle writer thread asks for summaries of lines that were not written.
const ASK: Duration = Duration::from_secs(1);

/// The pause after the writer thread has written all waiting lines. Lines that come meanwhile do
/// not wake the thread.
const PAUSE: Duration = Duration::from_millis(2);

enum Item {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// A request of the writer thread for lines about the log itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrittenLines {
    /// Requests a line about this number of lost lines.
    Lost(u64),
    /// Requests the summaries of lines that were not written, for all periods that are over.
    Due,
    /// Requests all summaries of lines that were not written, at the end of the log.
    Rest,
}

/// A handle that passes log lines to the writer thread. Clones of a handle use the same thread.
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
    /// Starts a thread that writes lines to `to`. For lines about the log itself, such as the
    /// number of lost lines, the thread calls `entries_of`. Returns an error if no thread can be
    /// started.
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

    /// Passes a line to the writer thread. Counts the line as lost if too many lines already wait.
    pub(super) fn put(&self, line: Vec<u8>, source: LogSource) {
        let Counts { lost, waiting } = &*self.counts;
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        let has_room = source == LogSource::Schedd || before < WAITING / 2;
        if !has_room || self.items.try_send(Item::Line(line)).is_err() {
            waiting.fetch_sub(1, Ordering::Relaxed);
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all earlier log lines are written, at most one second.
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
                    let is_last = self.counts.waiting.fetch_sub(1, Ordering::Relaxed) == 1;
                    self.write(&line);
                    if is_last {
                        std::thread::sleep(PAUSE);
                    }
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

    /// Writes a line, followed by the number of lines that were lost before it. If the line cannot
    /// be written, it counts as lost.
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
        // Waiting lines of jobs leave room for lines of the daemon.
        for _ in 0..WAITING {
            writer.put(b"job\n".to_vec(), LogSource::Job);
        }
        for _ in 0..WAITING / 2 {
            writer.put(b"line\n".to_vec(), LogSource::Schedd);
        }
        drop(shut);
        // The writer thread may already have taken one line.
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
