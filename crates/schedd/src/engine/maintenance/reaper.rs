//! Recovers runs whose node stopped renewing their leases.
//!
//! Invariant: a lease is taken over only after this node saw it unchanged for its whole length, by
//! this node's own clock. So a step of Redis' clock, or of any wall clock, never ends a lease
//! early. The script in Redis takes the lease over only if the lease is still unchanged.
//!
//! Time in which this node was suspended does not count, because Redis and the other node may have
//! been suspended too. A lease that this node itself could not renew is taken back at once when no
//! process of its run is alive.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tracing::{error, info, warn};

use crate::engine::dispatch::abandoned_claims::AbandonedClaims;
use crate::engine::dispatch::definition::Definition;
use crate::engine::execution::running_leases::RunningLeases;
use crate::engine::node_context::NodeContext;
use crate::engine::planning::backfill_plan;
use crate::engine::recovery::journal::{EndedRun, JournalLine};
use crate::engine::recovery::loss::loss_watch::LossWatch;
use crate::engine::settings::EngineSettings;
use crate::engine::status::node_health::NodeHealth;
use schedd_core::domain::job::job_spec::Delivery;
use schedd_core::domain::run::run_state::RunState;
use schedd_core::host::boot_clock::BootInstant;
use schedd_core::host::end_mark::EndedMark;
use schedd_schedule::names::{Fence, RunId, RunKind};
use schedd_store::{
    Claim, DueEntry, ExpiredLease, FinishReply, Quarantined, RecoverReply, Recovery, RunRecord,
    StoreError, Verdict,
};

const EVERY: Duration = Duration::from_secs(1);
/// The shortest lease that a worker may ask for. The leases of nodes are longer.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The most leases that one pass examines. The leases with the earliest end are examined.
const PAGE: usize = 1_000;
/// The number of recoveries in a row after which a run fails, because the run itself may be what
/// kills its nodes.
const POISON: u32 = 3;

/// The time after a start in which this node looks for the end mark of its predecessor. The keeper
/// of the predecessor writes the mark when all processes of the predecessor's jobs are dead.
const PREDECESSOR_EXPECTED: Duration = Duration::from_secs(60);
/// The time after a start in which this node looks often for the end mark. A keeper usually writes
/// the mark at once.
const PREDECESSOR_LIKELY: Duration = Duration::from_secs(3);
const LOOK_FOR_PREDECESSOR: Duration = Duration::from_millis(100);

/// The handles of the loop that recovers runs whose node stopped renewing their leases.
pub(crate) struct Reaper {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) leases: Arc<RunningLeases>,
    pub(crate) abandoned: Arc<AbandonedClaims>,
    pub(crate) loss_watch: Arc<LossWatch>,
    pub(crate) health: Arc<NodeHealth>,
}

struct Watched {
    end: String,
    since: BootInstant,
}

/// Watches the leases of all nodes. Never returns.
pub(crate) async fn run(reaper: Arc<Reaper>) {
    let mut watched: HashMap<(RunId, Fence), Watched> = HashMap::new();
    let started = BootInstant::now();
    let mut taken_back = None;
    loop {
        // The keeper of a killed predecessor may write its end mark only later, so this is
        // repeated.
        if BootInstant::now().since(started) < PREDECESSOR_EXPECTED
            && let Some(mark) =
                predecessor(&reaper.node.settings).filter(|mark| Some(mark) != taken_back.as_ref())
        {
            match take_back(&reaper, &mark.incarnation).await {
                Ok(()) => taken_back = Some(mark),
                Err(error) => {
                    reaper.node.outage_log.failed(
                        &error,
                        "runs of the earlier schedd with this node name are not recovered",
                    );
                }
            }
        }
        // The pause is at most a quarter of a lease, so that a short lease is taken over in time.
        // It is shorter at first, because a predecessor's keeper ends within moments.
        let is_new = BootInstant::now().since(started) < PREDECESSOR_LIKELY;
        let pause =
            if is_new { LOOK_FOR_PREDECESSOR } else { EVERY }.min(reaper.node.settings.lease / 4);
        tokio::time::sleep(pause).await;
        let mine = reaper.leases.all().len() as u64;
        let has_reason = reaper.leases.of_all_nodes() > mine || !watched.is_empty();
        if !has_reason && reaper.leases.all_given_up().is_empty() {
            continue;
        }
        if let Err(error) = pass(&reaper, &mut watched).await {
            reaper.node.outage_log.failed(&error, "runs with expired leases are not recovered");
        }
    }
}

/// Returns the end mark of an earlier schedd with this node's name, from this boot of the host. The
/// mark shows that no process of its jobs is alive. Returns `None` if there is no such mark.
fn predecessor(settings: &EngineSettings) -> Option<EndedMark> {
    let mark = EndedMark::read(settings.ended_mark.as_deref()?)?;
    let is_its = mark.node == settings.node.as_str() && mark.boot_id == settings.host.boot_id;
    (is_its && mark.incarnation != settings.incarnation).then_some(mark)
}

/// Takes back at once all runs of this node's predecessor, which had the id `incarnation`. No
/// process of these runs is alive any more.
async fn take_back(reaper: &Reaper, incarnation: &str) -> Result<(), StoreError> {
    let store = &reaper.node.store;
    let mut kept = 0;
    loop {
        let page = store.list_leases_after(kept, PAGE).await?;
        let count = page.len();
        let leases: Vec<ExpiredLease> = page.into_iter().flatten().collect();
        let runs: Vec<RunId> = leases.iter().map(|lease| lease.run.clone()).collect();
        let mut taken = 0;
        for (lease, record) in leases.iter().zip(store.read_runs(&runs).await?) {
            let record = match record {
                Ok(Some(record)) => record,
                Err(error) if error.is_passing() => return Err(error),
                Ok(None) | Err(_) => continue,
            };
            let is_its = record.node.as_deref() == Some(reaper.node.settings.node.as_str())
                && record.incarnation.as_deref() == Some(incarnation)
                && record.fence == Some(lease.fence);
            if is_its {
                taken += usize::from(recover_alone(reaper, lease, Duration::MAX).await?);
            }
        }
        if count < PAGE {
            return Ok(());
        }
        kept += count - taken;
    }
}

async fn pass(
    reaper: &Reaper,
    watched: &mut HashMap<(RunId, Fence), Watched>,
) -> Result<(), StoreError> {
    let seen_at = BootInstant::now();
    let leases = reaper.node.store.list_leases(PAGE).await?;
    if leases.len() < PAGE {
        // The ends of runs cause no poll of the lanes, so a later poll may not count the leases.
        reaper.leases.note_of_all_nodes(leases.len() as u64);
    }
    let now = reaper.node.store.now().await?;
    let given_up = reaper.leases.all_given_up();
    let awake_since = reaper.health.suspends.awake_since();
    let mut still: HashMap<(RunId, Fence), Watched> = HashMap::new();
    for lease in leases {
        let lease = match lease {
            Ok(lease) => lease,
            Err((member, score)) => {
                let entry = DueEntry { member, score };
                match reaper.node.store.quarantine_lease(&entry, "the entry is not a lease").await {
                    Ok(Quarantined::Gone) => {}
                    Ok(Quarantined::Kept) => {
                        error!(entry = ?entry.member, "An invalid entry of the leases was moved to quarantine.");
                    }
                    Ok(Quarantined::Dropped) => {
                        let (entry, score) = (&entry.member, &entry.score);
                        error!(entry = ?entry, score, "An invalid entry of the leases was deleted, because quarantine is full. Only this line records the entry.");
                    }
                    Err(error) if error.is_passing() => return Err(error),
                    Err(error) => reaper.node.outage_log.failed(
                        &error,
                        "invalid entries of the leases are not moved to quarantine",
                    ),
                }
                continue;
            }
        };
        let key = (lease.run.clone(), lease.fence);
        if reaper.leases.all().contains_key(&key) || release_abandoned(reaper, &lease.run).await? {
            continue;
        }
        let since = match watched.remove(&key) {
            Some(known) if known.end == lease.end => known.since,
            _ => seen_at,
        };
        let unchanged = if given_up.contains(&key) {
            Duration::MAX
        } else {
            BootInstant::now().since(since.max(awake_since))
        };
        #[cfg(feature = "mutants")]
        let unchanged = schedd_store::server::mutants::watched(&lease.end, unchanged);
        let has_ended = lease.end.parse::<i64>().is_ok_and(|end| end < now.as_i64());
        // After Redis' clock was set back, the lease may end far in the future. Then twice the
        // length of a lease without change is enough.
        let own = reaper.node.settings.lease;
        if (has_ended && unchanged >= own.min(SHORTEST_LEASE) || unchanged >= own * 2)
            && recover_alone(reaper, &lease, unchanged).await?
        {
            continue;
        }
        still.insert(key, Watched { end: lease.end, since });
    }
    reaper.leases.forget_given_up(given_up.iter().filter(|lease| !still.contains_key(lease)));
    *watched = still;
    Ok(())
}

/// Gives back all runs of abandoned claims, with retries. This node must have stopped claiming
/// before.
pub(crate) async fn release_all_abandoned(reaper: &Reaper) {
    for run in reaper.abandoned.runs() {
        while let Err(error) = release_abandoned(reaper, &run).await {
            reaper.node.outage_log.failed(
                &error,
                "runs that this node claimed but did not start are not handed back",
            );
            tokio::time::sleep(reaper.node.settings.tick).await;
        }
    }
}

/// Gives a run back if an abandoned claim leased it to this node, because the run was never
/// started. Returns true if the run was given back.
async fn release_abandoned(reaper: &Reaper, run: &RunId) -> Result<bool, StoreError> {
    if !reaper.abandoned.knows(run) {
        return Ok(false);
    }
    let record = match reaper.node.store.read_run(run).await {
        Err(error) if error.is_passing() => return Err(error),
        // An unreadable record is left to the recovery of expired leases.
        read => read.unwrap_or_default(),
    };
    let is_ours =
        |record: &RunRecord| record.incarnation.as_ref() == Some(&reaper.node.settings.incarnation);
    let Some(record) = record.filter(|record| is_ours(record) && reaper.abandoned.won(record))
    else {
        return Ok(false);
    };
    let job = match reaper.node.store.read_job(run.job()).await {
        Err(error) if error.is_passing() => return Err(error),
        read => read.unwrap_or_default(),
    };
    let Some(claim) =
        Claim::unanswered(&record, job.as_ref().map_or(&record.lane, |job| &job.lane))
    else {
        return Ok(false);
    };
    match reaper.node.store.finish_run(&claim, &Verdict::Release, "not started", &[], "").await {
        Ok(FinishReply::Lost) => Ok(false),
        Ok(_) => {
            warn!(run = %run, fence = %claim.fence, "The run was handed back without a start, because the answer to its claim never came.");
            Ok(true)
        }
        Err(error) if error.is_passing() => Err(error),
        Err(error) => {
            reaper.node.outage_log.failed(
                &error,
                &format!("a run of job {} that never started is not handed back", run.job()),
            );
            Ok(false)
        }
    }
}

/// Takes back the run of `lease`, which was seen unchanged for the time `unchanged`. Returns false
/// if that time is too short. If a key of the run has the wrong type, the error is logged and the
/// run is tried again later. Other runs are not affected.
async fn recover_alone(
    reaper: &Reaper,
    lease: &ExpiredLease,
    unchanged: Duration,
) -> Result<bool, StoreError> {
    match recover(reaper, lease, unchanged).await {
        Err(error) if !error.is_passing() => {
            reaper.node.outage_log.failed(
                &error,
                &format!("a run of job {} with an expired lease is not recovered", lease.run.job()),
            );
            Ok(false)
        }
        other => other,
    }
}

/// Takes back the run of `lease`, which was seen unchanged for the time `unchanged`. Returns false
/// if that is shorter than the length of the lease.
async fn recover(
    reaper: &Reaper,
    lease: &ExpiredLease,
    unchanged: Duration,
) -> Result<bool, StoreError> {
    let record = match reaper.node.store.read_run(&lease.run).await {
        Ok(record) => record,
        Err(error) if error.is_passing() => return Err(error),
        Err(error) => {
            reaper
                .node
                .outage_log
                .failed(&error, &format!("the record of run {} is treated as missing", lease.run));
            None
        }
    };
    let Some(record) = record else {
        let entry =
            DueEntry { member: format!("{}#{}", lease.run, lease.fence), score: lease.end.clone() };
        match reaper
            .node
            .store
            .quarantine_lease(&entry, "the run of the lease has no record")
            .await?
        {
            Quarantined::Gone => {}
            Quarantined::Kept => {
                error!(run = %lease.run, "A lease whose run has no record was moved to quarantine.");
            }
            Quarantined::Dropped => {
                error!(run = %lease.run, fence = %lease.fence, "A lease whose run has no record was deleted, because quarantine is full.");
            }
        }
        return Ok(true);
    };
    // A worker, and the node of the lease, may use another lease time than this node.
    if unchanged < record.lease.unwrap_or(reaper.node.settings.lease) {
        return Ok(false);
    }
    let job = match reaper.node.store.read_job(lease.run.job()).await {
        Err(error) if error.is_passing() => return Err(error),
        other => other.ok().flatten(),
    };
    let job_lane = job.as_ref().map_or_else(|| record.lane.clone(), |job| job.lane.clone());
    // The delivery (at-least-once or at-most-once) comes from the record of the run. An edit of the
    // job does not change the delivery of a run that has begun.
    let definition = job.and_then(|job| Definition::of(job).ok());
    let delivery = definition.as_ref().map(|_| record.delivery);
    #[cfg(feature = "mutants")]
    let delivery = schedd_store::server::mutants::reaped_as(delivery);
    let (verdict, reason) = decide(&record, delivery);
    let recovery = Recovery {
        verdict,
        reason,
        past: past(&record),
        lane: record.lane.clone(),
        job_lane,
        places: record.places.clone(),
    };
    let node = record.node.as_deref().unwrap_or("?");
    match reaper.node.store.recover_run(lease, &recovery).await? {
        RecoverReply::Recovered => {
            reaper.node.counters.run_recovered();
            warn!(run = %lease.run, fence = %lease.fence, node, "The node of this run stopped renewing its lease. The run is due again.");
        }
        RecoverReply::Ended => {
            let state = recovery.verdict.unwrap_or(RunState::Cancelled);
            reaper.node.counters.run_recovered();
            reaper.node.counters.runs_ended(record.lane.queue(), state, 1);
            note_end(reaper, lease, &record, &recovery);
            reaper.node.traces.run_ended(definition.as_ref(), || RunRecord {
                state,
                reason: Some(recovery.reason.clone()),
                ..record.clone()
            });
            warn!(run = %lease.run, fence = %lease.fence, node, "The run was ended, because its node stopped renewing its lease: {}.", recovery.reason);
            if lease.run.kind() == RunKind::Backfill {
                backfill_plan::advance(&reaper.node.store, lease.run.job()).await?;
            }
        }
        RecoverReply::Alive => {
            info!(run = %lease.run, "The node of this run renewed the lease in time, so the run continues.");
        }
        RecoverReply::Gone => {}
    }
    Ok(true)
}

/// Records the end of the recovered run in the journal. If the recovery asked for a retry but the
/// run ended, the end is recorded as `cancelled`, because an operator had cancelled the run.
fn note_end(reaper: &Reaper, lease: &ExpiredLease, record: &RunRecord, recovery: &Recovery) {
    let (state, reason) = match recovery.verdict {
        Some(state) => (state, recovery.reason.clone()),
        None => (RunState::Cancelled, String::new()),
    };
    reaper.loss_watch.journal().note([JournalLine::Ended(EndedRun {
        run: lease.run.to_string(),
        queue: record.lane.as_str().to_owned(),
        state: state.as_str().to_owned(),
        reason,
        ended_at: reaper.loss_watch.journal().with(|memory| memory.whole_at),
        fence: lease.fence.as_u64(),
        facts: vec![("attempt".to_owned(), record.attempt.to_string())],
    })]);
}

/// Returns the final state of a run whose node is gone, and the reason. A state of `None` means
/// that the run is tried again.
fn decide(record: &RunRecord, delivery: Option<Delivery>) -> (Option<RunState>, String) {
    match delivery {
        Some(Delivery::AtMostOnce) => {
            (Some(RunState::Lost), "the node of the run was lost during the attempt".to_owned())
        }
        Some(Delivery::AtLeastOnce) if record.recoveries >= POISON => (
            Some(RunState::Failed),
            format!(
                "poison: the nodes of the run were lost {} times in a row",
                record.recoveries + 1
            ),
        ),
        Some(Delivery::AtLeastOnce) => (None, "the node of the run was lost".to_owned()),
        // Without the definition, it is unknown whether the run may start twice, so it does not
        // start again.
        None => (
            Some(RunState::Lost),
            "the node of the run was lost, and the definition of the job cannot be read".to_owned(),
        ),
    }
}

fn past(record: &RunRecord) -> String {
    json!({
        "attempt": record.attempt,
        "state": "lost",
        "fence": record.fence.map(Fence::as_u64),
        "node": record.node,
        "started_at_ms": record.started_at.map(schedd_schedule::time::unix_millis::UnixMillis::as_i64),
        "exit_code": null,
        "signal": null,
        "http_status": null,
        "error": "the node of the run stopped renewing its lease",
    })
    .to_string()
}
