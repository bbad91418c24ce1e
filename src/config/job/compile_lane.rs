//! The compiler of the keys that choose the lane of a job's runs, beside the queue. These keys are
//! the priority and the labels that a node must have.

use std::collections::BTreeSet;

use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::Spot;
use crate::domain::name::names::Label;
use crate::domain::queue::lane::{MAX_LABELS, Priority};

/// Compiles the priority of a job, as in `priority = 5`.
pub(crate) fn compile_priority(spot: &Spot<'_>, problems: &mut Problems) -> Option<Priority> {
    spot.integer(&(Priority::LEAST..=Priority::MOST), problems).and_then(Priority::new)
}

/// Compiles labels: `requires = ["gpu"]` of a job, or `labels` of a node. A single label needs no
/// brackets.
pub(crate) fn compile_labels(spot: &Spot<'_>, problems: &mut Problems) -> Option<BTreeSet<Label>> {
    let labels: Vec<Label> = match spot.as_items() {
        Some(items) => items.map(|item| item.parsed("gpu", problems)).collect::<Vec<_>>().into_iter().collect::<Option<_>>()?,
        None if spot.as_text().is_some() => vec![spot.parsed("gpu", problems)?],
        None => return spot.wanted(problems, "labels such as [\"gpu\", \"eu\"]"),
    };
    let count = labels.len();
    let mut distinct = BTreeSet::new();
    for label in labels {
        if distinct.contains(&label) {
            spot.fault(problems, format!("found {} twice, wanted each label once", quoted(label.as_str())));
            return None;
        }
        distinct.insert(label);
    }
    if count > MAX_LABELS {
        spot.fault(problems, format!("found {count} labels, wanted at most {MAX_LABELS}"));
        return None;
    }
    Some(distinct)
}
