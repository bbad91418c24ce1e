//! The address of the API: a TCP port, with TLS if it is configured, or a Unix socket.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;

use super::auth::Peer;
use crate::cli::embedded::tls_server;
use schedd_core::config::{ApiAddress, ApiConfig};

/// The mode of the Unix socket: its user and its group may connect.
const SOCKET_MODE: u32 = 0o660;

/// The listening address.
pub(super) enum Listener {
    Tcp(TcpListener, Option<TlsAcceptor>),
    Unix(UnixListener, UnixPath),
}

/// The path of a Unix socket, which is removed at the end.
pub(super) struct UnixPath(PathBuf);

impl Drop for UnixPath {
    fn drop(&mut self) {
        // The next start removes a socket that stayed.
        let _ = fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Begins to listen at the address of `config`. The error names the address and the reason.
    pub(super) async fn bind(address: &ApiAddress, config: &ApiConfig) -> anyhow::Result<Self> {
        let context = || format!("[api] cannot listen at {address}");
        match address {
            ApiAddress::Tcp(at) => {
                let tls = config.tls.as_ref().map(|(cert, key)| tls_server(cert, key));
                let tls = tls.transpose()?.map(|server| TlsAcceptor::from(Arc::new(server)));
                Ok(Self::Tcp(TcpListener::bind(at).await.with_context(context)?, tls))
            }
            ApiAddress::Unix(path) => {
                remove_stale(path).await.with_context(context)?;
                let listener = UnixListener::bind(path).with_context(context)?;
                let path = UnixPath(path.clone());
                fs::set_permissions(&path.0, fs::Permissions::from_mode(SOCKET_MODE))
                    .with_context(context)?;
                Ok(Self::Unix(listener, path))
            }
        }
    }

    /// Returns the address at which this listener really listens.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Tcp(listener, tls) => {
                let scheme = if tls.is_some() { "https" } else { "http" };
                listener
                    .local_addr()
                    .map_or_else(|_| scheme.to_owned(), |at| format!("{scheme}://{at}"))
            }
            Self::Unix(_, path) => format!("unix:{}", path.0.display()),
        }
    }
}

/// Returns the user at the other end of a Unix socket, as `USER@HOST`.
pub(super) fn unix_peer(stream: &UnixStream) -> Peer {
    let uid = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
    Peer::Unix(crate::cli::embedded::who_is(uid))
}

/// Removes the socket of a process that ended without removing it. Fails if a process still listens
/// there, or if the path is no socket.
async fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(about) if !about.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is no socket"))
        }
        Ok(_) if UnixStream::connect(path).await.is_ok() => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"))
        }
        Ok(_) => fs::remove_file(path),
    }
}
