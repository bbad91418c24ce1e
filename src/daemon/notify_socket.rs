//! The socket of a service manager (`NOTIFY_SOCKET`), to which notifications are sent.
//!
//! Invariant: a failure to notify the manager is logged once, and again only after a success.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use sd_notify::NotifyState;
use tracing::warn;

/// A connection to a service manager. `send` blocks while the manager does not read.
pub(super) struct NotifySocket {
    socket: UnixDatagram,
    is_deaf: bool,
}

impl NotifySocket {
    /// Connects to the socket at a path, or at an abstract name after `@`. Returns an error if no
    /// process listens there.
    pub(super) fn connect(address: &OsStr) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        match address.as_bytes().strip_prefix(b"@") {
            Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
            None => socket.connect(address)?,
        }
        Ok(Self { socket, is_deaf: false })
    }

    /// Sends one message with all `states` to the service manager. Logs a failure.
    pub(super) fn send(&mut self, states: &[NotifyState<'_>]) {
        let lines: Vec<String> = states.iter().map(ToString::to_string).collect();
        match self.socket.send(lines.join("\n").as_bytes()) {
            Ok(_) => self.is_deaf = false,
            Err(error) => {
                if !std::mem::replace(&mut self.is_deaf, true) {
                    warn!("schedd cannot notify the service manager: {error}.");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_reported_by_a_path_and_by_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("schedd-test-{}", std::process::id());
        let heard = [
            UnixDatagram::bind(&path).unwrap(),
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
        ];
        for (address, heard) in [path.to_str().unwrap(), &format!("@{name}")].into_iter().zip(heard)
        {
            let mut socket = NotifySocket::connect(OsStr::new(address)).unwrap();
            socket.send(&[NotifyState::Ready, NotifyState::Status("up")]);
            let mut bytes = [0; 100];
            let count = heard.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"READY=1\nSTATUS=up");
        }
        assert!(NotifySocket::connect(dir.path().join("none").as_os_str()).is_err());
    }
}
