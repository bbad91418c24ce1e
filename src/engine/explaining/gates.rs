//! The gate a run waits at, or was let in at, as far as it tells why the run does not begin.

use super::{Known, live, there};
use crate::domain::explain::{AtGate, Passed};
use crate::domain::gate::Gate;
use crate::domain::group::{GroupSettings, Shut, Turns};
use crate::domain::ids::{GroupName, JobName, RunId};
use crate::domain::lane::Lane;
use crate::domain::serving::{Serving, Unserved};
use crate::domain::time::UnixMillis;
use crate::store::{GroupStanding, LetIn, RunRecord, Store, StoreError};

/// Until when time alone keeps a group shut that stands so.
pub async fn shut(store: &Store, group: &GroupName, standing: &GroupStanding, now: UnixMillis) -> Result<Shut, StoreError> {
    let is_free = standing.held.is_empty() && standing.let_in.is_empty();
    let GroupSettings::Alternate(turns) = store.read_group(group).await? else { return Ok(Shut::default()) };
    if !is_free || standing.waiting == 0 {
        return Ok(Shut::default());
    }
    let gap = turns.gap_over(standing.last_ended, now).map(|over| (turns.gap, over));
    let patience = match &standing.turn {
        Some((turn, since)) if is_awaited(store, group, &turns, turn, now).await? => {
            Some((turns.patience, since.saturating_add(turns.patience))).filter(|(_, over)| *over > now)
        }
        _ => None,
    };
    Ok(Shut { gap, patience })
}

/// Whether the turn waits for a member: none of it waits, and one is open or comes in time. As `open_gate.lua` judges it, but for
/// what stands in lanes.
async fn is_awaited(
    store: &Store,
    group: &GroupName,
    turns: &Turns,
    member: &JobName,
    now: UnixMillis,
) -> Result<bool, StoreError> {
    if !turns.order.contains(member) || store.has_queued(&Gate::of_group(group), member).await? {
        return Ok(false);
    }
    let Ok(Some(job)) = store.read_job(member).await else { return Ok(false) };
    let in_time = |run: &RunId| run.due() <= now.saturating_add(turns.patience);
    let is_planned = job.is_live() && job.paused_at.is_none() && job.pending.as_ref().is_some_and(in_time);
    Ok(is_planned || store.list_open(member).await?.iter().any(in_time))
}

impl Known<'_> {
    /// A gate where a run waits.
    pub(super) async fn waits_at(&self, run: &RunId, lane: &Lane, gate: &Gate) -> Result<AtGate, StoreError> {
        let standing = match gate.group() {
            Some(group) => self.store.read_group_standings(std::slice::from_ref(&group)).await?.pop().map(|found| (group, found)),
            None => None,
        };
        let shut = match &standing {
            Some((group, standing)) => shut(self.store, group, standing, self.now).await?,
            None => Shut::default(),
        };
        let turn = standing.and_then(|(_, standing)| standing.turn).map(|(job, _)| job.to_string()).filter(|job| !job.is_empty());
        let holder = self.store.read_holder(gate).await?;
        let stuck = match &holder {
            None => self.store.read_stuck(gate, run).await?.filter(|(_, until)| *until > self.now),
            Some(_) => None,
        };
        let hindrance = match (&holder, &stuck) {
            (Some((run, false)), _) | (None, Some((run, _))) => Box::pin(self.hindrance(run)).await?,
            _ => None,
        };
        let rate = self.understood().and_then(|job| job.spec.per_key.rate);
        let rate = match rate.filter(|_| gate.is_of_key()) {
            Some(rate) => self.store.read_key_opens(gate, rate).await?.filter(|at| *at > self.now).map(|at| (rate, at)),
            None => None,
        };
        let serving = self.serving().await?;
        let unserved = Unserved::of(lane, &serving).map(|why| (lane.clone(), why));
        let lanes = self.store.read_waiting_lanes(std::slice::from_ref(gate)).await?.pop().unwrap_or_default();
        let is_before = |other: &Lane, first: &RunId| {
            other != lane
                && (first.due(), first.to_string()) < (run.due(), run.to_string())
                && Unserved::of(other, &serving).is_some()
        };
        let passed_over = lanes.into_iter().filter(|(other, first)| is_before(other, first)).map(|(other, _)| other).collect();
        Ok(AtGate { gate: gate.words(), turn, shut, holder, stuck, hindrance, rate, unserved, passed_over, until: None })
    }

    /// What the nodes that are there serve.
    async fn serving(&self) -> Result<Vec<Serving>, StoreError> {
        let (now, present) = self.store.list_nodes().await?;
        Ok(there(&present, now).into_iter().map(|node| node.serving.clone()).collect())
    }

    /// Whether a run has ended, or nothing is kept of it. A spoilt record is the doctor's.
    pub(super) async fn is_over(&self, run: &RunId) -> Result<bool, StoreError> {
        match self.store.read_run(run).await {
            Ok(record) => Ok(record.is_none_or(|record| record.state.is_final())),
            Err(error) if error.is_passing() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Why a run that was let in has not begun.
    pub(super) async fn hindrance(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        let Ok(Some(record)) = self.store.read_run(run).await else { return Ok(None) };
        if let Some(gate) = self.store.standing(run, &record.lane, &record.places).await?.gate {
            return Ok(Some(format!("it waits for its place at {}", gate.words())));
        }
        let (now, present) = self.store.list_nodes().await?;
        live::hindrance(self.store, &record.lane, &there(&present, now)).await
    }

    /// The gate where a run in its queue was let in: one where it gave its place up before one where it has it.
    pub(super) async fn passed(&self, record: &RunRecord) -> Result<Option<Passed>, StoreError> {
        let places = self.store.read_let_in(&record.run, &record.places).await?;
        let mut found: Vec<(&Gate, LetIn)> =
            record.places.iter().zip(places).filter_map(|(gate, place)| Some((gate, place?))).collect();
        found.sort_by_key(|(_, place)| *place != LetIn::GaveUp);
        let Some((gate, place)) = found.first() else { return Ok(None) };
        let (since, holder) = match place {
            LetIn::Since(since) => (Some(*since), None),
            LetIn::GaveUp => (None, self.store.read_holder(gate).await?),
        };
        let unserved = Unserved::of(&record.lane, &self.serving().await?).map(|_| record.lane.clone());
        Ok(Some(Passed { gate: gate.words(), since, holder, unserved }))
    }
}
