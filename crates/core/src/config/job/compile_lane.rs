//! The compilers of a job's queue, group, priority, required labels and nodes. These keys decide
//! where and in which order the job's runs start.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::config::key::json_sheet::Form;
use crate::config::key::origin::{Origin, Reading};
use crate::config::syntax::problem::{Problems, key_text, nearest, one_of, quoted};
use crate::config::syntax::reader::Spot;
use crate::domain::job::node_choice::{EACH_NODE, MAX_NODES, NodeChoice};
use crate::domain::name::tag_filter::{MOST_TAG_CHARS, MOST_TAGS, Tags, is_tag_value};
use crate::domain::queue::lane::{MAX_LABELS, Priority};
use schedd_schedule::names::{GroupName, Label, NodeName, QueueName};

/// Compiles the priority of a job, as in `priority = 5`. `None` means that a fault was noted.
pub(crate) fn compile_priority(spot: &Spot<'_>, problems: &mut Problems) -> Option<Priority> {
    spot.integer(&(Priority::LEAST..=Priority::MOST), problems).and_then(Priority::new)
}

/// Compiles labels: `requires = ["gpu"]` of a job, or `labels` of a node. A single label needs no
/// brackets. `None` means that a fault was noted.
pub(crate) fn compile_labels(spot: &Spot<'_>, problems: &mut Problems) -> Option<BTreeSet<Label>> {
    let labels: Vec<Label> = match spot.as_items() {
        Some(items) => items
            .map(|item| label(&item, problems))
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Option<_>>()?,
        None if spot.as_text().is_some() => vec![label(spot, problems)?],
        None => return spot.wanted(problems, "a list of labels such as [\"gpu\", \"eu\"]"),
    };
    let count = labels.len();
    let mut distinct = BTreeSet::new();
    for label in labels {
        if distinct.contains(&label) {
            spot.fault(
                problems,
                format!("found {} twice, wanted each label once", quoted(label.as_str())),
            );
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

fn label(spot: &Spot<'_>, problems: &mut Problems) -> Option<Label> {
    let label: Label = spot.parsed("gpu", problems)?;
    label.for_people().map_err(|error| spot.fault(problems, error.to_string())).ok()
}

/// Reads `tags = { team = "db" }` and adds the tags to `tags`. `None` means that a fault was noted.
pub(crate) fn read_tags(spot: &Spot<'_>, problems: &mut Problems, tags: &mut Tags) -> Option<()> {
    let table = spot.table("a table such as { team = \"db\" }", problems)?;
    for (name, name_span, value) in table.entries() {
        if name.parse::<Label>().is_err() {
            problems.fault(
                &value.path,
                name_span,
                "not a name for a tag, wanted 1 to 63 of the characters a-z 0-9 . _ -, with a letter or digit first",
            );
            continue;
        }
        let Some(text) = value.text("db", problems) else { continue };
        if is_tag_value(text) {
            tags.insert(name.to_owned(), text.to_owned());
        } else {
            value.fault(
                problems,
                format!(
                    "found {}, wanted 1 to {MOST_TAG_CHARS} characters without control characters",
                    quoted(text)
                ),
            );
        }
    }
    let count = tags.len();
    if count > MOST_TAGS {
        spot.fault(problems, format!("found {count} tags, wanted at most {MOST_TAGS}"));
        return None;
    }
    Some(())
}

/// Compiles the nodes of a job: `on = "web1"`, `on = ["web1", "web2"]` or `on = "each-node"`. `None`
/// means that a fault was noted.
pub(crate) fn compile_on(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<NodeChoice> {
    let problems = &mut *reading.problems;
    let nodes: Vec<NodeName> = match spot.as_items() {
        Some(items) => items
            .map(|item| item.parsed("web1", problems))
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Option<_>>()?,
        None if spot.as_text().is_some() => vec![spot.parsed("web1", problems)?],
        None => {
            return spot.wanted(problems, "the name of a node, a list of names, or \"each-node\"");
        }
    };
    match nodes.as_slice() {
        [node] if node.as_str() == EACH_NODE => return Some(NodeChoice::EachNode),
        nodes if nodes.iter().any(|node| node.as_str() == EACH_NODE) => {
            return spot.wanted(problems, "names of nodes, or only \"each-node\"");
        }
        _ => {}
    }
    let count = nodes.len();
    if count > MAX_NODES {
        spot.fault(
            problems,
            format!(
                "found {count} nodes, wanted at most {MAX_NODES}; \
                 give the nodes a common label, and use requires"
            ),
        );
        return None;
    }
    // An empty list removes the nodes of `[defaults]`.
    let nodes: BTreeSet<NodeName> = nodes.into_iter().collect();
    Some(if nodes.is_empty() { NodeChoice::Anywhere } else { NodeChoice::Nodes(nodes) })
}

/// Returns the nodes of a job as JSON.
pub(crate) fn write_on(placement: &NodeChoice, _form: Form) -> Value {
    match placement {
        NodeChoice::Anywhere => Value::Null,
        NodeChoice::Nodes(nodes) => match nodes.first() {
            Some(node) if nodes.len() == 1 => node.as_str().into(),
            _ => nodes.iter().map(NodeName::as_str).collect(),
        },
        NodeChoice::EachNode => EACH_NODE.into(),
    }
}

/// Compiles the queue of a job. If a file does not declare the queue, a fault is noted, but the
/// name is still returned. `None` means that another fault was noted.
pub(crate) fn compile_queue(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<QueueName> {
    let Reading { origin, problems, .. } = reading;
    let queue: QueueName = spot.parsed("default", problems)?;
    // Only a hidden job, whose runs are notices, may be in this queue.
    if matches!(origin, Origin::Stored) && queue == QueueName::of_notices() {
        return Some(queue);
    }
    if queue.is_of_host() {
        return spot.wanted(
            problems,
            "a name without @, because a name with @ is for the @reboot runs of one host",
        );
    }
    if let Origin::File { queues: Some(queues), .. } = *origin
        && !queues.contains(&queue)
    {
        let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
        let hint = match nearest(queue.as_str(), names.iter().copied()) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None if names.len() > 10 => {
                format!("wanted one of the {} declared queues", names.len())
            }
            None => format!("wanted {}", one_of(&names)),
        };
        let name = quoted(queue.as_str());
        spot.fault(
            problems,
            format!(
                "queue {name} is not declared, {hint} (or declare the queue by [queues.{}])",
                key_text(queue.as_str())
            ),
        );
    }
    Some(queue)
}

/// Compiles the group of a job. If a file does not declare the group, a fault is noted, but the
/// name is still returned. `None` means that another fault was noted.
pub(crate) fn compile_member_group(
    spot: &Spot<'_>,
    reading: &mut Reading<'_>,
) -> Option<GroupName> {
    let Reading { origin, problems, .. } = reading;
    let group: GroupName = spot.parsed("nightly", problems)?;
    if let Origin::File { groups: Some(groups), .. } = *origin
        && !groups.contains(&group)
    {
        let hint = nearest(group.as_str(), groups.iter().map(GroupName::as_str))
            .map_or_else(String::new, |meant| format!("did you mean {meant:?}? Otherwise "));
        let (name, key) = (quoted(group.as_str()), key_text(group.as_str()));
        let message = format!(
            "group {name} is not declared: {hint}declare the group by [groups.{key}] with \
             mode = \"exclusive\""
        );
        spot.fault(problems, message);
    }
    Some(group)
}
