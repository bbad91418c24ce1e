//! The log of one node in the test's own process. Each node has its own, though they share the
//! process.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::dispatcher::Dispatch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// The lines that a node has logged, in the form of the daemon. Repeated lines are not held back.
#[derive(Clone, Default)]
pub(crate) struct NodeLog(Arc<Mutex<String>>);

impl NodeLog {
    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    /// Returns the dispatcher for the threads of the node.
    pub(crate) fn dispatcher(&self) -> Dispatch {
        let level = LevelFilter::from_level(Level::INFO);
        Dispatch::new(tracing_subscriber::registry().with(level).with(self.clone()))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for NodeLog {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut line = Line::default();
        attributes.record(&mut line);
        context.span(id).unwrap().extensions_mut().replace(line);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Line>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            line.fields.extend(span.extensions().get::<Line>().map(|span| span.fields.clone()));
        }
        let level = event.metadata().level().as_str().to_lowercase();
        writeln!(
            self.0.lock().unwrap(),
            "ts={} level={level} msg=\"{}\"{}",
            jiff::Timestamp::now(),
            line.message,
            line.fields
        )
        .unwrap();
    }
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => write!(self.message, "{value:?}").unwrap(),
            name => write!(self.fields, " {name}={value:?}").unwrap(),
        }
    }
}
