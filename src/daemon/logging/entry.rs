//! A log entry: a message with its fields. Fields are named values of the message and of its run,
//! such as `job` and `run_id`.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// The maximum length in bytes of a message or of a field's value in a log entry. A longer text is
/// cut.
const LONGEST: usize = 16 * 1024;

/// The message and the named fields of a `tracing` event or span, in the order of recording.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    message: String,
    pairs: Vec<(&'static str, Value)>,
}

/// The author of a log line: schedd itself or a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogSource {
    /// The daemon itself.
    Schedd,
    /// A job. Its lines never displace lines of the daemon, even if a job writes very many lines.
    Job,
}

/// A log entry before it is written as a line.
#[derive(Debug)]
pub(super) struct LogEntry {
    pub(super) at: Timestamp,
    pub(super) level: Level,
    pub(super) message: String,
    pub(super) facts: Vec<(&'static str, Value)>,
}

impl LogEntry {
    /// Creates an entry with the current time and without fields.
    pub(super) fn new(level: Level, message: String) -> Self {
        Self { at: Timestamp::now(), level, message, facts: Vec::new() }
    }

    /// Returns this entry with one more field.
    pub(super) fn with(mut self, name: &'static str, value: Value) -> Self {
        self.facts.push((name, value));
        self
    }

    /// Creates an entry with the message and fields of an event, without the fields of its spans.
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut pairs = Pairs::default();
        event.record(&mut pairs);
        Self { facts: pairs.pairs, ..Self::new(*event.metadata().level(), pairs.message) }
    }

    /// Adds the fields of a span around the event. Fields that the entry already has stay
    /// unchanged.
    pub(super) fn add(&mut self, span: &Pairs) {
        for (name, value) in &span.pairs {
            if !self.facts.iter().any(|(known, _)| known == name) {
                self.facts.push((name, value.clone()));
            }
        }
    }

    /// Returns the name of the job that the entry is about, or `None` if no field names a job.
    pub(super) fn job(&self) -> Option<&str> {
        self.facts.iter().find(|(name, _)| *name == "job").and_then(|(_, value)| value.as_str())
    }
}

impl Pairs {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => self.pairs.push((name, value)),
        }
    }
}

impl Visit for Pairs {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, cut(format!("{value:?}")).into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, cut(value.to_owned()).into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
