//! Where runs are due, for people and for programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use crate::domain::ids::Label;
use crate::domain::lane::{Lane, Priority};

/// Labels, for programs.
pub(in crate::cli) fn labels_json(labels: &BTreeSet<Label>) -> Value {
    labels.iter().map(Label::as_str).collect()
}

/// A queue, with the priority and the labels of its lane where there are any: `default, priority 5, requires eu, gpu`.
pub(in crate::cli) fn queue_words(lane: &Lane) -> String {
    let mut words = lane.queue().to_string();
    if lane.priority() != Priority::default() {
        let _ = write!(words, ", priority {}", lane.priority());
    }
    if !lane.requires().is_empty() {
        let labels: Vec<&str> = lane.requires().iter().map(Label::as_str).collect();
        let _ = write!(words, ", requires {}", labels.join(", "));
    }
    words
}
