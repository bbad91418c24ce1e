//! The writer of a table of canonical JSON.

use std::collections::BTreeMap;

use serde_json::Value;

/// The form in which a value is written as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The canonical form, which leaves default values out.
    Stored,
    /// The form that `schedctl show` prints, with every rule that applies. Signing secrets are
    /// hidden.
    Shown,
}

/// A JSON table under construction, with sorted keys. The table does not rely on the JSON library
/// for the order, because build features of the library change the order.
#[derive(Default)]
pub(crate) struct Sheet(BTreeMap<&'static str, Value>);

impl Sheet {
    /// Creates a table with the keys and values in `entries`.
    pub(crate) fn of<const N: usize>(entries: [(&'static str, Value); N]) -> Self {
        Self(BTreeMap::from(entries))
    }

    /// Sets `key` to `value`.
    pub(crate) fn put(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.insert(key, value.into());
    }

    /// Returns the table as JSON.
    pub(crate) fn value(self) -> Value {
        Value::Object(self.0.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }
}

/// Returns `texts` as a JSON list, or as a single string if there is only one text.
pub(crate) fn text_or_list(texts: impl Iterator<Item = String>) -> Value {
    let mut texts: Vec<String> = texts.collect();
    match (texts.pop(), texts.is_empty()) {
        (Some(one), true) => one.into(),
        (last, _) => texts.into_iter().chain(last).collect(),
    }
}
