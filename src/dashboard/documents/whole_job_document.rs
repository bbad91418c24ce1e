//! A job, as `show` has it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::job_document::JobDocument;
use crate::dashboard::page_clock::DocumentTime;
use crate::dashboard::page_link::run_path;
use crate::dashboard::shown_text::ShownText;

/// The document `whole job`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct WholeJobDocument {
    #[serde(flatten)]
    pub(in crate::dashboard) job: JobDocument,
    definition: Option<BTreeMap<String, Value>>,
    defaults: Option<Vec<String>>,
    pub(in crate::dashboard) problem: Option<ShownText>,
    pub(in crate::dashboard) backfill: u64,
    pub(in crate::dashboard) since: DocumentTime,
    pub(in crate::dashboard) paused_at: Option<DocumentTime>,
    pub(in crate::dashboard) next_set: Option<NextSetDocument>,
    pub(in crate::dashboard) ended: Option<ShownText>,
    pub(in crate::dashboard) ended_at: Option<DocumentTime>,
    pub(in crate::dashboard) listed_by: Vec<ShownText>,
    pub(in crate::dashboard) parents: Vec<ShownText>,
    pub(in crate::dashboard) children: Vec<ShownText>,
    pub(in crate::dashboard) failed_notices: Vec<FailedNoticeDocument>,
}

/// The time before which no planned run starts.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct NextSetDocument {
    pub(in crate::dashboard) at: DocumentTime,
    pub(in crate::dashboard) by: ShownText,
}

/// Notices of one kind that failed for good.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct FailedNoticeDocument {
    pub(in crate::dashboard) job: ShownText,
    pub(in crate::dashboard) count: u64,
    run_id: ShownText,
    pub(in crate::dashboard) at: DocumentTime,
    pub(in crate::dashboard) reason: Option<ShownText>,
}

impl FailedNoticeDocument {
    /// Returns the path of the page of the last of these notices.
    pub(in crate::dashboard) fn path(&self) -> String {
        run_path(self.run_id.as_str())
    }
}

/// The document `time in full`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct ComingDocument {
    pub(in crate::dashboard) due: DocumentTime,
    pub(in crate::dashboard) notes: Vec<ShownText>,
}

/// A key of a definition with its value.
pub(in crate::dashboard) struct JobRule {
    pub(in crate::dashboard) key: ShownText,
    pub(in crate::dashboard) value: ShownText,
    pub(in crate::dashboard) is_default: bool,
}

impl WholeJobDocument {
    /// Returns the keys of the definition. Those with a value that was set come first. A key without
    /// a value is left out.
    pub(in crate::dashboard) fn rules(&self) -> Vec<JobRule> {
        let rule = |(key, value): (&String, &Value)| JobRule {
            key: ShownText::new(key),
            value: ShownText::of_lines(&in_words(value)),
            is_default: self.defaults.iter().flatten().any(|known| known == key),
        };
        let keys = self.definition.iter().flatten().filter(|(_, value)| !is_empty(value));
        let mut rules: Vec<JobRule> = keys.map(rule).collect();
        rules.sort_by_key(|rule| rule.is_default);
        rules
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        _ => false,
    }
}

/// Returns a value of a definition for readers: texts without quotation marks, lists with commas.
fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(in_words).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !is_empty(value));
            let words = members.map(|(key, value)| match value {
                Value::Object(_) | Value::Array(_) => format!("{key} ({})", in_words(value)),
                value => format!("{key} {}", in_words(value)),
            });
            words.collect::<Vec<_>>().join(", ")
        }
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_of_a_definition_is_shown_in_words() {
        for (value, words) in [
            (json!("a b"), "a b"),
            (json!(["a", "b"]), "a, b"),
            (json!({"times": 3, "on": ["failed"], "x": null}), "on (failed), times 3"),
            (json!(true), "yes"),
            (json!(7), "7"),
        ] {
            assert_eq!(in_words(&value), words);
        }
        assert!(is_empty(&json!({"a": [], "b": null})) && !is_empty(&json!(0)));
    }
}
