//! One thing to be logged, with its facts and those of the run it is about.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// The longest text of a fact or a message, in bytes: what is longer is cut.
const LONGEST: usize = 16 * 1024;

/// Facts by name, in the order they were given.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    message: String,
    pairs: Vec<(&'static str, Value)>,
}

/// A line to be.
#[derive(Debug)]
pub(super) struct LogEntry {
    pub(super) at: Timestamp,
    pub(super) level: Level,
    pub(super) message: String,
    pub(super) facts: Vec<(&'static str, Value)>,
}

impl LogEntry {
    /// One of now, without facts.
    pub(super) fn new(level: Level, message: String) -> Self {
        Self { at: Timestamp::now(), level, message, facts: Vec::new() }
    }

    /// The same with one more fact.
    pub(super) fn with(mut self, name: &'static str, value: Value) -> Self {
        self.facts.push((name, value));
        self
    }

    /// The fields that an event has itself.
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut pairs = Pairs::default();
        event.record(&mut pairs);
        Self { facts: pairs.pairs, ..Self::new(*event.metadata().level(), pairs.message) }
    }

    /// Adds what a span around it says; its own words win.
    pub(super) fn add(&mut self, span: &Pairs) {
        for (name, value) in &span.pairs {
            if !self.facts.iter().any(|(known, _)| known == name) {
                self.facts.push((name, value.clone()));
            }
        }
    }

    /// The job it is about, if it says.
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
