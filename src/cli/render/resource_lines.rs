//! The resources that runs used and the time that they waited, as text, cells and JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::table::Cell;
use super::time_words::span;
use schedd_core::domain::run::resource_use::ResourceUse;

/// The titles of the cells that [`resource_cells`] returns.
pub(super) const RESOURCE_HEADERS: [&str; 6] =
    ["WAITED", "USER", "SYSTEM", "MEMORY", "READ", "WRITTEN"];

/// Returns the resources of an attempt as the fields of its JSON.
pub(crate) fn resources_json(used: Option<&ResourceUse>) -> [(&'static str, Value); 5] {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    [
        ("user_ms", json!(used.map(|used| millis(used.user())))),
        ("system_ms", json!(used.map(|used| millis(used.system())))),
        ("peak_memory_bytes", json!(used.map(ResourceUse::peak_bytes))),
        ("read_bytes", json!(used.map(|used| used.read_bytes))),
        ("written_bytes", json!(used.map(|used| used.written_bytes))),
    ]
}

/// Returns the resources of an attempt as a phrase.
pub(crate) fn resource_words(used: &ResourceUse) -> String {
    format!(
        "{} user time, {} system time, {} peak memory, {} read, {} written",
        span(used.user()),
        span(used.system()),
        size_words(used.peak_bytes()),
        size_words(used.read_bytes),
        size_words(used.written_bytes),
    )
}

/// Returns the time that a run waited and the resources of its last attempt as cells of a row.
pub(super) fn resource_cells(waited: Option<Duration>, used: Option<&ResourceUse>) -> [Cell; 6] {
    let size =
        |bytes: fn(&ResourceUse) -> u64| Cell::maybe(used.map(|used| size_words(bytes(used))));
    [
        Cell::maybe(waited.map(span)),
        Cell::maybe(used.map(|used| span(used.user()))),
        Cell::maybe(used.map(|used| span(used.system()))),
        size(ResourceUse::peak_bytes),
        size(|used| used.read_bytes),
        size(|used| used.written_bytes),
    ]
}

/// Returns a number of bytes with a unit and at most one decimal, such as `1.5MiB`.
pub(crate) fn size_words(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, word)) => match bytes % unit * 10 / unit {
            0 => format!("{}{word}", bytes / unit),
            tenths => format!("{}.{tenths}{word}", bytes / unit),
        },
        None => format!("{bytes}B"),
    }
}

/// Returns the value below which `percent` percent of the values lie. `sorted` has the values in
/// rising order. Returns `None` if there are no values.
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied()
}

/// Returns the median and the 95th percentile as JSON. `sorted` has the values in rising order.
pub(crate) fn spread_json(sorted: &[u64]) -> Value {
    json!({"p50": percentile(sorted, 50), "p95": percentile(sorted, 95)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit_and_at_most_one_decimal() {
        for (bytes, wanted) in [
            (0, "0B"),
            (1_023, "1023B"),
            (1_024, "1KiB"),
            (1_536, "1.5KiB"),
            ((1 << 20) + 1, "1MiB"),
            (5 << 29, "2.5GiB"),
        ] {
            assert_eq!(size_words(bytes), wanted);
        }
    }
}
