//! The connections of the API and their limits. A connection that sends nothing, or reads nothing,
//! ends after a time and never delays another connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::debug;

use super::api_state::{MOST_POLLS, MOST_STREAMS};
use super::auth::Peer;
use super::listener::{Listener, unix_peer};
use super::router::PresentRoutes;

/// The maximum number of connections besides those of streams and of workers that wait.
const MOST_OTHERS: usize = 256;
/// The time within which the head of a request must arrive. An idle connection ends after it, too.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// The limits beyond which a head gets its status without a document. The usual limits are lower.
const MOST_HEADERS: usize = 1_000;
const MOST_HEAD_BYTES: usize = 96 * 1024;
/// The time after which a connection ends that takes no more bytes.
const WRITE_PAUSE: Duration = Duration::from_secs(30);
/// The time for the start of TLS.
const TLS_TIME: Duration = Duration::from_secs(5);
/// The time between two attempts to accept a connection while descriptors are short.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(200);

/// The answer to a connection beyond the limit.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 5\r\n\
connection: close\r\ncontent-length: 104\r\n\r\n\
{\"status\":503,\"title\":\"Service Unavailable\",\"detail\":\"too many connections are open\",\"code\":\"busy\"}      \n";

/// The maximum numbers of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionPlaces {
    /// All connections.
    pub(super) all: usize,
    /// The connections of streams.
    pub(super) streams: usize,
    /// The connections of workers that wait.
    pub(super) polls: usize,
}

impl ConnectionPlaces {
    /// Returns the places of this process. Connections are at most half of the files that this process
    /// may open, because the node needs files too. Streams, and workers that wait, each leave a fifth
    /// of the connections to others.
    pub(super) fn of_this_process() -> Self {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
        let all = (files / 2).min(MOST_STREAMS + MOST_POLLS + MOST_OTHERS);
        let most = all - all / 5;
        Self { all, streams: MOST_STREAMS.min(most), polls: MOST_POLLS.min(most) }
    }
}

/// Accepts connections until `stop`, and serves each in a task of its own, with the routes that are
/// valid at each request. Returns when all connections have ended; a connection in the middle of a
/// request ends with its answer.
pub(super) async fn serve(
    listener: Listener,
    most: usize,
    routes: Arc<PresentRoutes>,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(most));
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener) => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!("A connection of the API was not accepted: {error}.");
                tokio::time::sleep(SHORTAGE_PAUSE).await;
                continue;
            }
        };
        let tls = match &listener {
            Listener::Tcp(_, tls) => tls.clone(),
            Listener::Unix(..) => None,
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            // A start of TLS would take the processor time that the limit saves.
            if tls.is_none() {
                tokio::spawn(refuse(stream));
            }
            continue;
        };
        let (routes, stop) = (routes.clone(), stop.clone());
        tasks.spawn(async move {
            let stream = Patient::new(stream);
            match tls {
                None => serve_one(stream, peer, routes, stop).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(TLS_TIME, tls.accept(stream)).await
                    {
                        serve_one(stream, peer, routes, stop).await;
                    }
                }
            }
            drop(place);
        });
    }
    tasks.close();
    tasks.wait().await;
}

/// A stream of either kind of listener.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn accept(listener: &Listener) -> io::Result<(Box<dyn Stream>, Peer)> {
    match listener {
        Listener::Tcp(listener, tls) => {
            let (stream, from) = listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok((Box::new(stream), Peer::Tcp(from.ip(), tls.is_some())))
        }
        Listener::Unix(listener, _) => {
            let (stream, _) = listener.accept().await?;
            let peer = unix_peer(&stream);
            Ok((Box::new(stream), peer))
        }
    }
}

/// Answers a connection beyond the limit.
async fn refuse(mut stream: Box<dyn Stream>) {
    let answer = async {
        stream.write_all(TOO_MANY).await?;
        stream.shutdown().await
    };
    // The sender sees the end of the connection in any case.
    let _ = tokio::time::timeout(Duration::from_secs(1), answer).await;
}

async fn serve_one<S>(stream: S, peer: Peer, routes: Arc<PresentRoutes>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        routes.present().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!("A connection of the API ended: {error}.");
    }
}

/// A stream that fails if its reader takes no bytes for [`WRITE_PAUSE`].
struct Patient {
    stream: Box<dyn Stream>,
    /// The end of the present wait for the reader.
    ends: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream, ends: None }
    }

    fn limited<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.ends = None;
            return polled;
        }
        let ends = self.ends.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_PAUSE)));
        match ends.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.limited(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
