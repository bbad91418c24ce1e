//! A small real HTTP server that records its requests and gives the answers it was told to give.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A recorded request.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Recorded {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// An answer of the server.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) delay: Duration,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// The length in the header, if it differs from the body's.
    pub(crate) claimed_length: Option<u64>,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            delay: Duration::ZERO,
            headers: Vec::new(),
            body: Vec::new(),
            claimed_length: None,
        }
    }

    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

/// The server; it ends when this value is dropped.
pub(crate) struct HttpSink {
    address: SocketAddr,
    state: Arc<State>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct State {
    requests: Mutex<Vec<Recorded>>,
    answers: Mutex<VecDeque<Answer>>,
}

impl HttpSink {
    /// Starts a server that gives these answers in turn, and then 200.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            answers: Mutex::new(answers.into_iter().collect()),
            ..State::default()
        });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                connections.spawn(async move {
                    // A client may disconnect at any time, which is no error of the server.
                    let _ = serve(stream, &state).await;
                });
            }
        });
        Self { address, state, task }
    }

    pub(crate) fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.state.requests.lock().unwrap().clone()
    }
}

impl Drop for HttpSink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, state: &State) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers
            .iter()
            .find(|(name, _)| name == "content-length")
            .map_or(0, |(_, value)| value.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let body = String::from_utf8(body).unwrap();
        state.requests.lock().unwrap().push(Recorded { method, target, headers, body });
        let answer = state.answers.lock().unwrap().pop_front().unwrap_or(Answer::status(200));
        tokio::time::sleep(answer.delay).await;
        let named: String =
            answer.headers.iter().flat_map(|(name, value)| [*name, ": ", value, "\r\n"]).collect();
        let length = answer.claimed_length.unwrap_or(answer.body.len() as u64);
        let head =
            format!("HTTP/1.1 {} Answer\r\n{named}content-length: {length}\r\n\r\n", answer.status);
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&answer.body).await?;
        stream.flush().await?;
        if answer.claimed_length.is_some() {
            // The header promised more bytes than the body has, so the server closes the
            // connection.
            return Ok(());
        }
    }
}
