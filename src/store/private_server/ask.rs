//! The few words spoken with the server before and after the real connections: who listens, are you there, shut down.
//!
//! Plain inline commands on a fresh socket rather than the client of the store: it asks a server that is loading or dying,
//! where a client that reconnects by itself is in the way. Invariant: every call ends within [`PATIENCE`].

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(1);

/// What a server says to PING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It serves. Errors such as MISCONF or BUSY are answers too.
    Serving,
    /// It reads its append-only file and will serve then.
    Loading,
}

/// The process that listens at `socket` as the kernel tells it (`SO_PEERCRED`, unix(7)): 0 if it is in another pid
/// namespace, none if nobody listens there.
pub(super) async fn listener(socket: &Path) -> io::Result<Option<i32>> {
    match connect(socket).await {
        Ok(stream) => Ok(Some(stream.peer_cred()?.pid().unwrap_or(0))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks whether the server serves; an error means that it could not be asked now.
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

/// Asks the server to end, its append-only file written out; an error means that it may not have heard.
pub(super) async fn shut_down(socket: &Path) -> io::Result<()> {
    let mut stream = connect(socket).await?;
    timeout(PATIENCE, stream.write_all(b"SHUTDOWN NOSAVE\r\n")).await??;
    // Closed at once, the connection could be dropped before its command is read; the server closes it when it ends.
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
