//! A key of a definition that differs, as `key: old -> new`.

use serde_json::Value;

use crate::config::KeyChange;

/// Characters shown of a value.
const SHOWN_CHARS: usize = 60;

/// The key with what it was and is to be.
pub(in crate::cli) fn key_change(change: &KeyChange) -> String {
    format!("{}: {} -> {}", change.key, shown(change.old.as_ref()), shown(change.new.as_ref()))
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "none".to_owned(), ToString::to_string);
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
