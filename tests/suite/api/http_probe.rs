//! A client that sends exactly the bytes that a test wants.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::support::wait::LONG;

/// A client of one API, with the tokens of its callers.
pub(crate) struct HttpProbe {
    address: String,
    tokens: Vec<(String, String)>,
}

/// An answer: its status, its head in lower case, and its body.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl HttpAnswer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the document of an answer with this status.
    #[track_caller]
    pub(crate) fn of(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Checks that the answer is a whole error document with this status and code.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let document = self.of(status);
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        assert_eq!(document["status"], status, "{document}");
        assert_eq!(document["code"], code, "{document}");
        let detail = document["detail"].as_str().unwrap();
        assert!(!detail.is_empty() && !detail.contains('\n'), "{detail:?}");
        document
    }

    /// Reads an answer, whose body may come in chunks, until the end of the connection.
    pub(crate) fn read(stream: impl Read) -> Self {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                break;
            }
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let head = head.to_ascii_lowercase();
        let mut body = Vec::new();
        if head.contains("transfer-encoding: chunked") {
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
                let mut chunk = vec![0; length + 2];
                if length == 0 || reader.read_exact(&mut chunk).is_err() {
                    break;
                }
                body.extend(&chunk[..length]);
                line.clear();
            }
        } else {
            let mut lines = head.lines().filter_map(|line| line.strip_prefix("content-length:"));
            let length =
                lines.next().and_then(|length| length.trim().parse().ok()).unwrap_or(u64::MAX);
            // The other end may close the connection while it still has unread bytes.
            let _ = reader.take(length).read_to_end(&mut body);
        }
        Self { status, head, body }
    }
}

impl HttpProbe {
    pub(crate) fn new(address: String, tokens: Vec<(String, String)>) -> Self {
        Self { address, tokens }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the token of a caller; an empty text for a caller without a token.
    pub(crate) fn token(&self, caller: &str) -> &str {
        self.tokens.iter().find(|(name, _)| name == caller).map_or("", |(_, token)| token)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Sends these bytes, and reads the answer.
    pub(crate) fn raw(&self, bytes: &[u8]) -> HttpAnswer {
        let mut stream = self.connect();
        // The other end may refuse the request before it has read all of it.
        let _ = stream.write_all(bytes);
        HttpAnswer::read(stream)
    }

    /// Returns the head of a request.
    pub(crate) fn head(
        &self,
        caller: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> String {
        use std::fmt::Write as _;
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if headers.iter().all(|(name, _)| *name != "Host") {
            let _ = write!(head, "Host: {}\r\n", self.address);
        }
        let token = self.token(caller);
        if !token.is_empty() {
            let _ = write!(head, "Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head
    }

    /// Sends a request of a caller, and reads the answer.
    #[track_caller]
    pub(crate) fn send(
        &self,
        caller: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> HttpAnswer {
        let mut request = self.head(caller, method, path, headers).into_bytes();
        if !body.is_empty() {
            request.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
        }
        request.extend(b"\r\n");
        request.extend(body);
        self.raw(&request)
    }
}

impl HttpProbe {
    /// Adds the token of a further caller.
    pub(crate) fn add_token(&mut self, caller: &str, token: &str) {
        self.tokens.push((caller.to_owned(), token.to_owned()));
    }

    /// Returns the head of the answer to a GET, with the case of its letters.
    pub(crate) fn raw_head(&self, path: &str) -> String {
        let mut stream = self.connect();
        let request = format!("{}\r\n", self.head("nobody", "GET", path, &[]));
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split("\r\n\r\n").next().unwrap_or_default().to_owned()
    }
}
