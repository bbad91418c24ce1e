//! The queue, priority, labels and handler of a lane as text, and the labels as JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use schedd_core::domain::queue::lane::{Lane, Priority};
use schedd_schedule::names::Label;

/// Returns the labels as a JSON array.
pub(crate) fn labels_json(labels: &BTreeSet<Label>) -> Value {
    labels.iter().map(Label::as_str).collect()
}

/// Returns the queue of a lane as text. Priority, labels and handler follow if the lane has any:
/// `default, priority 5, requires eu, gpu`.
pub(crate) fn queue_words(lane: &Lane) -> String {
    let mut words = lane.queue().to_string();
    if lane.priority() != Priority::default() {
        let _ = write!(words, ", priority {}", lane.priority());
    }
    if !lane.requires().is_empty() {
        let labels: Vec<&str> = lane.requires().iter().map(Label::as_str).collect();
        let _ = write!(words, ", requires {}", labels.join(", "));
    }
    if let Some(handler) = lane.handler() {
        let _ = write!(words, ", handler {handler}");
    }
    words
}
