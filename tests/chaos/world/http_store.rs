//! A store to which jobs write over HTTP.
//! It accepts an effect if its fence is not lower than the highest it has seen of that run, and
//! refuses others with 409.
//! That is what docs/guarantees.md advises receivers to do.
//! Every request is kept for the checker, which judges the fences again.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::evidence::{Attempt, Reach, RunName, now};

/// The store; it ends when this value is dropped.
pub(crate) struct HttpStore {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    highest: HashMap<String, u64>,
    requests: Vec<Attempt>,
}

impl HttpStore {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        let listener = std::thread::spawn(move || {
            while !accepting.is_over.load(Ordering::SeqCst) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || {
                    // A client may disconnect at any time, which is no error of the store.
                    let _ = serve(stream, &shared);
                });
            }
        });
        Self { address, shared, listener: Some(listener) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/effect", self.address)
    }

    /// Returns all requests, in the order they came.
    pub(crate) fn requests(&self) -> Vec<Attempt> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).requests.clone()
    }
}

impl Drop for HttpStore {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        let _ = self.listener.take().map(JoinHandle::join);
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut stream = BufReader::new(stream);
    while !shared.is_over.load(Ordering::SeqCst) {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            break;
        }
        let mut fields = HashMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            fields.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length =
            fields.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let status = if shared.take(&fields) { "200 Taken" } else { "409 Older fence" };
        stream
            .get_mut()
            .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())?;
    }
    Ok(())
}

impl Shared {
    fn take(&self, fields: &HashMap<String, String>) -> bool {
        let at = now();
        let field = |name: &str| fields.get(name).map(String::as_str);
        let Some(run) = field("idempotency-key").and_then(RunName::parse) else { return false };
        let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok());
        let (Some(attempt), Some(fence)) = (number("schedd-attempt"), number("schedd-fence"))
        else {
            return false;
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let highest = seen.highest.entry(run.id.clone()).or_default();
        let accepted = fence >= *highest;
        *highest = fence.max(*highest);
        seen.requests.push(Attempt {
            run,
            number: u32::try_from(attempt).unwrap_or(u32::MAX),
            fence,
            node: String::new(),
            pid: 0,
            began: at,
            last_sign: at,
            ended: Some((at, i32::from(!accepted))),
            reach: Reach::Request { accepted },
            version: None,
        });
        accepted
    }
}
