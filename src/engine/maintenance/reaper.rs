//! Recovers runs whose node stopped renewing their lease.
//!
//! Invariant: a lease is taken over only after this node saw it unchanged for its whole length, by
//! its own clock. So a step of Redis' clock, or of any wall clock, never ends a lease early. The
//! script compares the watched lease with the present one.
//!
//! Time in which this node was suspended does not count, because Redis and the holder may have been
//! suspended too. A lease that this node itself could not keep is taken back at once when no
//! process of its run is alive.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tracing::{error, info, warn};

use crate::domain::job::job_spec::Delivery;
use crate::domain::name::names::{Fence, RunId};
use crate::domain::run::run_state::RunState;
use crate::engine::dispatch::abandoned_claims::AbandonedClaims;
use crate::engine::dispatch::definition::Definition;
use crate::engine::execution::running_leases::RunningLeases;
use crate::engine::node_context::NodeContext;
use crate::engine::recovery::journal::{EndedRun, JournalLine};
use crate::engine::recovery::loss::loss_watch::LossWatch;
use crate::engine::settings::EngineSettings;
use crate::engine::status::node_health::NodeHealth;
use crate::keeper::{BootInstant, EndedMark};
use crate::store::{
    Claim, DueEntry, ExpiredLease, FinishReply, Quarantined, RecoverReply, Recovery, RunRecord,
    StoreError, Verdict,
};

const EVERY: Duration = Duration::from_secs(1);
/// The most leases examined in one pass. The leases that end first are examined.
const PAGE: usize = 1_000;
/// The number of recoveries in a row after which a run fails. The run itself may be what kills the
/// nodes that execute it.
const POISON: u32 = 3;

/// The time after a node's start during which it looks for the end mark of its predecessor. The
/// predecessor's keeper writes this mark when no job of the predecessor is alive.
const PREDECESSOR_EXPECTED: Duration = Duration::from_secs(60);
/// The time after a node's start during which it looks often for the end mark, because a keeper
/// kills its jobs at once.
const PREDECESSOR_LIKELY: Duration = Duration::from_secs(3);
const LOOK_FOR_PREDECESSOR: Duration = Duration::from_millis(100);

/// The loop that recovers runs whose node stopped renewing their lease.
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

/// Watches the leases of all nodes, for ever.
pub(crate) async fn run(reaper: Arc<Reaper>) {
    let mut watched: HashMap<(RunId, Fence), Watched> = HashMap::new();
    let started = BootInstant::now();
    let mut taken_back = None;
    loop {
        // The keeper of a predecessor that was just killed may still be at work.
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
        // At most a quarter of a lease, or a short lease would be taken back late. The first looks
        // are frequent, because a predecessor's keeper finishes within moments.
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

/// Returns the end mark that a predecessor of this node left in this boot of its host.
fn predecessor(settings: &EngineSettings) -> Option<EndedMark> {
    let mark = EndedMark::read(settings.ended_mark.as_deref()?)?;
    let is_its = mark.node == settings.node.as_str() && mark.boot_id == settings.host.boot_id;
    (is_its && mark.incarnation != settings.incarnation).then_some(mark)
}

/// Takes back at once all runs of this node's predecessor. The keeper of the predecessor recorded
/// that none of its jobs is alive.
async fn take_back(reaper: &Reaper, incarnation: &str) -> Result<(), StoreError> {
    for lease in reaper.node.store.list_leases(PAGE).await?.into_iter().flatten() {
        let Ok(Some(record)) = reaper.node.store.read_run(&lease.run).await else { continue };
        let is_its = record.node.as_deref() == Some(reaper.node.settings.node.as_str())
            && record.incarnation.as_deref() == Some(incarnation)
            && record.fence == Some(lease.fence);
        if is_its {
            recover_alone(reaper, &lease, Duration::MAX).await?;
        }
    }
    Ok(())
}

async fn pass(
    reaper: &Reaper,
    watched: &mut HashMap<(RunId, Fence), Watched>,
) -> Result<(), StoreError> {
    let seen_at = BootInstant::now();
    let leases = reaper.node.store.list_leases(PAGE).await?;
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
                        error!(entry = ?entry, score, "Quarantine is full. An invalid entry of the leases was removed, and only this line records it.");
                    }
                    Err(error) if error.is_passing() => return Err(error),
                    Err(error) => reaper
                        .node
                        .outage_log
                        .failed(&error, "invalid entries stay among the leases"),
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
        let unchanged = crate::store::server::mutants::watched(&lease.end, unchanged);
        let has_ended = lease.end.parse::<i64>().is_ok_and(|end| end < now.as_i64());
        // If Redis' clock was set back, the end may lie far ahead. Twice the lease length is proof
        // enough.
        let own = reaper.node.settings.lease;
        if unchanged >= own
            && (has_ended || unchanged >= own * 2)
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

/// Gives back, with retries, all runs won by claims whose answer never came. The caller must first
/// stop claiming on this node.
pub(crate) async fn release_all_abandoned(reaper: &Reaper) {
    for run in reaper.abandoned.runs() {
        while let Err(error) = release_abandoned(reaper, &run).await {
            reaper.node.outage_log.failed(&error, "runs that never started are not handed back");
            tokio::time::sleep(reaper.node.settings.tick).await;
        }
    }
}

/// Gives a run back if a given-up claim leased the run to this node, because the run never started.
/// Returns true if the run was given back.
async fn release_abandoned(reaper: &Reaper, run: &RunId) -> Result<bool, StoreError> {
    if !reaper.abandoned.knows(run) {
        return Ok(false);
    }
    let record = match reaper.node.store.read_run(run).await {
        Err(error) if error.is_passing() => return Err(error),
        // Recovery judges a record that cannot be read.
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

/// Takes one run back. If the run's keys have a wrong type, the error is logged, the run is tried
/// again later, and other runs go on.
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

/// Takes one run back. Returns false if the lease of the run is longer than the time for which the
/// lease was watched.
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
                error!(run = %lease.run, "A lease without a run was moved to quarantine.");
            }
            Quarantined::Dropped => {
                error!(run = %lease.run, fence = %lease.fence, "Quarantine is full. A lease without a run was removed.");
            }
        }
        return Ok(true);
    };
    // Judged by the lease length its owner used, which may be longer than ours.
    if record.lease.is_some_and(|length| unchanged < length) {
        return Ok(false);
    }
    let job = match reaper.node.store.read_job(lease.run.job()).await {
        Err(error) if error.is_passing() => return Err(error),
        other => other.ok().flatten(),
    };
    let job_lane = job.as_ref().map_or_else(|| record.lane.clone(), |job| job.lane.clone());
    // The definition may have been edited since the attempt began.
    let delivery = job.and_then(|job| Definition::of(job).ok()).map(|_| record.delivery);
    #[cfg(feature = "mutants")]
    let delivery = crate::store::server::mutants::reaped_as(delivery);
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
            warn!(run = %lease.run, fence = %lease.fence, node, "The node of this run stopped renewing its lease. The run is due again.");
        }
        RecoverReply::Ended => {
            note_end(reaper, lease, &record, &recovery);
            warn!(run = %lease.run, fence = %lease.fence, node, "The run ended: {}.", recovery.reason);
        }
        RecoverReply::Alive => {
            info!(run = %lease.run, "The node renewed the lease in time, so the run goes on.");
        }
        RecoverReply::Gone => {}
    }
    Ok(true)
}

/// Notes the end of the recovered run in the journal. A run that was to be retried and ended all
/// the same was cancelled by an operator.
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

/// Returns the end of a run whose node is gone, with its reason. The state `None` means that the
/// run is tried again.
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
        // It is unknown whether a second start is allowed, so there is none.
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
        "started_at_ms": record.started_at.map(crate::domain::time::unix_millis::UnixMillis::as_i64),
        "exit_code": null,
        "signal": null,
        "http_status": null,
        "error": "the node of the run stopped renewing its lease",
    })
    .to_string()
}
