//! The log: sentences for a person on a terminal, key=value lines otherwise, always on the standard error.
//!
//! The level is `info`, or what `SCHEDD_LOG` says (`error`, `warn`, `info`, `debug`, `trace`). A closed standard error is
//! harmless, and so is one nobody reads: lines are lost, nothing else.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::log_writer::LogWriter;

/// The log of this process; what is still to be written is when it is dropped.
pub(super) struct Log(LogWriter);

impl Drop for Log {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// Starts logging for this process. Fails if no thread can be started.
pub(super) fn start() -> io::Result<Log> {
    let filter = EnvFilter::try_from_env("SCHEDD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let is_terminal = io::stderr().is_terminal();
    let colour = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let writer = LogWriter::start(io::stderr(), lost)?;
    let log = Log(writer.clone());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .log_internal_errors(false)
        .with_ansi(colour);
    // A second start in one process changes nothing.
    let _ = if is_terminal {
        builder.event_format(Lines { form: Form::Sentences }).fmt_fields(Pairs).try_init()
    } else {
        builder.event_format(Lines { form: Form::KeyValue }).fmt_fields(Pairs).try_init()
    };
    Ok(log)
}

/// The line that stands where others are missing.
fn lost(count: u64) -> String {
    format!("ts={:.3} level=warn msg=\"Log lines lost: nobody read them in time.\" count={count}\n", jiff::Timestamp::now())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Sentences,
    KeyValue,
}

struct Lines {
    form: Form,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let spans = context.event_scope().into_iter().flat_map(Scope::from_root);
        for span in spans {
            if let Some(pairs) = span.extensions().get::<FormattedFields<N>>() {
                fields.pairs.push(' ');
                fields.pairs.push_str(&pairs.fields);
            }
        }
        let level = *event.metadata().level();
        let now = jiff::Timestamp::now();
        match self.form {
            Form::KeyValue => {
                let word = level.as_str().to_ascii_lowercase();
                write!(writer, "ts={now:.3} level={word} msg={}{}", Quoted(&fields.message), fields.pairs)?;
            }
            Form::Sentences => {
                let local = now.to_zoned(jiff::tz::TimeZone::system());
                write!(writer, "{} ", local.strftime("%H:%M:%S%.3f"))?;
                write_level(&mut writer, level)?;
                write!(writer, " {}{}", escaped(&fields.message), fields.pairs)?;
            }
        }
        writeln!(writer)
    }
}

fn write_level(writer: &mut Writer<'_>, level: Level) -> fmt::Result {
    let colour = match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        _ => 34,
    };
    if writer.has_ansi_escapes() { write!(writer, "\x1b[{colour}m{level:>5}\x1b[0m") } else { write!(writer, "{level:>5}") }
}

/// Writes the fields of spans as the events' own are written.
struct Pairs;

impl<'writer> FormatFields<'writer> for Pairs {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, recorded: R) -> fmt::Result {
        let mut fields = Fields::default();
        recorded.record(&mut fields);
        write!(writer, "{}", fields.pairs.trim_start())
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    pairs: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            // Writing to a String cannot fail.
            let _ = write!(self.pairs, " {}={}", field.name(), Quoted(&format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            let _ = write!(self.pairs, " {}={}", field.name(), Quoted(value));
        }
    }
}

/// A value in one word, or in quotes where a blank, a quote or a control character would break the line.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain =
            !self.0.is_empty() && self.0.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=');
        if is_plain {
            f.write_str(self.0)
        } else {
            write!(f, "\"{}\"", escaped(&self.0.replace('\\', "\\\\").replace('"', "\\\"")))
        }
    }
}

/// The text with its control characters made visible, so that nobody's text can forge a line or drive a terminal.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_never_breaks_its_line() {
        assert_eq!(Quoted("a").to_string(), "a");
        assert_eq!(Quoted("a b").to_string(), "\"a b\"");
        assert_eq!(Quoted("").to_string(), "\"\"");
        assert_eq!(Quoted("x\ny\"z\x1b").to_string(), "\"x\\ny\\\"z\\u{1b}\"");
    }
}
