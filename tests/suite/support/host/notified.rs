//! A service manager of a test's own: a real socket for `NOTIFY_SOCKET`, and the messages sent to
//! it.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::wait::LONG;

pub(crate) struct Notified {
    dir: TempDir,
    socket: UnixDatagram,
}

impl Notified {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap();
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        Self { dir, socket }
    }

    /// The value for `NOTIFY_SOCKET`.
    pub(crate) fn address(&self) -> String {
        let path: PathBuf = self.dir.path().join("notify");
        path.to_str().unwrap().to_owned()
    }

    /// Returns the next message, if one comes within `time`.
    pub(crate) fn next_within(&self, time: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(time.max(Duration::from_millis(1)))).unwrap();
        let mut bytes = [0; 4096];
        let count = self.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8(bytes[..count].to_vec()).unwrap())
    }

    /// Waits for a message that contains this text, and drops the messages before it.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let mut before = Vec::new();
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            match self.next_within(end.saturating_duration_since(Instant::now())) {
                Some(message) if message.contains(text) => return message,
                other => before.extend(other),
            }
        }
        panic!("waited {LONG:?} in vain for {text:?}; heard {before:?}");
    }

    /// Returns all messages within `time`.
    pub(crate) fn all_within(&self, time: Duration) -> Vec<String> {
        let end = Instant::now() + time;
        let mut heard = Vec::new();
        while Instant::now() < end {
            heard.extend(self.next_within(end.saturating_duration_since(Instant::now())));
        }
        heard
    }
}
