//! A small real collector of OTLP over HTTP. It decodes the spans of requests by the wire format of
//! Protocol Buffers (<https://protobuf.dev/programming-guides/encoding/>).

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A received span. Times are Unix milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) trace: String,
    pub(crate) span: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) events: Vec<ReceivedEvent>,
    /// The code and the message.
    pub(crate) status: (u64, String),
    /// The attributes of the service that sent the span.
    pub(crate) service: BTreeMap<String, String>,
}

/// An event of a span.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedEvent {
    pub(crate) at: u64,
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
}

/// The manner in which a collector answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Takes,
    /// The first requests get the status 503.
    RefusesFirst(usize),
    /// No request gets an answer.
    Silent,
}

/// The collector. Its thread ends with the process.
pub(crate) struct Collector {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    requests: usize,
    heads: Vec<String>,
    spans: Vec<Received>,
}

impl Collector {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || serve(&stream, manner, &state));
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.lock().unwrap().requests
    }

    /// The heads of the accepted requests, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.state.lock().unwrap().heads.clone()
    }

    /// Returns the spans of the runs of `job`, oldest first.
    pub(crate) fn spans_of(&self, job: &str) -> Vec<Received> {
        let state = self.state.lock().unwrap();
        let of_job = state.spans.iter().filter(|span| span.attributes["schedd.job"] == job);
        of_job.cloned().collect()
    }
}

fn serve(stream: &TcpStream, manner: Manner, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let mut state = state.lock().unwrap();
        state.requests += 1;
        let status = match manner {
            Manner::Silent => {
                drop(state);
                thread::park();
                return;
            }
            Manner::RefusesFirst(count) if state.requests <= count => "503 Unavailable",
            Manner::Takes | Manner::RefusesFirst(_) => {
                state.heads.push(head);
                state.spans.extend(spans(&body));
                "200 OK"
            }
        };
        drop(state);
        write!(&*stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}

/// A value of a field: a number, or the bytes of a text or message.
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// Returns the fields of a message with their numbers, in their order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let mut fixed = |length: usize| {
            let (value, rest) = bytes.split_at(length);
            bytes = rest;
            value
        };
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(fixed(8).try_into().unwrap())),
            5 => Field::Number(u32::from_le_bytes(fixed(4).try_into().unwrap()).into()),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value)
            }
            other => panic!("wire type {other}"),
        };
        all.push((key >> 3, field));
    }
    all
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(first & 127) << shift;
        if first & 128 == 0 {
            break;
        }
    }
    number
}

/// Returns the messages or texts of the field `number`.
fn bytes_of(message: &[u8], number: u64) -> Vec<&[u8]> {
    let all = fields(message).into_iter().filter(|(found, _)| *found == number);
    all.filter_map(|(_, field)| if let Field::Bytes(bytes) = field { Some(bytes) } else { None })
        .collect()
}

fn text_of(message: &[u8], number: u64) -> String {
    let texts = bytes_of(message, number);
    texts.first().map(|text| String::from_utf8(text.to_vec()).unwrap()).unwrap_or_default()
}

fn hex_of(message: &[u8], number: u64) -> String {
    let digits = |byte: u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
    bytes_of(message, number).concat().into_iter().flat_map(digits).flatten().collect()
}

fn number_of(message: &[u8], number: u64) -> u64 {
    let found = fields(message).into_iter().find(|(found, _)| *found == number);
    if let Some((_, Field::Number(found))) = found { found } else { 0 }
}

fn attributes_of(message: &[u8], number: u64) -> BTreeMap<String, String> {
    let pair = |pair: &[u8]| {
        let value = bytes_of(pair, 2).concat();
        let text = text_of(&value, 1);
        let value = if text.is_empty() { number_of(&value, 3).to_string() } else { text };
        (text_of(pair, 1), value)
    };
    bytes_of(message, number).into_iter().map(pair).collect()
}

/// Returns the spans of an `ExportTraceServiceRequest`.
fn spans(body: &[u8]) -> Vec<Received> {
    let millis = |nanos: u64| nanos / 1_000_000;
    let mut all = Vec::new();
    for resource_spans in bytes_of(body, 1) {
        let service = attributes_of(&bytes_of(resource_spans, 1).concat(), 1);
        for scope in bytes_of(resource_spans, 2) {
            all.extend(bytes_of(scope, 2).into_iter().map(|span| {
                let status = bytes_of(span, 15).concat();
                let event = |event: &[u8]| ReceivedEvent {
                    at: millis(number_of(event, 1)),
                    name: text_of(event, 2),
                    attributes: attributes_of(event, 3),
                };
                Received {
                    trace: hex_of(span, 1),
                    span: hex_of(span, 2),
                    parent: hex_of(span, 4),
                    name: text_of(span, 5),
                    start: millis(number_of(span, 7)),
                    end: millis(number_of(span, 8)),
                    attributes: attributes_of(span, 9),
                    events: bytes_of(span, 11).into_iter().map(event).collect(),
                    status: (number_of(&status, 3), text_of(&status, 2)),
                    service: service.clone(),
                }
            }));
        }
    }
    all
}
