//! The HTTP server of the bench. It answers each request by 204 and keeps the time of its arrival.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The body of each request.
pub(super) const BODY: &str = r#"{"order":4711,"event":"shipped"}"#;

/// A server on a thread of its own. It lives as long as the program.
pub(super) struct Sink {
    pub(super) port: u16,
    lateness: Arc<Mutex<Vec<f64>>>,
}

/// Returns the milliseconds since 1970.
pub(super) fn milliseconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64() * 1e3
}

pub(super) fn now() -> f64 {
    milliseconds(SystemTime::now())
}

impl Sink {
    pub(super) fn start() -> Self {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let port = server.local_addr().unwrap().port();
        let lateness = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&lateness);
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = TcpListener::from_std(server).unwrap();
                while let Ok((stream, _)) = server.accept().await {
                    tokio::spawn(serve(stream, Arc::clone(&shared)));
                }
            });
        });
        Self { port, lateness }
    }

    /// Returns the URL of a request that is due at `due`, in milliseconds since 1970.
    pub(super) fn url(&self, due: i64) -> String {
        format!("http://127.0.0.1:{}/{due}", self.port)
    }

    /// Returns how many requests have arrived since the last [`Sink::take`].
    pub(super) fn count(&self) -> usize {
        self.lateness.lock().unwrap().len()
    }

    /// Takes the milliseconds from due to arrival of each request, the earliest first.
    pub(super) fn take(&self) -> Vec<f64> {
        let mut lateness = std::mem::take(&mut *self.lateness.lock().unwrap());
        lateness.sort_by(f64::total_cmp);
        lateness
    }
}

/// Answers the requests of one connection, until the client closes it.
async fn serve(mut stream: TcpStream, lateness: Arc<Mutex<Vec<f64>>>) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    loop {
        while let Some((length, due)) = first_request(&buffer) {
            lateness.lock().unwrap().push(now() - due);
            buffer.drain(..length);
            if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.is_err() {
                return;
            }
        }
        if !stream.read_buf(&mut buffer).await.is_ok_and(|count| count > 0) {
            return;
        }
    }
}

/// Returns the length of the first request and the due time in its path, if it is complete.
fn first_request(buffer: &[u8]) -> Option<(usize, f64)> {
    let end = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&buffer[..end]).unwrap();
    let length = head.lines().filter_map(|line| line.split_once(": ")).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
    });
    let whole = end + length.unwrap_or(0);
    let due = head.split(' ').nth(1)?.trim_start_matches('/').parse().unwrap();
    (buffer.len() >= whole).then_some((whole, due))
}
