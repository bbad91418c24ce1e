//! A changed key of a definition, as `key: old -> new`.

use serde_json::Value;

use schedd_core::config::KeyChange;

/// The maximum number of characters of a value that are shown.
const SHOWN_CHARS: usize = 60;

/// Returns the text `key: old -> new` for a changed key.
pub(crate) fn key_change(change: &KeyChange) -> String {
    format!("{}: {} -> {}", change.key, shown(change.old.as_ref()), shown(change.new.as_ref()))
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "none".to_owned(), ToString::to_string);
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
