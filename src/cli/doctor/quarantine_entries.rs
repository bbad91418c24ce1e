//! The quarantine in the report of `doctor`, and the moving of data to the quarantine and back.

use serde_json::{Value, json};

use super::report::line;
use crate::cli::failure::CliFailure;
use crate::cli::jobs::target::Target;
use crate::cli::render::Console;
use schedd::engine::Definition;
use schedd_store::{
    CheckLevel, Discarded, EntryKind, PutBackReply, QuarantineEntry, ServerCheck, SetAside, Store,
    StoreError,
};

/// The maximum number of quarantine entries shown.
pub(super) const SHOWN: usize = 1_000;

/// Returns lines about the quarantine: the number of entries, the number of entries that did not
/// fit, and the last deletion.
pub(super) fn summary(count: u64, dropped: u64, discarded: &[Discarded]) -> Vec<ServerCheck> {
    let mut checks = vec![match count {
        0 => ServerCheck::new("entries", CheckLevel::Ok, "none"),
        count => {
            let text = format!(
                "{count} of at most 10,000 entries; put an entry back with schedctl doctor --restore ENTRY when its data can be used, or delete it with --discard ENTRY"
            );
            ServerCheck::new("entries", CheckLevel::Warn, text)
        }
    }];
    if dropped > 0 {
        let text = format!(
            "entries that did not fit and are only in the logs of nodes: {dropped}; schedctl doctor --discard all deletes all entries and resets this number"
        );
        checks.push(ServerCheck::new("dropped", CheckLevel::Warn, text));
    }
    checks.extend(last(discarded));
    checks
}

/// Returns a note about the last deletion from the quarantine: the entries deleted, when and by
/// whom. Returns `None` if nothing was deleted.
fn last(discarded: &[Discarded]) -> Option<ServerCheck> {
    let last = discarded.first()?;
    let at = last.at.map_or_else(|| "?".to_owned(), |at| at.to_string());
    let by = last.by.as_deref().map_or_else(String::new, |by| format!(" by {by}"));
    let before = match discarded.len() - 1 {
        0 => String::new(),
        more => format!("; earlier deletions: {more}, listed by --json"),
    };
    Some(ServerCheck::new(
        "discarded",
        CheckLevel::Note,
        format!("entry {} from {} was deleted at {at}{by}{before}", last.name, last.key),
    ))
}

/// Prints the quarantine entries, oldest first.
pub(super) fn text(count: u64, entries: &[QuarantineEntry], console: &mut Console) {
    for entry in entries {
        let at = entry.at.map_or_else(|| "?".to_owned(), |at| at.to_string());
        line(
            CheckLevel::Warn,
            &entry.name,
            &format!("{}, moved at {at}: {}", from(entry), entry.why),
            console,
        );
    }
    let more = count.saturating_sub(entries.len() as u64);
    if more > 0 {
        line(CheckLevel::Warn, "", &format!("and {more} more"), console);
    }
}

/// Returns the key in Redis from which a quarantine entry was taken, as text.
pub(super) fn from(entry: &QuarantineEntry) -> String {
    match &entry.kind {
        EntryKind::Member { score } => format!("from {} with score {score}", entry.key),
        EntryKind::Key { .. } => format!("the key {}", entry.key),
    }
}

/// Returns the failure for a quarantine entry that does not exist.
pub(super) fn no_entry(name: &str) -> CliFailure {
    CliFailure::NotFound(format!(
        "the quarantine has no entry {name:?}; schedctl doctor lists the entries"
    ))
}

pub(super) fn entry_json(entry: &QuarantineEntry) -> Value {
    let (kind, score, aside) = match &entry.kind {
        EntryKind::Member { score } => ("member", Some(score), None),
        EntryKind::Key { aside } => ("key", None, Some(aside)),
    };
    json!({
        "name": entry.name,
        "key": entry.key,
        "kind": kind,
        "score": score,
        "aside": aside,
        "reason": entry.why,
        "at": entry.at.map(|at| at.to_string()),
    })
}

/// Moves a quarantine entry back to its key in Redis if the data of the entry can be used now.
/// Returns the exit code.
pub(super) async fn restore(
    store: &Store,
    name: &str,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let entry = store.read_quarantined(name).await?.ok_or_else(|| no_entry(name))?;
    // A definition that still cannot be read would only be moved to quarantine again.
    let refused =
        |why: String| CliFailure::Conflict(format!("entry {name:?} is not put back: {why}"));
    match store.read_set_aside_job(&entry).await {
        Ok(Some(record)) => {
            Definition::of(record).map_err(|error| refused(error.to_string()))?;
        }
        Err(error) if error.is_passing() => return Err(error.into()),
        Err(StoreError::Corrupt { found, .. }) => return Err(refused(found)),
        // `Store::restore` checks entries that are not definitions.
        Ok(None) | Err(_) => {}
    }
    let at = match store.restore(&entry).await? {
        PutBackReply::Restored(at) => at,
        PutBackReply::Gone => return Err(no_entry(name)),
        PutBackReply::Taken => {
            return Err(refused(format!("its place in {} has newer data", entry.key)));
        }
        PutBackReply::Refused(why) => return Err(refused(why)),
    };
    if console.is_json() {
        console
            .json(&json!({"restored": name, "key": entry.key, "at": at.map(|at| at.to_string())}));
    } else {
        let at = at.map_or_else(String::new, |at| format!(" with the time {at}"));
        console.line(&format!("entry {name} is back in {}{at}", entry.key));
        console.note("run schedctl doctor to check the data with this entry");
    }
    Ok(0)
}

/// Moves the definition of a job, or the record of a run, to quarantine if it cannot be read.
/// Returns the exit code.
pub(super) async fn set_aside(
    home: &Store,
    target: &str,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let fine = |what: String| {
        CliFailure::Conflict(format!("{what} can be read, so it is not moved to quarantine"))
    };
    let gone = |what: String| CliFailure::NotFound(format!("{what} does not exist"));
    let target = Target::parse(target)?;
    let store = match &target {
        Target::Job(name) => home.place_of_job(name).await?,
        Target::Run(run) => home.place_of_run(run).await?,
    };
    let (rest, what, why, job) = match &target {
        Target::Job(name) => {
            let what = format!("the definition of job {name}");
            let why = match store.read_job(name).await {
                Ok(None) => return Err(gone(what)),
                Ok(Some(record)) => match Definition::of(record) {
                    Ok(_) => return Err(fine(what)),
                    Err(error) => error.to_string(),
                },
                Err(error) if error.is_passing() => return Err(error.into()),
                Err(error) => error.to_string(),
            };
            (format!("job:{name}"), what, why, Some(name.to_string()))
        }
        Target::Run(run) => {
            let what = format!("the record of run {run}");
            let why = match store.read_run(run).await {
                // A record without a state is read as `None`.
                Ok(None) => "the record has no state".to_owned(),
                Ok(Some(record))
                    if record.state == schedd_core::domain::run::run_state::RunState::Running
                        && record.fence.is_none() =>
                {
                    "the record has the state running but no fence".to_owned()
                }
                Ok(Some(_)) => return Err(fine(what)),
                Err(error) if error.is_passing() => return Err(error.into()),
                Err(error) => error.to_string(),
            };
            (format!("run:{run}"), what, why, None)
        }
    };
    match store.quarantine_key(&rest, &why, job.as_deref()).await? {
        SetAside::Kept(aside) => {
            if console.is_json() {
                let mut document = target.json();
                document["aside"] = aside.into();
                document["reason"] = why.into();
                console.json(&document);
            } else {
                console.line(&format!("{what} is now in quarantine, in the key {aside}"));
                console.note("schedctl doctor --fix repairs references to the moved data; a job of a jobs file is restored when its schedd reads the file again (systemctl reload schedd)");
            }
            Ok(0)
        }
        SetAside::Gone => Err(gone(what)),
        SetAside::Full => Err(CliFailure::Conflict(format!(
            "{what} is not moved: the quarantine is full; delete entries with schedctl doctor --discard ENTRY"
        ))),
    }
}
