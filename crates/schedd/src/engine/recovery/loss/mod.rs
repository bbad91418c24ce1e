//! Data loss: detects it, reports it, and limits its damage.
//!
//! Each poll returns the marks of the data: epoch, fence and server. If these marks differ from the
//! marks that this node knows, the node claims nothing and reports the loss. The first node to
//! notice begins a new epoch. Each node restores the facts in its journal. Meanwhile no run is due
//! on any node, for the length of a lease. So when claims begin again, no run from before the loss
//! is still executing.
//!
//! A failover or restart may lose only the last writes. A node that did not see these writes cannot
//! notice their loss. So the first node that meets a new Redis server stores the fence that the
//! server then has. A server is new if its process changed, or if it was promoted to primary. For
//! 1.5 s no run is due on a new server. Each node polls at least every second, so a node that has
//! seen a higher fence reports the loss in this time. A node that comes later compares its fence
//! with the stored fence. Claims and skips that follow a poll go only to the polled server.
//!
//! - [`data_state`] decides whether the data is known, lost or replaced
//! - [`loss_watch`] checks each poll
//! - [`journal_upload`] restores runs from the journal
//! - [`job_catalog`] keeps the names of jobs that no file would restore
//!
//! Invariant: a node never restores its journal into data of another installation.

mod data_state;
pub(crate) mod job_catalog;
pub(crate) mod journal_upload;
pub(crate) mod loss_watch;

use std::sync::Arc;
use std::time::Duration;

use tracing::{error, info, warn};

use super::journal::JournalLine;
use super::restored_ends::Given;
use crate::engine::maintenance::retained_bounds::Retention;
use crate::engine::node_context::NodeContext;
use data_state::{DataState, Remembered, judge};
use loss_watch::{FoundData, LossWatch};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    DataLoss, EpochReply, JOBS_NAMED, LossKind, LossReport, Met, ReportReply, StoreError, new_epoch,
};

/// The shortest and the longest time without claims after a data loss. Between these limits, the
/// time is the length of a lease. The script that lists due runs ignores a longer time.
const SETTLE: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(60)];
/// The time that other nodes get to restore their journals, before this node reports which jobs are
/// gone. All nodes notice a loss within a second.
const OTHERS_GIVE_BACK: Duration = Duration::from_millis(1500);
/// The most jobs named in one log line.
const NAMED_IN_LOG: usize = 20;

/// The parts of the node that the recovery loop uses. The loop examines data in Redis that this
/// node does not know, and restores lost data.
pub(crate) struct LossRecovery {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) loss_watch: Arc<LossWatch>,
    pub(crate) retention: Arc<Retention>,
}

/// Decides whether data that polls found and this node does not know was lost or replaced. Never
/// returns.
pub(crate) async fn run(recovery: Arc<LossRecovery>) {
    let watch = &recovery.loss_watch;
    loop {
        let found = watch.next_found().await;
        match deal(&recovery, &found).await {
            Ok(()) => recovery.node.wakeups.ticker.notify_one(),
            // The next poll finds the same data and starts this decision again.
            Err(error) => {
                recovery.node.outage_log.failed(
                    &error,
                    "this node cannot find out if data was lost and starts no runs",
                );
            }
        }
    }
}

async fn deal(recovery: &LossRecovery, found: &FoundData) -> Result<(), StoreError> {
    let (store, watch) = (&recovery.node.store, &recovery.loss_watch);
    if watch.has_accepted_since(found.known) {
        return Ok(());
    }
    let (known, marks) = (watch.remembered(), &found.marks);
    if marks.met == Met::No {
        store.record_server(&marks.server).await?;
        // The next poll also shows the fence that this server had when a node first met it. Data
        // without an epoch is judged now, because that fence is not needed.
        if !marks.epoch.is_empty() {
            return Ok(());
        }
    }
    let is_other =
        known.epoch.as_ref().is_some_and(|epoch| !marks.epoch.is_empty() && *epoch != marks.epoch);
    let losses = if is_other { store.read_losses().await? } else { Vec::new() };
    let fresh = || new_epoch(found.now, &recovery.node.settings.node);
    match judge(&known, marks, watch.address(), &losses) {
        DataState::Same if marks.is_damaged => {
            let Some(epoch) = watch.mark_to_write_back(marks, found.known.highest) else {
                return Ok(());
            };
            if store.begin_epoch(&marks.epoch, &epoch, None, 0, Duration::ZERO).await?
                == EpochReply::Begun
            {
                warn!(
                    "The key `epoch` in Redis had an invalid value. This node replaced the value by the known epoch."
                );
            }
            Ok(())
        }
        DataState::Same => {
            if known.server.as_ref() != Some(&marks.server) {
                watch.accept(
                    &marks.epoch,
                    marks.fence.max(watch.known_now().highest),
                    &marks.server,
                    found.now,
                );
            }
            Ok(())
        }
        DataState::FirstDay => {
            let epoch = fresh();
            if store.begin_epoch("", &epoch, None, 0, Duration::ZERO).await? == EpochReply::Begun {
                watch.accept(&epoch, marks.fence, &marks.server, found.now);
            }
            Ok(())
        }
        DataState::New => {
            watch.accept(&marks.epoch, marks.fence, &marks.server, found.now);
            Ok(())
        }
        DataState::Another => {
            warn!(
                redis = watch.address(),
                was_at = known.address,
                "This Redis has data that this node does not know, so this node treats it as another server. The node renamed its journal of the earlier data, and does not restore that journal here."
            );
            watch.journal().set_aside();
            Ok(())
        }
        DataState::Lost(kind) => {
            let kept_to = match UnixMillis::new(known.whole_at) {
                Some(whole) if kind != LossKind::Flushed => store.newest_trace(whole).await?,
                _ => None,
            };
            let loss = DataLoss {
                epoch: fresh(),
                before: known.epoch.clone().unwrap_or_default(),
                found: marks.epoch.clone(),
                kind,
                by: recovery.node.settings.node.as_str().to_owned(),
                whole_at_ms: known.whole_at,
                kept_to_ms: kept_to.map_or(0, UnixMillis::as_i64),
            };
            let settle = recovery.node.settings.lease.clamp(SETTLE[0], SETTLE[1]);
            match store
                .begin_epoch(&marks.epoch, &loss.epoch, Some(&loss), known.highest, settle)
                .await?
            {
                EpochReply::Begun => mend(recovery, &loss.epoch, kind, &known, found).await,
                // Another node began an epoch first. The next poll shows this epoch.
                EpochReply::Another => Ok(()),
            }
        }
        DataState::Joined(kind) => mend(recovery, &marks.epoch, kind, &known, found).await,
    }
}

/// Reports the loss, restores the facts in the journal, and accepts the data as known.
async fn mend(
    recovery: &LossRecovery,
    epoch: &str,
    kind: LossKind,
    known: &Remembered,
    found: &FoundData,
) -> Result<(), StoreError> {
    let (watch, now) = (&recovery.loss_watch, found.now);
    let whole_at = UnixMillis::new(known.whole_at);
    // The loss is logged once, even if the restore takes several tries.
    if recovery.node.outage_log.is_new(&format!("loss {epoch}")) {
        error!(
            namespace = recovery.node.store.namespace(),
            last_whole_at = whole_at.map(|at| at.to_string()).unwrap_or_default(),
            "Redis lost data: {}. No run starts until this node has restored its journal. Jobs of jobs.toml are planned again. Open runs are stopped and retried, but open at-most-once runs end as lost.",
            kind.words()
        );
    }
    // Runs of this node without a lease must be stopped before another node may start them again.
    recovery.node.wakeups.lease_keeper.notify_one();
    recovery.node.wakeups.reconciler.notify_one();
    let (node, max_age) = (&recovery.node, recovery.retention.bounds().history.max_age);
    let orders =
        journal_upload::orders(watch.journal(), node.settings.node.as_str(), epoch, now, max_age);
    let given =
        journal_upload::give_back(node, orders, whole_at.unwrap_or(UnixMillis::EPOCH)).await?;
    tokio::time::sleep(OTHERS_GIVE_BACK).await;
    let gone = job_catalog::missing(&node.store, watch.journal()).await?;
    log_given(&given, &gone);
    let report = LossReport {
        epoch: epoch.to_owned(),
        node: recovery.node.settings.node.as_str().to_owned(),
        restored: given.restored,
        lost: given.lost,
        jobs_gone: gone.len() as u64,
        gone: gone
            .iter()
            .take(JOBS_NAMED)
            .map(|job| (job.name.clone(), job.schedule.clone()))
            .collect(),
    };
    match recovery.node.store.report_loss(&report, known.highest).await? {
        ReportReply::Reported(fence) => {
            watch.journal().note(gone.into_iter().map(|job| JournalLine::JobOver(job.name)));
            watch.accept(epoch, fence, &found.marks.server, now);
        }
        // The data was lost once more. The next poll shows the new loss.
        ReportReply::Moved => {}
    }
    Ok(())
}

fn log_given(given: &Given, gone: &[super::journal::ApiJob]) {
    let Given { restored, known, lost, failed } = *given;
    info!(restored, lost, known, "This node has restored the runs of its journal.");
    if failed > 0 {
        warn!(
            failed,
            "Some runs of the journal could not be restored. These runs may execute again."
        );
    }
    if gone.is_empty() {
        return;
    }
    let named: Vec<String> = gone
        .iter()
        .take(NAMED_IN_LOG)
        .map(|job| format!("{} ({})", job.name, job.schedule))
        .collect();
    error!(
        jobs = gone.len(),
        "Redis lost jobs that were added by schedctl. Add the jobs again if you need them: {}{}",
        named.join(", "),
        if gone.len() > NAMED_IN_LOG { ", ... (schedctl data-loss lists more)" } else { "" }
    );
}
