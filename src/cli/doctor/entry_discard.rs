//! Deletion of one entry, or of all entries, of the quarantine.

use serde_json::{Value, json};

use super::quarantine_entries::{from, no_entry};
use crate::cli::confirmation::ask;
use crate::cli::failure::CliFailure;
use crate::cli::render::{Console, one_line};
use schedd_store::{Discarded, QuarantineEntry, Store};

/// The argument of `--discard` that means every entry. An entry whose name is `all` is written
/// `\x61ll`.
const ALL: &str = "all";

/// Deletes the quarantine entry `name`, or every entry if `name` is `all`. Prints what was deleted
/// and returns the exit code.
pub(super) async fn discard(
    store: &Store,
    name: &str,
    is_sure: bool,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    if name != ALL {
        let entry = store.read_quarantined(name).await?.ok_or_else(|| no_entry(name))?;
        let gone = gone(store, vec![entry], None).await?;
        // Somebody else restored or deleted the entry meanwhile.
        if gone.is_empty() {
            return Err(no_entry(name));
        }
        report(&gone, 0, console);
        return Ok(0);
    }
    let namespace = store.namespace();
    if !is_sure && !console.can_ask() {
        return Err(CliFailure::Invalid(format!(
            "--discard all deletes every entry in the quarantine of namespace {namespace}, wanted --yes, or the name of one entry"
        )));
    }
    let (_, entries) = store.list_quarantine(usize::MAX).await?;
    let dropped = store.read_stats().await?.totals.get("quarantine_dropped").copied().unwrap_or(0);
    if !is_sure && (!entries.is_empty() || dropped > 0) {
        ask(namespace, &counted(entries.len()), "discarded")?;
    }
    let gone = gone(store, entries, (dropped > 0).then_some(dropped)).await?;
    report(&gone, dropped, console);
    Ok(0)
}

/// Deletes the given quarantine entries and returns the deleted ones. Also resets the stored number
/// of entries that did not fit into quarantine, if this number is still `dropped`.
async fn gone(
    store: &Store,
    entries: Vec<QuarantineEntry>,
    dropped: Option<u64>,
) -> Result<Vec<QuarantineEntry>, CliFailure> {
    let done = store.discard(&entries, dropped).await?;
    Ok(entries
        .into_iter()
        .zip(done)
        .filter_map(|(entry, is_done)| is_done.then_some(entry))
        .collect())
}

fn counted(count: usize) -> String {
    if count == 1 { "1 quarantine entry".to_owned() } else { format!("{count} quarantine entries") }
}

fn report(gone: &[QuarantineEntry], dropped: u64, console: &mut Console) {
    if console.is_json() {
        console.json(
            &json!({"discarded": gone.iter().map(super::quarantine_entries::entry_json).collect::<Vec<_>>(), "dropped": dropped}),
        );
        return;
    }
    if console.is_quiet() {
        return;
    }
    for entry in gone {
        console.line(&one_line(&format!("{}, {}: {}", entry.name, from(entry), entry.why)));
    }
    console.line(&format!("{} discarded", counted(gone.len())));
    if dropped > 0 {
        console.line(&format!(
            "the number of entries that did not fit into quarantine ({dropped}) is reset to 0"
        ));
    }
    if !gone.is_empty() {
        console.note("run schedctl doctor to check the remaining data");
    }
}

pub(super) fn discarded_json(discarded: &Discarded) -> Value {
    json!({
        "name": discarded.name,
        "key": discarded.key,
        "reason": discarded.why,
        "at": discarded.at.map(|at| at.to_string()),
        "by": discarded.by,
    })
}
