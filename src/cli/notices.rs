//! What `show` tells of notices: those of a run, those nobody was told by yet, and what a hidden job does.

use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::render::{JobView, Relative, facts_in_words, shown};
use crate::domain::ids::{JobName, RunId};
use crate::domain::notice::{Deadline, NoticeKind, notice_id};
use crate::domain::zone::Zone;
use crate::engine::said_now;
use crate::store::{RunRecord, Store, Untold};

/// Notices of a job nobody was told by.
pub(super) struct OfJob {
    /// Those that failed for good, and why the last of each kind did.
    failed: Vec<(Untold, Option<String>)>,
    /// Those that were tried in vain and are tried again, the first tried first.
    retried: Vec<RunRecord>,
}

/// The notices of a job nobody was told by.
pub(super) async fn untold(store: &Store, name: &JobName) -> Result<OfJob, Failure> {
    let telling = NoticeKind::ALL.map(|kind| JobName::of_notice(name, kind));
    let failed = store.read_untold(&telling).await?;
    let last: Vec<RunId> = failed.iter().map(|untold| untold.last.0.clone()).collect();
    let records = store.read_runs(&last).await?.into_iter().map(|record| record.ok().flatten());
    let why = records.map(|record| record.and_then(|record| record.reason.clone().or_else(|| facts_in_words(&record))));
    Ok(OfJob { failed: failed.into_iter().zip(why).collect(), retried: store.read_retried_notices(&telling).await? })
}

impl OfJob {
    /// In words: the next that is tried again, and of each kind those that failed for good.
    pub(super) fn lines(&self, when: Relative) -> Vec<String> {
        let mut lines: Vec<String> =
            self.retried.first().map(|next| retried_words(next, self.retried.len(), when)).into_iter().collect();
        lines.extend(self.failed.iter().map(|(Untold { job, count, last: (run, at) }, why)| {
            let at = shown(*at, &Zone::of_host());
            let why = why.as_ref().map(|why| format!(", with {why}")).unwrap_or_default();
            format!("{count} of {job} failed for good, the last at {at}{why}: schedctl retry {run} tries it again")
        }));
        lines
    }

    /// As fields of `show JOB --json`.
    pub(super) fn json(&self) -> Map<String, Value> {
        let failed = self.failed.iter().map(untold_json).collect();
        let retried = self.retried.iter().map(retried_json).collect();
        [("untold".to_owned(), failed), ("notices_retried".to_owned(), retried)].into_iter().collect()
    }
}

fn untold_json((untold, why): &(Untold, Option<String>)) -> Value {
    let (run, at) = &untold.last;
    json!({"job": untold.job.as_str(), "count": untold.count, "last": run.to_string(), "at": at.to_string(), "reason": why})
}

/// Of a notice that was tried in vain, the next of so many: when it is tried again, and why it told nobody yet.
fn retried_words(next: &RunRecord, count: usize, when: Relative) -> String {
    let at = next.ready.map(|at| format!(" {} ({})", shown(at, &Zone::of_host()), when.either(at))).unwrap_or_default();
    let why = facts_in_words(next).map(|why| format!(", after {why}")).unwrap_or_default();
    let more = if count > 1 { format!("; {} more wait so", count - 1) } else { String::new() };
    format!("{} is tried again{at}{why}{more}", next.run)
}

fn retried_json(notice: &RunRecord) -> Value {
    let ready = notice.ready.map(|at| at.to_string());
    json!({"run_id": notice.run.to_string(), "attempt": notice.attempt, "retry_at": ready, "reason": facts_in_words(notice)})
}

/// Has a hidden job tell what its runs would do now: as the job they tell of says, which is written into it with its next run only.
pub(super) async fn do_as_said_now(store: &Store, job: &mut JobView) -> Result<(), Failure> {
    let (Some((told, kind)), Ok(definition)) = (job.record.name.told_of(), &mut job.definition) else { return Ok(()) };
    // A job that cannot be read says nothing, to its runs either.
    let told = store.read_jobs(std::slice::from_ref(&told)).await?.into_iter().flatten().flatten().next();
    if let Some(spec) = said_now(told, kind) {
        definition.spec = spec;
    }
    Ok(())
}

/// The notices of a run, of its last attempt and of what became of it before.
pub(super) async fn notices_of(store: &Store, record: &RunRecord) -> Result<Vec<RunRecord>, Failure> {
    if record.run.job().is_hidden() {
        return Ok(Vec::new());
    }
    let fence = record.fence.map(|fence| fence.to_string());
    let stamps: Vec<&str> = fence.as_deref().into_iter().chain(Deadline::ALL.map(Deadline::as_str)).collect();
    let ids: Vec<RunId> = NoticeKind::ALL
        .into_iter()
        .flat_map(|kind| stamps.iter().filter_map(move |stamp| notice_id(&record.run, kind, stamp).ok()))
        .collect();
    Ok(store.read_runs(&ids).await?.into_iter().filter_map(|notice| notice.ok().flatten()).collect())
}

/// The word for why people are told by it.
pub(super) fn kind_of(notice: &RunRecord) -> &'static str {
    notice.run.job().told_of().map_or("", |(_, kind)| kind.as_str())
}

/// A notice in the JSON of its run.
pub(super) fn notice_json(notice: &RunRecord) -> Value {
    json!({"kind": kind_of(notice), "run_id": notice.run.to_string(), "state": notice.state.as_str()})
}
