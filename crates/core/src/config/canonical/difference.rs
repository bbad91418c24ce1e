//! The differences between two definitions of a job, key by key, without secret values.
//!
//! Invariant: a value that may be secret is only reported as changed. This concerns the values of
//! variables and header fields, bodies, payloads, and the password within a URL.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The text shown instead of a secret value.
const HIDDEN: &str = "(hidden)";
/// The names of the tables in which every value is hidden.
const SECRET_TABLES: [&str; 3] = ["env", "headers", "payload"];
const SECRET_KEYS: [&str; 4] = ["body", "stdin", "webhook_secret", "payload"];

/// A key whose value differs between two definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The key, with the names of the tables around it: `retry.limit`.
    pub key: String,
    /// The value of the key in the old definition. `None` if the old definition did not have the
    /// key.
    pub old: Option<Value>,
    /// The value of the key in the new definition. `None` if the new definition does not have the
    /// key.
    pub new: Option<Value>,
}

/// Returns the differences between two texts of [`crate::config::to_canonical`], sorted by key. An
/// unreadable text counts as a definition without keys.
pub fn differences(old: &str, new: &str) -> Vec<KeyChange> {
    let (old, new) = (leaves_of(old), leaves_of(new));
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    let described = |key: &String, value: Option<&Value>| value.map(|value| shown(key, value));
    changed
        .map(|key| KeyChange {
            key: key.clone(),
            old: described(key, old.get(key)),
            new: described(key, new.get(key)),
        })
        .collect()
}

/// Returns the values of a definition by their full keys, such as `retry.limit`. Tables themselves
/// are left out.
fn leaves_of(text: &str) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    if let Ok(Value::Object(map)) = serde_json::from_str(text) {
        map.into_iter().for_each(|(key, value)| collect(key, value, &mut leaves));
    }
    leaves
}

fn collect(key: String, value: Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => map
            .into_iter()
            .for_each(|(inner, value)| collect(format!("{key}.{inner}"), value, leaves)),
        value => {
            leaves.insert(key, value);
        }
    }
}

fn shown(key: &str, value: &Value) -> Value {
    let words: Vec<&str> = key.split('.').collect();
    // A key is secret because of its own name (its last word) or because of a table around it.
    let (last, around) = words.split_last().unwrap_or((&"", &[]));
    if SECRET_KEYS.contains(last) || around.iter().any(|word| SECRET_TABLES.contains(word)) {
        return HIDDEN.into();
    }
    match value {
        Value::String(url) if *last == "url" => without_password(url).into(),
        value => value.clone(),
    }
}

fn without_password(url: &str) -> String {
    let parsed = url::Url::parse(url).ok().filter(|parsed| parsed.password().is_some());
    let hidden = parsed.and_then(|mut parsed| {
        parsed.set_password(Some("hidden")).is_ok().then(|| parsed.to_string())
    });
    hidden.unwrap_or_else(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(old: &str, new: &str) -> Vec<String> {
        let text = |value: Option<Value>| {
            value.map_or_else(|| "none".to_owned(), |value| value.to_string())
        };
        let line = |change: KeyChange| {
            format!("{}: {} -> {}", change.key, text(change.old), text(change.new))
        };
        differences(old, new).into_iter().map(line).collect()
    }

    #[test]
    fn a_difference_names_each_key_with_what_it_was_and_is() {
        assert_eq!(
            described(
                r#"{"cron":"0 2 * * *","retry":{"limit":3}}"#,
                r#"{"cron":"0 3 * * *","retry":{"limit":3,"delay":"5s"},"tz":"UTC"}"#
            ),
            [
                r#"cron: "0 2 * * *" -> "0 3 * * *""#,
                r#"retry.delay: none -> "5s""#,
                r#"tz: none -> "UTC""#
            ]
        );
        assert!(described(r#"{"shell":"a"}"#, r#"{"shell":"a"}"#).is_empty());
        assert_eq!(described("damaged", r#"{"shell":"a"}"#), [r#"shell: none -> "a""#]);
    }

    #[test]
    fn a_secret_that_changed_is_reported_and_not_repeated() {
        let described = described(
            r#"{"env":{"TOKEN":"old1"},"http":{"headers":{"Authorization":"old2"},"body":"old3","url":"http://u:old4@h/"}}"#,
            r#"{"env":{"TOKEN":"new1","B.C":"new5"},"http":{"headers":{"Authorization":"new2"},"body":"new3","url":"http://u:new4@h/x"}}"#,
        );
        assert_eq!(
            described,
            [
                r#"env.B.C: none -> "(hidden)""#,
                r#"env.TOKEN: "(hidden)" -> "(hidden)""#,
                r#"http.body: "(hidden)" -> "(hidden)""#,
                r#"http.headers.Authorization: "(hidden)" -> "(hidden)""#,
                r#"http.url: "http://u:hidden@h/" -> "http://u:hidden@h/x""#,
            ]
        );
    }
}
