//! Operations that an operator requests on a run or job, and that need computed dates: cancel,
//! pause, resume, run by hand.
//!
//! Each operation reads the job, computes the dates, and calls a script in Redis. If the script
//! answers that the job changed meanwhile, the operation starts again from the reading.

use std::collections::BTreeSet;

use super::backfill_plan;
pub use super::operation_error::OperationError;
use super::passed_ranges::unrecorded;
use crate::engine::dispatch::definition::Definition;
use crate::engine::notification::notice_cleanup;
use schedd_core::domain::explain::GONE_AFTER;
use schedd_core::domain::job::job_spec::gates_of;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_note::RunNote;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{JobName, NodeName, RunId, RunKind};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    CancelOrder, CancelReply, JobRecord, ManualReply, NodeRecord, PauseReply, RemoveOrder,
    RemoveReply, ResumeOrder, ResumeReply, SourceKind, StopRunning, Store, StoreError,
};

const ROUNDS: usize = 8;
/// The most open runs of a removed job that one call of the script asks to stop.
const STOPPED_AT_ONCE: u32 = 1_000;
/// The most runs that are ended in each set of runs of a removed job (open, manual, waiting,
/// spread).
pub(crate) const ENDED_AT_ONCE: usize = 1_000;

pub(crate) fn understand(record: JobRecord) -> Result<Definition, OperationError> {
    let name = record.name.clone();
    Definition::of(record).map_err(|why| OperationError::Definition { name, why })
}

/// Cancels one run and records `reason`. The job continues with its later runs.
pub async fn cancel_run(
    store: &Store,
    run: &RunId,
    reason: &str,
) -> Result<CancelReply, OperationError> {
    let mut not_before = UnixMillis::EPOCH;
    for _ in 0..ROUNDS {
        let job = store.read_job(run.job()).await?;
        let record = store.read_run(run).await?;
        let is_pending = job.as_ref().is_some_and(|job| job.pending.as_ref() == Some(run));
        let successor = match &job {
            Some(job) if is_pending => {
                let definition = understand(job.clone())?;
                definition.next_after(run.due().max(not_before)).map(|due| definition.planned(due))
            }
            _ => None,
        };
        let lane = match (&record, &job) {
            (Some(record), _) => record.lane.clone(),
            (None, Some(job)) => job.lane.clone(),
            (None, None) => return Ok(CancelReply::Unknown),
        };
        let order = CancelOrder {
            run: run.clone(),
            lane,
            job: job.map(|job| (job.rev, job.lane)),
            successor: successor.clone(),
            reason: reason.to_owned(),
        };
        match store.cancel_run(&order).await? {
            CancelReply::Stale => {}
            CancelReply::Occupied => {
                not_before = successor.map_or(not_before, |next| next.run.due());
            }
            CancelReply::Cancelled if run.job().is_hidden() => {
                if let Some((subject, _)) = run.job().notice_subject() {
                    notice_cleanup::forget_if_removed(store, &subject).await?;
                }
                return Ok(CancelReply::Cancelled);
            }
            CancelReply::Cancelled if run.kind() == RunKind::Backfill => {
                backfill_plan::advance(store, run.job()).await?;
                return Ok(CancelReply::Cancelled);
            }
            reply => return Ok(reply),
        }
    }
    Err(OperationError::Contended(run.job().clone()))
}

/// Removes a job that was added on the command line.
pub async fn cancel_job(
    store: &Store,
    name: &JobName,
    running: StopRunning,
    reason: &str,
) -> Result<RemoveReply, OperationError> {
    remove(store, name, SourceKind::Api, "", running, reason).await
}

/// Removes a job from the list of the file `source`, which no longer contains the job. If no other
/// file lists the job, the job itself is removed.
pub async fn unlist_job(
    store: &Store,
    name: &JobName,
    source: &str,
) -> Result<RemoveReply, OperationError> {
    remove(store, name, SourceKind::File, source, StopRunning::No, "removed").await
}

async fn remove(
    store: &Store,
    name: &JobName,
    kind: SourceKind,
    source: &str,
    running: StopRunning,
    reason: &str,
) -> Result<RemoveReply, OperationError> {
    for _ in 0..ROUNDS {
        let job = store.read_job(name).await?;
        // A one-shot is cancelled with its open run. The open run of a recurring job is stopped
        // only on request.
        let running = if kind == SourceKind::Api && job.as_ref().is_some_and(|job| job.is_once) {
            StopRunning::Yes
        } else {
            running
        };
        let definition = job.clone().and_then(|job| Definition::of(job).ok());
        let is_on_each_node =
            definition.as_ref().is_some_and(|definition| definition.spec.is_on_each_node());
        let passed = match &definition {
            Some(definition) => passed_behind(store, definition).await?,
            None => (None, None),
        };
        let order = RemoveOrder {
            name: name.clone(),
            kind,
            source: source.to_owned(),
            read: job.as_ref().map(|job| (job.rev.clone(), job.lane.clone())),
            pending: job
                .as_ref()
                .and_then(|job| job.pending.clone().or_else(|| job.paused_run.clone())),
            running,
            reason: reason.to_owned(),
            // Without a readable definition, the gates of the job are not known. The waiting runs
            // of the job then end when a gate lets them in.
            gates: definition
                .map_or_else(Vec::new, |definition| gates_of(name, &definition.spec, true)),
            passed,
            unique: job.as_ref().and_then(|job| job.unique.clone()),
        };
        match store.remove_job(&order).await? {
            RemoveReply::Stale => {}
            RemoveReply::Removed(stopped) => {
                let more = if stopped >= STOPPED_AT_ONCE {
                    stop_all(store, name, reason).await?
                } else {
                    0
                };
                end_unbegun(store, name, reason).await?;
                notice_cleanup::forget_of_removed(store, name).await?;
                if is_on_each_node {
                    for (node, _) in store.list_instances(name).await? {
                        remove_instance(store, name, &node, running, reason).await?;
                    }
                }
                return Ok(RemoveReply::Removed(stopped.max(more)));
            }
            reply => return Ok(reply),
        }
    }
    Err(OperationError::Contended(name.clone()))
}

/// Removes the instance of `job` on `node`, if there is one.
pub(super) async fn remove_instance(
    store: &Store,
    job: &JobName,
    node: &NodeName,
    running: StopRunning,
    reason: &str,
) -> Result<(), OperationError> {
    let Some(name) = JobName::of_instance(job, node) else { return Ok(()) };
    let source = SourceName::instances_on(node);
    let kind = SourceKind::File;
    let removed = remove(store, &name, kind, source.as_str(), running, reason);
    Box::pin(removed).await.map(drop)
}

/// Returns the occurrences without a run record that passed after the planned run of a job. For a
/// paused job, these passed after the run that the pause keeps. Also returns the time at which the
/// next occurrence will have passed. A value is `None` if there is no such occurrence.
async fn passed_behind(
    store: &Store,
    definition: &Definition,
) -> Result<(Option<SkippedRange>, Option<UnixMillis>), StoreError> {
    let (passed, next) = definition.passed_behind(store.now().await?);
    let Some(skipped_range) = passed else { return Ok((None, next)) };
    Ok((unrecorded(store, definition, skipped_range).await?, next))
}

/// Asks all open runs of a removed job to stop, and returns the number of runs that were stopped or
/// asked. Needed if the job has more open runs than the removing script can stop.
async fn stop_all(store: &Store, name: &JobName, reason: &str) -> Result<u32, OperationError> {
    let (mut after, mut stopped) = (UnixMillis::EPOCH, 0);
    loop {
        let runs = store.list_open_after(name, after).await?;
        let Some(last) = runs.last() else { return Ok(stopped) };
        after = last.due();
        for run in runs {
            let reply = cancel_run(store, &run, reason).await?;
            stopped += u32::from(matches!(reply, CancelReply::Requested | CancelReply::Cancelled));
        }
    }
}

/// Cancels runs of a removed job that never began, so that a later job of the same name does not
/// wait for them. At most `ENDED_AT_ONCE` runs of each set (open, manual, waiting, spread) are
/// cancelled here. The claim script ends the remaining runs.
async fn end_unbegun(store: &Store, name: &JobName, reason: &str) -> Result<(), OperationError> {
    let runs = store.list_places(name, ENDED_AT_ONCE).await?;
    let records =
        store.read_runs(&runs).await?.into_iter().filter_map(|record| record.ok().flatten());
    for record in
        records.filter(|record| record.state == RunState::Scheduled && record.fence.is_none())
    {
        cancel_run(store, &record.run, reason).await?;
    }
    Ok(())
}

/// Pauses a job, and its instances on all nodes. The job starts no run until it is resumed.
pub async fn pause(store: &Store, name: &JobName) -> Result<PauseReply, OperationError> {
    let reply = pause_one(store, name).await?;
    for instance in instances_of(store, name).await? {
        pause_one(store, &instance).await?;
    }
    Ok(reply)
}

/// Returns the names of the live instances of a job with `on = "each-node"`.
async fn instances_of(store: &Store, name: &JobName) -> Result<Vec<JobName>, StoreError> {
    let has_instances =
        store.read_job(name).await?.is_some_and(|job| job.lane == Lane::of_each_node());
    if !has_instances {
        return Ok(Vec::new());
    }
    Ok(store.list_instances(name).await?.into_iter().map(|(_, record)| record.name).collect())
}

async fn pause_one(store: &Store, name: &JobName) -> Result<PauseReply, OperationError> {
    for _ in 0..ROUNDS {
        let Some(job) = store.read_job(name).await? else { return Ok(PauseReply::Unknown) };
        let open = if job.is_once {
            store.list_open_after(name, UnixMillis::EPOCH).await?.into_iter().next()
        } else {
            None
        };
        let open = match open {
            Some(run) => store.read_run(&run).await?,
            None => None,
        };
        let gates = Definition::of(job.clone())
            .map_or_else(|_| Vec::new(), |definition| gates_of(name, &definition.spec, true));
        match store.pause_job(&job, open.as_ref(), &gates).await? {
            PauseReply::Stale => {}
            reply => return Ok(reply),
        }
    }
    Err(OperationError::Contended(name.clone()))
}

/// Resumes a paused job and its instances on all nodes, and returns the due time of the next run.
/// Occurrences that passed during the pause become one skipped range. A one-shot that became due
/// during the pause runs now.
pub async fn resume(
    store: &Store,
    name: &JobName,
) -> Result<(ResumeReply, Option<UnixMillis>), OperationError> {
    let (reply, mut next) = resume_one(store, name).await?;
    for instance in instances_of(store, name).await? {
        let (_, due) = resume_one(store, &instance).await?;
        next = next.or(due);
    }
    Ok((reply, next))
}

async fn resume_one(
    store: &Store,
    name: &JobName,
) -> Result<(ResumeReply, Option<UnixMillis>), OperationError> {
    let mut not_before = UnixMillis::EPOCH;
    for _ in 0..ROUNDS {
        let now = store.now().await?;
        let Some(job) = store.read_job(name).await? else {
            return Ok((ResumeReply::Unknown, None));
        };
        let definition = understand(job)?;
        let (job, now) = (&definition.record, definition.judged_at(now));
        let (skipped, next) = match (&definition.spec.schedule, &job.paused_run) {
            (Schedule::At(_), paused_run) => (None, paused_run.as_ref().map(RunId::due)),
            (_, Some(paused_run)) => {
                let passed =
                    lateness::paused_range(&definition.timetable, paused_run.due(), job.since, now);
                let skipped = match passed {
                    Some((last, count)) => {
                        unrecorded(
                            store,
                            &definition,
                            SkippedRange { first: paused_run.due(), last, count },
                        )
                        .await?
                    }
                    None => None,
                };
                let next = if paused_run.due() > now.max(not_before) {
                    Some(paused_run.due())
                } else {
                    definition.timetable.planted_after(now.max(not_before))
                };
                (skipped, next)
            }
            (_, None) if definition.spec.is_on_each_node() => (None, None),
            (_, None) => (None, definition.timetable.planted_after(now.max(not_before))),
        };
        let order = ResumeOrder {
            name: name.clone(),
            rev: job.rev.clone(),
            lane: job.lane.clone(),
            paused_run: job.paused_run.clone(),
            skipped,
            planted: next.filter(|_| !definition.is_used_up()).map(|due| definition.planned(due)),
        };
        match store.resume_job(&order).await? {
            ResumeReply::Stale => {}
            ResumeReply::Occupied => not_before = next.unwrap_or(not_before),
            reply => return Ok((reply, next)),
        }
    }
    Err(OperationError::Contended(name.clone()))
}

/// Adds a manual run of the job, due now, to the due set. A job with `on = "each-node"` gets a run
/// on each of its nodes that runs, all with the same due time. Returns no run if the job does not
/// exist, or none of its nodes runs. `note` says why the user asks for the run.
pub async fn run_by_hand(
    store: &Store,
    name: &JobName,
    note: Option<&RunNote>,
) -> Result<Vec<RunId>, OperationError> {
    let (now, word) = (store.now().await?, random_word());
    let instances = instances_of(store, name).await?;
    let names = if instances.is_empty() {
        vec![name.clone()]
    } else {
        let (now, nodes) = store.list_nodes().await?;
        let is_there =
            |node: &NodeRecord| node.last_seen.is_some_and(|at| now.since(at) < GONE_AFTER);
        let present: BTreeSet<String> =
            nodes.into_iter().filter(is_there).map(|node| node.name).collect();
        let runs_now = |name: &JobName| {
            name.instance().is_some_and(|(_, node)| present.contains(node.as_str()))
        };
        instances.into_iter().filter(runs_now).collect()
    };
    let mut runs = Vec::new();
    for name in names {
        runs.extend(plant_run(store, RunId::manual(name, now, &word)?, note).await?);
    }
    Ok(runs)
}

/// Adds a run that repeats `run` to the due set. The new run has the due time of `run` and is ready
/// now. Returns `None` if the job no longer exists. `note` says why the user asks for the run.
pub async fn rerun(
    store: &Store,
    run: &RunId,
    note: Option<&RunNote>,
) -> Result<Option<RunId>, OperationError> {
    plant_run(store, RunId::rerun(run.job().clone(), run.due(), &random_word())?, note).await
}

/// Returns six random letters and digits, for the id of a run.
pub(super) fn random_word() -> String {
    std::iter::repeat_with(|| fastrand::alphanumeric().to_ascii_lowercase()).take(6).collect()
}

/// Adds `run`, which is ready now, to the due set, unless it was added before. Returns `None` if its
/// job does not exist or has an instance on each node.
pub(crate) async fn plant_run(
    store: &Store,
    run: RunId,
    note: Option<&RunNote>,
) -> Result<Option<RunId>, OperationError> {
    for _ in 0..ROUNDS {
        let job = store.read_job(run.job()).await?.filter(JobRecord::is_live);
        let Some(job) = job.filter(|job| job.lane != Lane::of_each_node()) else {
            return Ok(None);
        };
        match store.plant_manual(&run, &job.lane, note).await? {
            ManualReply::Planted => return Ok(Some(run)),
            ManualReply::Unknown => return Ok(None),
            ManualReply::Stale => {}
        }
    }
    Err(OperationError::Contended(run.job().clone()))
}
