//! The notices that `show` prints: the notices of a run, undelivered notices, and the current
//! action of a hidden job (the job that delivers notices).

use serde_json::{Map, Value, json};

use crate::cli::failure::CliFailure;
use crate::cli::local_zone::local_zone;
use crate::cli::render::{JobView, Relative, facts_in_words, rfc3339, shown};
use schedd::engine::said_now;
use schedd_core::domain::job::notice::{Deadline, NoticeKind, notice_id};
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::zone::Zone;
use schedd_store::{FailedNotice, RunRecord, Store};

/// The notices about runs of one job that were not delivered.
pub(crate) struct OfJob {
    /// The notices that failed for good, by kind, each with the reason of the last failure.
    failed: Vec<(FailedNotice, Option<String>)>,
    /// The notices that failed and will be retried. The notice with the earliest retry comes first.
    retried: Vec<RunRecord>,
}

/// Reads the notices about runs of the job `name` that were not delivered.
pub(crate) async fn failed_notices(store: &Store, name: &JobName) -> Result<OfJob, CliFailure> {
    let kinds = NoticeKind::ALL.map(|kind| JobName::of_notice(name, kind));
    let (failed, retried) =
        tokio::try_join!(store.read_failed_notices(&kinds), store.read_retried_notices(&kinds))?;
    let last: Vec<RunId> = failed.iter().map(|notice| notice.last.0.clone()).collect();
    let records = store.read_runs(&last).await?.into_iter().map(|record| record.ok().flatten());
    let why = records.map(|record| {
        record.and_then(|record| record.reason.clone().or_else(|| facts_in_words(&record)))
    });
    Ok(OfJob { failed: failed.into_iter().zip(why).collect(), retried })
}

impl OfJob {
    /// Returns a line for the next retry of a notice, and a line for each kind of notice that
    /// failed for good.
    pub(crate) fn lines(&self, when: Relative) -> Vec<String> {
        let mut lines: Vec<String> = self
            .retried
            .first()
            .map(|next| retried_words(next, self.retried.len(), when))
            .into_iter()
            .collect();
        lines.extend(self.failed.iter().map(|(FailedNotice { job: hidden_job, count: notice_count, last: (run, at) }, why)| {
            let at = shown(*at, &local_zone());
            let why = why.as_ref().map(|why| format!(", with {why}")).unwrap_or_default();
            format!("{notice_count} of {hidden_job} failed for good, the last at {at}{why}: schedctl retry {run} retries the last notice")
        }));
        lines
    }

    /// Returns the fields about undelivered notices for `show JOB --json`, with times in `zone`.
    pub(crate) fn json(&self, zone: &Zone) -> Map<String, Value> {
        let failed = self.failed.iter().map(|notice| failed_notice_json(notice, zone)).collect();
        let retried = self.retried.iter().map(|notice| retried_json(notice, zone)).collect();
        [("failed_notices".to_owned(), failed), ("notices_retried".to_owned(), retried)]
            .into_iter()
            .collect()
    }
}

fn failed_notice_json((notice, why): &(FailedNotice, Option<String>), zone: &Zone) -> Value {
    let (run, at) = &notice.last;
    json!({"job": notice.job.as_str(), "count": notice.count, "run_id": run.to_string(), "at": rfc3339(*at, zone), "reason": why})
}

/// Returns a line about `next`, the first of `count` notices that will be retried. The line has the
/// time of the retry and the reason of the last failure.
fn retried_words(next: &RunRecord, count: usize, when: Relative) -> String {
    let at = next
        .ready
        .map(|at| format!(" {} ({})", shown(at, &local_zone()), when.either(at)))
        .unwrap_or_default();
    let why = facts_in_words(next).map(|why| format!(", after {why}")).unwrap_or_default();
    let more = match count {
        0 | 1 => String::new(),
        2 => "; 1 more notice waits for a retry".to_owned(),
        count => format!("; {} more notices wait for a retry", count - 1),
    };
    format!("notice {} is retried{at}{why}{more}", next.run)
}

fn retried_json(notice: &RunRecord, zone: &Zone) -> Value {
    let ready = notice.ready.map(|at| rfc3339(at, zone));
    json!({"run_id": notice.run.to_string(), "attempt": notice.attempt, "retry_at": ready, "reason": facts_in_words(notice)})
}

/// Replaces the definition of a hidden job, which delivers the notices of another job, by the
/// notification that this other job defines now. Redis has an older definition until the next
/// notice is added.
pub(crate) async fn do_as_said_now(store: &Store, job: &mut JobView) -> Result<(), CliFailure> {
    let (Some((subject, kind)), Ok(definition)) =
        (job.record.name.notice_subject(), &mut job.definition)
    else {
        return Ok(());
    };
    // If the main job cannot be read, its notices keep the stored definition.
    let subject = store
        .read_jobs(std::slice::from_ref(&subject))
        .await?
        .into_iter()
        .flatten()
        .flatten()
        .next();
    if let Some(spec) = said_now(subject, kind) {
        definition.spec = spec;
    }
    Ok(())
}

/// Returns the notices about a run: notices about its last attempt and about its deadlines.
pub(crate) async fn notices_of(
    store: &Store,
    record: &RunRecord,
) -> Result<Vec<RunRecord>, CliFailure> {
    if record.run.job().is_hidden() {
        return Ok(Vec::new());
    }
    let fence = record.fence.map(|fence| fence.to_string());
    let stamps: Vec<&str> =
        fence.as_deref().into_iter().chain(Deadline::ALL.map(Deadline::as_str)).collect();
    let ids: Vec<RunId> = NoticeKind::ALL
        .into_iter()
        .flat_map(|kind| {
            stamps.iter().filter_map(move |stamp| notice_id(&record.run, kind, stamp).ok())
        })
        .collect();
    Ok(store
        .read_runs(&ids)
        .await?
        .into_iter()
        .filter_map(|notice| notice.ok().flatten())
        .collect())
}

/// Returns the kind of the notice as text, such as `on_failure`.
pub(crate) fn kind_of(notice: &RunRecord) -> &'static str {
    notice.run.job().notice_subject().map_or("", |(_, kind)| kind.as_str())
}

/// Returns the JSON of a notice, which is part of the JSON of its run.
pub(crate) fn notice_json(notice: &RunRecord) -> Value {
    json!({"kind": kind_of(notice), "run_id": notice.run.to_string(), "state": notice.state.as_str()})
}
