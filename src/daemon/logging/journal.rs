//! The socket of systemd's journal, and the check whether the journal reads the standard error of
//! this process.
//!
//! The socket is looked up for each entry, so that a restarted journal is found again.

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;

const SOCKET: &str = "/run/systemd/journal/socket";

/// Returns true if the journal reads the standard error of this process and has a socket. The check
/// uses `$JOURNAL_STREAM` (systemd.exec(5)).
pub(super) fn reads_standard_error() -> bool {
    let said = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let Ok(about) = rustix::fs::fstat(io::stderr()) else { return false };
    is_stream(&said, about.st_dev, about.st_ino) && Socket::open().is_ok()
}

fn is_stream(said: &str, device: u64, inode: u64) -> bool {
    said.split_once(':')
        .is_some_and(|(dev, ino)| dev.parse() == Ok(device) && ino.parse() == Ok(inode))
}

/// A socket that sends entries to systemd's journal. Each write sends one entry.
pub(super) struct Socket(UnixDatagram);

impl Socket {
    /// Opens a socket to the journal of this host. Returns an error if the host has no journal.
    pub(super) fn open() -> io::Result<Self> {
        std::fs::metadata(SOCKET)
            .map_err(|error| io::Error::new(error.kind(), format!("{SOCKET}: {error}")))?;
        UnixDatagram::unbound().map(Self)
    }
}

impl Write for Socket {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.0.send_to(entry, SOCKET)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_stream_that_systemd_named_is_the_journals() {
        assert!(is_stream("9:12345", 9, 12_345));
        for said in ["", ":", "9", "9:1234", "8:12345", "9:12345:1", "9:x"] {
            assert!(!is_stream(said, 9, 12_345), "{said}");
        }
    }
}
