//! Moves planned runs after a change of the zone data.
//!
//! The loop examines all jobs at the start of a node and whenever the zone data was read again. If
//! the planned run of a job is no longer an occurrence of its schedule, the next occurrence is
//! planned instead. So an updated `tzdata` also moves the run that is already planned. Only future
//! runs of schedules that depend on local time or on days are moved.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use crate::engine::dispatch::definition::Definition;
use crate::engine::node_context::NodeContext;
use crate::engine::planning::planting;
use crate::engine::planning::recurring_jobs::RecurringJobs;
use schedd_core::domain::job::notice::notify_words;
use schedd_schedule::chain::parents::Parents;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{ApplyOrder, ApplyReply, DefinitionChange, Existing, StoreError};

/// The most jobs read in one call.
const BATCH: usize = 200;
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The handles of the loop that checks planned runs against the zone data.
pub(crate) struct ZoneCheck {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) recurring: Arc<RecurringJobs>,
}

/// Examines the planned runs of all jobs once, and again whenever the zone data was read again.
/// Never returns.
pub(crate) async fn run(check: Arc<ZoneCheck>) {
    let node = &check.node;
    loop {
        match look(node, &check.recurring).await {
            Ok(()) => node.wakeups.zone_check.notified().await,
            Err(error) => {
                node.outage_log
                    .failed(&error, "planned runs are not checked against the zone data");
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
    }
}

async fn look(node: &NodeContext, recurring: &RecurringJobs) -> Result<(), StoreError> {
    for names in recurring.names(&node.store).await?.chunks(BATCH) {
        let now = node.store.now().await?;
        let records = node.store.read_jobs(names).await?;
        for (name, record) in names.iter().zip(records) {
            // Unusable jobs are left out. The ticker reports such a job when the job becomes due.
            let Ok(Some(record)) = record else { continue };
            let Some(Ok(definition)) = (!record.is_once).then(|| Definition::of(record)) else {
                continue;
            };
            if let Some(from) = misplaced(&definition, now) {
                move_run(node, name, &definition, from, now).await?;
            }
        }
    }
    Ok(())
}

/// Returns the due time of the job's planned run if the run is in the future and its due time is
/// not an occurrence. Otherwise returns `None`.
fn misplaced(definition: &Definition, now: UnixMillis) -> Option<UnixMillis> {
    let due = definition.record.pending.as_ref()?.due();
    let is_zoned =
        definition.spec.schedule.goes_by_clocks() || definition.spec.shape.counts_by_days();
    (is_zoned && due > now && definition.timetable.latest_in(due, due).is_none()).then_some(due)
}

async fn move_run(
    node: &NodeContext,
    name: &JobName,
    definition: &Definition,
    from: UnixMillis,
    now: UnixMillis,
) -> Result<(), StoreError> {
    let record = &definition.record;
    let next = definition.next_after(now);
    let order = ApplyOrder {
        name: name.clone(),
        definition: record.definition.clone(),
        read: Some((record.rev.clone(), record.lane.clone())),
        kind: record.kind,
        source: record.source.clone(),
        token: planting::token(),
        tz: record.tz.clone(),
        lane: record.lane.clone(),
        is_once: false,
        change: DefinitionChange::Zone,
        planted: next.map(|due| definition.planned(due)),
        anchor: record.anchor,
        existing: Existing::Edit,
        planned: record.pending.clone(),
        passed: None,
        schedules: None,
        delay: None,
        max_runs: definition.spec.shape.max_runs,
        not_while: definition.spec.not_while.clone(),
        after: definition.spec.schedule.parents().map_or_else(String::new, Parents::stored),
        notify: notify_words(&definition.spec, name),
        unique: None,
        old_key: None,
        old_gates: Vec::new(),
        gated: definition.spec.gated_entry(name, &record.lane),
    };
    match node.store.apply_job(&order).await {
        Ok(ApplyReply::Updated) => {
            let next = next.map_or_else(|| "none".to_owned(), |at| at.to_string());
            info!(job = %name, from = %from, to = next, "The next run of the job was moved, because the time zone data of this host changed.");
        }
        // Another client changed the job, and its next run was computed with the present zone data.
        Ok(_) => {}
        Err(error) if error.is_passing() => return Err(error),
        Err(error) => warn!(job = %name, "The next run of the job was not moved: {error}."),
    }
    Ok(())
}
