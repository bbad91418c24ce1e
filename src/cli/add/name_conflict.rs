//! The failure of an `add` whose job name another job has. The message says where that job comes
//! from, or how it differs from the wanted job.

use crate::cli::failure::CliFailure;
use crate::cli::jobs::target::{declared_in, no_such_job};
use crate::cli::render::key_change;
use schedd_core::config;
use schedd_core::config::{KeyChange, NamedJob};
use schedd_schedule::names::JobName;
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{JobRecord, Rev, SourceKind, Store};

/// The maximum number of differing keys that are shown.
const SHOWN_KEYS: usize = 3;

/// Returns the failure for a job name that another job already has.
pub(super) async fn name_taken(store: &Store, name: &JobName, wanted: &NamedJob) -> CliFailure {
    match store.read_job(name).await {
        Err(error) => error.into(),
        // The job was removed meanwhile. The name is free again, but nothing was added.
        Ok(None) => no_such_job(store, name).await,
        Ok(Some(job)) if job.kind == SourceKind::File => held_by_file(&job),
        Ok(Some(job)) => CliFailure::Conflict(taken_line(&job, wanted)),
    }
}

/// Returns the failure for a job name that a jobs file declares.
fn held_by_file(job: &JobRecord) -> CliFailure {
    let name = &job.name;
    let place = declared_in(job);
    CliFailure::Conflict(format!(
        "job {name} is declared in {place}: edit [jobs.{name}] there, or use another name"
    ))
}

/// Returns the message for a name that a job added by schedctl already has. The message says how
/// that job differs, and which flags resolve the conflict.
pub(super) fn taken_line(job: &JobRecord, wanted: &NamedJob) -> String {
    let name = &job.name;
    let difference = difference(&job.definition, wanted);
    if difference.is_empty() {
        return format!(
            "job {name} exists already with the same definition; --if-absent makes this a success"
        );
    }
    format!(
        "job {name} exists already and differs ({}); --replace changes the job, --if-absent leaves the job unchanged",
        difference.join(", ")
    )
}

/// Returns `key: old -> new` for the first keys in which the wanted job differs from the old
/// definition.
fn difference(old: &str, wanted: &NamedJob) -> Vec<String> {
    let mut changed = config::differences(old, &config::to_canonical(&wanted.spec));
    if let Some(delay) = wanted.start_in {
        let old = changed
            .iter()
            .position(|change| change.key == "at")
            .and_then(|at| changed.remove(at).old);
        changed.push(KeyChange {
            key: "at".to_owned(),
            old,
            new: Some(format!("in {}", format_duration(delay)).into()),
        });
    }
    let mut shown: Vec<String> = changed.iter().take(SHOWN_KEYS).map(key_change).collect();
    if changed.len() > SHOWN_KEYS {
        shown.push(format!("and {} more", changed.len() - SHOWN_KEYS));
    }
    shown
}

/// Returns the message for a job that somebody else changed after schedctl had read the job.
pub(super) fn changed_meanwhile(name: &JobName, now: &Rev) -> String {
    format!(
        "somebody else changed job {name} at the same time, and its revision is now {now}: see schedctl show {name}, then add the job again"
    )
}

/// Returns the message for a one-shot that is refused, because a job of this name already ran for
/// the time `at`.
pub(super) fn done_already(name: &JobName, at: UnixMillis) -> String {
    format!(
        "a job {name} already ran at {at} (see schedctl history {name}); use another --name or another time"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedd_schedule::time::zone::Zone;

    #[test]
    fn a_difference_names_the_keys_and_both_values() {
        let wanted = config::job_from_json(
            r#"{"shell": "b", "cron": "0 3 * * *", "timeout": "2h"}"#,
            &Zone::utc(),
        )
        .unwrap();
        let changes = difference(r#"{"cron":"0 2 * * *","shell":"b"}"#, &wanted);
        assert_eq!(changes, [r#"cron: "0 2 * * *" -> "0 3 * * *""#, r#"timeout: none -> "2h""#]);
        assert!(difference(&config::to_canonical(&wanted.spec), &wanted).is_empty());
    }
}
