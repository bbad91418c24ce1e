//! The requests to the private server outside normal connections: the pid of the listening process,
//! PING and SHUTDOWN.
//!
//! Each request is an inline command on a new socket. The client of the store reconnects by itself,
//! which is wrong while a server loads or ends. Invariant: every call ends within [`PATIENCE`].

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(1);

/// The state of a server, from its answer to PING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The server serves clients. Errors such as MISCONF or BUSY count as answers of a serving
    /// server.
    Serving,
    /// The server is loading its append-only file and will serve after that.
    Loading,
}

/// Returns the pid of the process that listens at `socket`, as the kernel reports the pid
/// (`SO_PEERCRED`, unix(7)). Returns 0 if the process is in another pid namespace. Returns None if
/// no process listens.
pub(super) async fn listener(socket: &Path) -> io::Result<Option<i32>> {
    match connect(socket).await {
        Ok(stream) => Ok(Some(stream.peer_cred()?.pid().unwrap_or(0))),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Sends PING to the server at `socket` and returns its state. Fails if the server gives no answer,
/// so its state is unknown.
pub(super) async fn ping(socket: &Path) -> io::Result<Answer> {
    let mut stream = connect(socket).await?;
    let reply = timeout(PATIENCE, async {
        stream.write_all(b"PING\r\n").await?;
        let mut start = [0; 5];
        stream.read_exact(&mut start).await?;
        Ok::<_, io::Error>(start)
    });
    Ok(if reply.await?? == *b"-LOAD" { Answer::Loading } else { Answer::Serving })
}

/// Asks the server at `socket` to write its append-only file to disk and end. If this fails, the
/// request may not have arrived.
pub(super) async fn shut_down(socket: &Path) -> io::Result<()> {
    let mut stream = connect(socket).await?;
    timeout(PATIENCE, stream.write_all(b"SHUTDOWN NOSAVE\r\n")).await??;
    // If this side closed the connection now, the server might not read the command. So this call
    // waits until the server ends and closes the connection.
    let mut reply = [0; 1];
    match timeout(PATIENCE, stream.read(&mut reply)).await? {
        Ok(0) | Err(_) => Ok(()),
        Ok(_) => Err(io::Error::other("the server refused to shut down")),
    }
}

async fn connect(socket: &Path) -> io::Result<UnixStream> {
    timeout(PATIENCE, UnixStream::connect(socket)).await?
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn only_loading_is_not_yet_serving() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listening = UnixListener::bind(&socket).unwrap();
        for (reply, wanted) in [
            ("+PONG\r\n", Answer::Serving),
            ("-MISCONF Errors writing to the AOF file\r\n", Answer::Serving),
            ("-LOADING Redis is loading the dataset in memory\r\n", Answer::Loading),
        ] {
            let serve = async {
                let (mut stream, _) = listening.accept().await.unwrap();
                stream.write_all(reply.as_bytes()).await.unwrap();
            };
            let ((), answer) = tokio::join!(serve, ping(&socket));
            assert_eq!(answer.unwrap(), wanted, "{reply:?}");
        }
    }

    #[tokio::test]
    async fn the_listener_is_the_process_that_listens_and_none_once_it_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        assert_eq!(listener(&socket).await.unwrap(), None);
        let listening = UnixListener::bind(&socket).unwrap();
        assert_eq!(listener(&socket).await.unwrap(), i32::try_from(std::process::id()).ok());
        drop(listening);
        assert_eq!(listener(&socket).await.unwrap(), None);
    }
}
