//! Makes requests to restore runs from the journal of this node, and sends them to Redis.

use std::collections::HashMap;
use std::time::Duration;

use crate::engine::node_context::NodeContext;
use crate::engine::recovery::journal::{ClaimedRun, EndedRun, Journal};
use crate::engine::recovery::loss::loss_watch::LossWatch;
use crate::engine::recovery::restored_ends;
use crate::engine::recovery::restored_ends::Given;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{Fence, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{KnownRun, RestoreOrder, StoreError};

/// The age from which the notices of a restored run count as sent. The age is the time from the end
/// of the run until this node last saw the data complete.
const REPORTED_WITHIN: Duration = Duration::from_secs(60);

/// Asks Redis to restore the runs of `orders`. The node last saw the data complete at `whole_at`.
pub(super) async fn give_back(
    node: &NodeContext,
    mut orders: Vec<RestoreOrder>,
    whole_at: UnixMillis,
) -> Result<Given, StoreError> {
    let failed = |run: &RunId, error: &StoreError| {
        node.outage_log.failed(error, &format!("a run of job {} is not restored", run.job()));
    };
    let notified_before = whole_at.saturating_sub(REPORTED_WITHIN);
    for order in &mut orders {
        order.notified_before = notified_before;
    }
    restored_ends::give_back(&node.store, &orders, failed).await
}

/// Restores the end of one run that Redis never received, including its notices. Returns true if
/// Redis recorded the end.
pub(crate) async fn give_back_end(
    node: &NodeContext,
    loss_watch: &LossWatch,
    end: &EndedRun,
) -> Result<bool, StoreError> {
    let Some(order) = ended_order(end, &loss_watch.epoch(), node.settings.node.as_str()) else {
        return Ok(false);
    };
    let failed = |run: &RunId, error: &StoreError| {
        node.outage_log.failed(error, &format!("a run of job {} is not restored", run.job()));
    };
    Ok(restored_ends::give_back(&node.store, &[order], failed).await?.restored > 0)
}

/// Returns a request to restore each run in the journal of `node`. `epoch` is the new epoch of the
/// data. If a run ended more than once, its last end is restored. Ends older than `max_age` are
/// left out.
pub(super) fn orders(
    journal: &Journal,
    node: &str,
    epoch: &str,
    now: UnixMillis,
    max_age: Duration,
) -> Vec<RestoreOrder> {
    journal.with(|memory| {
        let mut orders: HashMap<RunId, RestoreOrder> = HashMap::new();
        let ended = memory.ended().filter_map(|run| ended_order(run, epoch, node));
        let claimed = memory.claimed().filter_map(|run| claimed_order(run, epoch, node, now));
        for order in ended.chain(claimed) {
            if now.since(order.finished_at) < max_age {
                orders.insert(order.run.clone(), order);
            }
        }
        let mut orders: Vec<RestoreOrder> = orders.into_values().collect();
        orders.sort_by_key(|order| order.finished_at);
        orders
    })
}

fn ended_order(run: &EndedRun, epoch: &str, node: &str) -> Option<RestoreOrder> {
    let separator = if run.reason.is_empty() { "" } else { "; " };
    let lane: schedd_core::domain::queue::lane::Lane = run.queue.parse().ok()?;
    let mut facts = run.facts.clone();
    facts.push(("node".to_owned(), node.to_owned()));
    facts.push(("restored".to_owned(), node.to_owned()));
    Some(RestoreOrder {
        run: run.run.parse().ok()?,
        epoch: epoch.to_owned(),
        job_lane: None,
        lane,
        known: KnownRun::Ended,
        state: run.state.parse().ok().filter(|state: &RunState| state.is_final())?,
        reason: format!("{}{separator}restored by the journal of {node}", run.reason),
        finished_at: UnixMillis::new(run.ended_at)?,
        fence: Fence::new(run.fence)?,
        planned: None,
        ranges_mark: String::new(),
        taken_from: None,
        in_ledger: None,
        notified_before: UnixMillis::EPOCH,
        facts,
    })
}

fn claimed_order(
    run: &ClaimedRun,
    epoch: &str,
    node: &str,
    now: UnixMillis,
) -> Option<RestoreOrder> {
    let lane: schedd_core::domain::queue::lane::Lane = run.queue.parse().ok()?;
    let facts = [
        ("attempt", run.attempt.to_string()),
        ("started_at", run.at.to_string()),
        ("node", node.to_owned()),
        ("restored", node.to_owned()),
    ];
    Some(RestoreOrder {
        run: run.run.parse().ok()?,
        epoch: epoch.to_owned(),
        job_lane: None,
        lane,
        known: KnownRun::Claimed,
        state: RunState::Lost,
        reason: format!(
            "Redis lost the record of the start; the journal of {node} shows that the run started"
        ),
        finished_at: now,
        fence: Fence::new(run.fence)?,
        planned: None,
        ranges_mark: String::new(),
        taken_from: None,
        in_ledger: None,
        notified_before: UnixMillis::EPOCH,
        facts: facts.map(|(field, value)| (field.to_owned(), value)).to_vec(),
    })
}
