//! The log of a node within `schedctl`: its warnings and errors, as lines of standard error.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::render::one_line;

/// Prints warnings and errors. All other events are dropped.
struct WarningPrinter;

/// The message of an event, and its other fields as `NAME=VALUE`.
#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

/// Makes this process print its log events of the levels warning and error to standard error.
pub(super) fn print_warnings() {
    // A process has one log. Only a test starts a second.
    let _ = tracing_subscriber::registry().with(WarningPrinter).try_init();
}

impl<S: Subscriber> Layer<S> for WarningPrinter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() > Level::WARN {
            return;
        }
        let mut text = EventText::default();
        event.record(&mut text);
        let line = one_line(&format!("{}{}", text.message, text.fields));
        // Without a standard error, nobody can be warned.
        let _ = writeln!(io::stderr(), "schedctl: warning: {line}");
    }
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
