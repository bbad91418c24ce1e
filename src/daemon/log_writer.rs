//! Carries log lines to the standard error on a thread of its own.
//!
//! Invariant: whoever logs never waits for whoever reads. A reader that stands still (a stopped journal, a full pipe, a
//! terminal held with ^S) costs lines, which are counted and told once it goes on, and nothing else; nor does one that is gone.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that may wait for the reader.
const WAITING: usize = 4_096;
/// How long the last lines may take.
const LAST_LINES: Duration = Duration::from_secs(1);

enum Item {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Takes lines. Clones feed the same reader.
#[derive(Clone)]
pub(super) struct LogWriter {
    items: SyncSender<Item>,
    lost: Arc<AtomicU64>,
}

impl LogWriter {
    /// A writer to `to`, with the line that tells how many are missing. Fails if no thread can be started.
    pub(super) fn start(to: impl Write + Send + 'static, tell_lost: fn(u64) -> String) -> io::Result<Self> {
        let (items, received) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || carry(&received, to, &counted, tell_lost))?;
        Ok(Self { items, lost })
    }

    /// Waits until what was logged so far is written, a second at most.
    pub(super) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.items.try_send(Item::Flush(done)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

/// What cannot be written is lost: there is nobody left to tell.
fn carry(items: &Receiver<Item>, mut to: impl Write, lost: &AtomicU64, tell_lost: fn(u64) -> String) {
    while let Ok(item) = items.recv() {
        match item {
            Item::Line(line) => drop(to.write_all(&line)),
            Item::Flush(done) => drop(done.try_send(())),
        }
        let count = lost.swap(0, Ordering::Relaxed);
        if count > 0 {
            let _ = to.write_all(tell_lost(count).as_bytes());
        }
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.items.try_send(Item::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Takes nothing until it is let.
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

    #[test]
    fn who_logs_does_not_wait_for_a_reader_that_stands_still_and_the_lost_lines_are_told() {
        let gate = Gate::default();
        let mut writer = LogWriter::start(gate.clone(), |count| format!("{count} lost\n")).unwrap();
        let shut = gate.written.lock().unwrap();
        for _ in 0..WAITING + 100 {
            writer.write_all(b"line\n").unwrap();
        }
        drop(shut);
        // One line may be in the thread's hand already.
        while !String::from_utf8_lossy(&gate.written.lock().unwrap()).contains(" lost\n") {
            LogWriter::flush(&writer);
        }
        let text = String::from_utf8(gate.written.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| *line == "line").count();
        let told: usize = text.lines().find_map(|line| line.strip_suffix(" lost")?.parse().ok()).unwrap();
        LogWriter::flush(&writer);
        assert!(told >= 99, "{told}");
        assert!(lines + told <= WAITING + 100);
    }
}
