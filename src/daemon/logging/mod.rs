//! The log of the daemon. On a terminal the log has sentences for users, elsewhere key=value lines,
//! and JSON on request. Under systemd the log has structured entries for the journal.
//!
//! schedd does not use `tracing-journald` 0.3 or the text and JSON formats of `tracing-subscriber`
//! 0.3. The reasons were measured, or read in the source of these crates:
//!
//! - `tracing-journald` writes on the thread that logs, and its socket blocks. When journald read
//!   nothing, that thread blocked at the 11th entry (`net.unix.max_dgram_qlen` = 10). So a stopped
//!   journald would stop schedd. The layer accepts no other writer.
//! - `tracing-journald` fixes the fields of all entries when the layer is made, but the name of the
//!   node is known later. It writes a field twice if both an event and its span have the field. It
//!   cannot rename a field, so a run would be `RUN` instead of `RUN_ID`.
//! - The JSON format has `timestamp`, `WARN` and a nested `span`. But docs/operations.md promises
//!   `ts`, `warn` and the fields of a run at the top level.
//! - The text formats have no `key=value` lines. They do not escape line breaks and characters such
//!   as U+202E in a message.
//!
//! So `tracing-subscriber` provides the registry, the filter by level and the layer. This module
//! writes the entries.
//!
//! All log messages, and the output of jobs with `log_output`, arrive here as events of `tracing`.
//! `entry` joins an event with the fields of its run, such as `run_id`. `limit` drops and counts
//! repeated messages. `form` formats the entry, and `writer` writes the text on another thread.
//! Invariant: code that logs never waits. If standard error is closed or not read, lines are lost
//! and counted, and schedd continues.

mod entry;
mod form;
mod journal;
mod limit;
mod writer;

use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use clap::ValueEnum;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Scope};
use tracing_subscriber::util::SubscriberInitExt as _;

use entry::{LogEntry, LogSource, Pairs};
use form::LogForm;
use limit::{Admission, LineLimit};
use writer::{LogWriter, WrittenLines};

use schedd::attempts::output::LOG_TARGET;
use schedd_schedule::names::NodeName;

/// The form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// Journal entries if systemd's journal reads standard error, otherwise text
    Auto,
    /// Sentences on a terminal, otherwise key=value lines
    Text,
    /// One JSON object per line
    Json,
    /// Entries of systemd's journal, with a field for each value
    Journal,
}

/// The lowest level of log lines that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// The log of this process. When this value is dropped, the remaining lines are written.
pub(super) struct Log {
    shared: Arc<Shared>,
    writer: LogWriter,
}

/// The state that the logging layer and the writer thread share.
struct Shared {
    form: LogForm,
    node: OnceLock<String>,
    limit: LineLimit,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Log {
    /// Waits until all earlier log lines are written, at most one second.
    pub(super) fn flush(&self) {
        self.writer.flush();
    }

    /// Sets the name of the node, which JSON and journal entries include from now on.
    pub(super) fn name_node(&self, node: &NodeName) {
        // A process has only one node name, so a second call is ignored.
        let _ = self.shared.node.set(node.to_string());
    }

    /// Returns true if the log consists of JSON lines or journal entries. An error that ends the
    /// process is then logged too, instead of printed as plain text.
    pub(super) fn is_structured(&self) -> bool {
        matches!(self.shared.form, LogForm::Json | LogForm::Journal)
    }
}

/// Starts logging for this process. Returns an error if no thread can be started, or if the journal
/// was requested and does not exist.
pub(super) fn start(format: LogFormat, level: LogLevel) -> io::Result<Log> {
    let form = match format {
        LogFormat::Json => LogForm::Json,
        LogFormat::Journal => LogForm::Journal,
        LogFormat::Auto if journal::reads_standard_error() => LogForm::Journal,
        LogFormat::Auto | LogFormat::Text if io::stderr().is_terminal() => {
            let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            if is_plain { LogForm::Sentences } else { LogForm::ColouredSentences }
        }
        LogFormat::Auto | LogFormat::Text => LogForm::KeyValue,
    };
    let shared = Arc::new(Shared { form, node: OnceLock::new(), limit: LineLimit::default() });
    let shared_log = shared.clone();
    let entries_of = move |written| shared_log.entries_of(written);
    let writer = match form {
        LogForm::Journal => LogWriter::start(journal::Socket::open()?, entries_of)?,
        _ => LogWriter::start(io::stderr(), entries_of)?,
    };
    let lines = Lines { shared: shared.clone(), writer: writer.clone() };
    // If logging was already started in this process, the first start stays in effect.
    let _ = tracing_subscriber::registry()
        .with(LevelFilter::from_level(level.into()))
        .with(lines)
        .try_init();
    Ok(Log { shared, writer })
}

impl Shared {
    fn written(&self, entry: &LogEntry) -> Vec<u8> {
        self.form.written(entry, self.node.get().map(String::as_str))
    }

    /// Returns the lines about the log itself: the number of lost lines, or the summaries of lines
    /// that were not written.
    fn entries_of(&self, written: WrittenLines) -> Vec<Vec<u8>> {
        let entries = match written {
            WrittenLines::Lost(count) => {
                vec![
                    LogEntry::new(
                        Level::WARN,
                        "Log lines were lost, because the reader of the log was too slow."
                            .to_owned(),
                    )
                    .with("count", count.into()),
                ]
            }
            WrittenLines::Due => self.limit.summaries(Instant::now()),
            WrittenLines::Rest => self.limit.all_summaries(),
        };
        entries.iter().map(|entry| self.written(entry)).collect()
    }
}

/// A `tracing` layer that turns each event into a log line.
struct Lines {
    shared: Arc<Shared>,
    writer: LogWriter,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut pairs = Pairs::default();
        attributes.record(&mut pairs);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(pairs);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(pairs) = span.extensions_mut().get_mut::<Pairs>()
        {
            values.record(pairs);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut entry = LogEntry::of(event);
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(pairs) = span.extensions().get::<Pairs>() {
                entry.add(pairs);
            }
        }
        let source = if event.metadata().target() == LOG_TARGET {
            LogSource::Job
        } else {
            LogSource::Schedd
        };
        match self.shared.limit.admit(&entry, source, Instant::now()) {
            Admission::HeldBack => {}
            Admission::Written(summary) => {
                for entry in summary.iter().chain([&entry]) {
                    self.writer.put(self.shared.written(entry), source);
                }
            }
        }
    }
}
