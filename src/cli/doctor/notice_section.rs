//! The check of notices: notices that failed for good, and notices that will be retried.

use std::collections::BTreeMap;

use super::node_sections::{RECENT, SHOWN, counted};
use crate::cli::render::facts_in_words;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{CheckLevel, FailedNotice, RunRecord, ServerCheck, Store, StoreError};

/// Returns a line for each of the first [`SHOWN`] jobs with failed notices, and notes about notices
/// that will be retried. A line about a failed notice is a warning for the time [`RECENT`] after
/// the failure, then a note.
pub(super) async fn notices(
    store: &Store,
    now: UnixMillis,
) -> Result<Vec<ServerCheck>, StoreError> {
    let mut failed_notices = store.list_failed_notices().await?;
    failed_notices.sort_by_key(|failed_notices| std::cmp::Reverse(failed_notices.last.1));
    let mut checks = Vec::new();
    for FailedNotice { job, count, last: (run, at) } in failed_notices.iter().take(SHOWN) {
        let why = match store.read_run(run).await {
            Ok(record) => {
                record.and_then(|record| record.reason.clone().or_else(|| facts_in_words(&record)))
            }
            Err(error) if error.is_passing() => return Err(error),
            Err(_) => None,
        };
        let why = why.map(|why| format!(", with {why}")).unwrap_or_default();
        let notices = if *count == 1 { "1 notice".to_owned() } else { format!("{count} notices") };
        let text = format!(
            "{notices} not delivered: the last, {run}, failed for good at {at}{why}; repair the cause, then run schedctl retry --dead --job {job}, or delete the notices with schedctl purge --dead --job {job}"
        );
        let level = if now.since(*at) < RECENT { CheckLevel::Warn } else { CheckLevel::Note };
        checks.push(ServerCheck::new(job.as_str(), level, text));
    }
    if failed_notices.len() > SHOWN {
        let text = format!(
            "notices of {} failed for good too; schedctl history --dead lists them",
            counted((failed_notices.len() - SHOWN) as u64, "more job", "more jobs")
        );
        checks.push(ServerCheck::new("others", CheckLevel::Warn, text));
    }
    if checks.is_empty() {
        checks.push(ServerCheck::new(
            "failed notices",
            CheckLevel::Ok,
            "none: no stored notice failed for good",
        ));
    }
    checks.extend(retried(store).await?);
    Ok(checks)
}

/// Returns a note for each of the first [`SHOWN`] jobs whose notices will be retried, so that
/// operators can repair the cause in time.
async fn retried(store: &Store) -> Result<Vec<ServerCheck>, StoreError> {
    let mut jobs: BTreeMap<JobName, Vec<RunRecord>> = BTreeMap::new();
    for run in store.list_retried_notices().await? {
        jobs.entry(run.run.job().clone()).or_default().push(run);
    }
    let note = |(job, runs): (&JobName, &Vec<RunRecord>)| {
        let next = runs.first()?;
        let after_failure =
            facts_in_words(next).map(|why| format!(", after {why}")).unwrap_or_default();
        let at_time = next.ready.map(|at| format!(" at {at}")).unwrap_or_default();
        let more_notices = match runs.len() - 1 {
            0 => String::new(),
            1 => "; 1 more notice waits for a retry".to_owned(),
            more => format!("; {more} more notices wait for a retry"),
        };
        let text = format!(
            "not delivered yet: notice {} is retried{at_time}{after_failure}{more_notices}",
            next.run
        );
        Some(ServerCheck::new(job.as_str(), CheckLevel::Note, text))
    };
    let mut checks: Vec<ServerCheck> = jobs.iter().filter_map(note).take(SHOWN).collect();
    if jobs.len() > SHOWN {
        checks.push(ServerCheck::new(
            "others",
            CheckLevel::Note,
            format!(
                "notices of {} are retried",
                counted((jobs.len() - SHOWN) as u64, "more job", "more jobs")
            ),
        ));
    }
    Ok(checks)
}
