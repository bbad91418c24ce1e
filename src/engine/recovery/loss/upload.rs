//! The restore orders that are made from the journal of this node.

use std::collections::HashMap;
use std::time::Duration;

use crate::domain::name::names::{Fence, RunId};
use crate::domain::run::run_state::RunState;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::node_context::NodeContext;
use crate::engine::recovery::journal::{ClaimedRun, EndedRun};
use crate::engine::recovery::restored_ends;
use crate::engine::recovery::restored_ends::Given;
use crate::store::{KnownRun, RestoreOrder, StoreError};

/// The margin before the time at which the data was last seen complete. Notices about ends before
/// this margin have already been sent.
const TOLD_WITHIN: Duration = Duration::from_secs(60);

/// Restores the facts in the journal, under `epoch`. The node last saw the data complete at
/// `whole_at`.
pub(super) async fn give_back(
    shared: &NodeContext,
    epoch: &str,
    whole_at: UnixMillis,
    now: UnixMillis,
) -> Result<Given, StoreError> {
    let failed = |run: &RunId, error: &StoreError| {
        shared.weather.failed(error, &format!("a run of job {} is not restored", run.job()));
    };
    let told_from = whole_at.saturating_sub(TOLD_WITHIN);
    let mut orders = orders(shared, epoch, now);
    for order in &mut orders {
        order.told_from = told_from;
    }
    restored_ends::give_back(&shared.store, &orders, failed).await
}

/// Restores the end of one run that Redis never received, and whose notices are still to be sent.
/// Returns true if Redis recorded the end.
pub(crate) async fn give_back_end(shared: &NodeContext, end: &EndedRun) -> Result<bool, StoreError> {
    let node = shared.settings.node.as_str();
    let Some(order) = ended_order(end, &shared.watch.epoch(), node) else { return Ok(false) };
    let failed = |run: &RunId, error: &StoreError| {
        shared.weather.failed(error, &format!("a run of job {} is not restored", run.job()));
    };
    Ok(restored_ends::give_back(&shared.store, &[order], failed).await?.restored > 0)
}

/// Returns restore orders for every run in the journal. The order of a run that ended more than
/// once has its last end. Ends older than the retention of history are left out.
fn orders(shared: &NodeContext, epoch: &str, now: UnixMillis) -> Vec<RestoreOrder> {
    let node = shared.settings.node.as_str();
    let max_age = shared.keeping().history.max_age;
    shared.watch.journal().with(|memory| {
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
    let lane: crate::domain::queue::lane::Lane = run.queue.parse().ok()?;
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
        told: 0,
        taken_from: None,
        in_ledger: None,
        told_from: UnixMillis::EPOCH,
        facts,
    })
}

fn claimed_order(run: &ClaimedRun, epoch: &str, node: &str, now: UnixMillis) -> Option<RestoreOrder> {
    let lane: crate::domain::queue::lane::Lane = run.queue.parse().ok()?;
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
        reason: format!("Redis lost the record of the start; the journal of {node} shows that the run started"),
        finished_at: now,
        fence: Fence::new(run.fence)?,
        planned: None,
        told: 0,
        taken_from: None,
        in_ledger: None,
        told_from: UnixMillis::EPOCH,
        facts: facts.map(|(field, value)| (field.to_owned(), value)).to_vec(),
    })
}
