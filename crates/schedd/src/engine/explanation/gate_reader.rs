//! Reads the gate at which a run waits or through which it passed, and the reason why a run at a
//! gate does not start.

use super::known_facts::Known;
use super::live_state;
use schedd_core::domain::explain::{AtGate, Passed};
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::group_rules::{GroupSettings, Shut, TurnRules};
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::lane_serving::{Serving, Unserved};
use schedd_schedule::names::{GroupName, JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{GroupStanding, LetIn, NodeRecord, RunRecord, Store, StoreError};

/// Returns the times until which the alternating group `group` lets no run in. One time comes from
/// its gap (the pause after a run), the other from its turn timeout. `standing` is the present
/// state of the group.
pub async fn shut(
    store: &Store,
    group: &GroupName,
    standing: &GroupStanding,
    now: UnixMillis,
) -> Result<Shut, StoreError> {
    let is_free = standing.holders.is_empty() && standing.let_in.is_empty();
    let GroupSettings::Alternate(turns) = store.read_group(group).await? else {
        return Ok(Shut::default());
    };
    if !is_free || standing.waiting == 0 {
        return Ok(Shut::default());
    }
    let gap = turns.gap_over(standing.last_ended, now).map(|over| (turns.gap, over));
    let turn_timeout = match &standing.turn {
        Some((turn, since)) if is_awaited(store, group, &turns, turn, now).await? => {
            Some((turns.turn_timeout, since.saturating_add(turns.turn_timeout)))
                .filter(|(_, over)| *over > now)
        }
        _ => None,
    };
    let not_before = standing.not_before.filter(|at| *at > now);
    Ok(Shut { gap, not_before, turn_timeout })
}

/// Returns true if the group waits for `member`: no run of this member waits at the gate, and a run
/// of the member is open or due soon. The rule is that of `open_gate.lua`, except that runs in
/// lanes do not count.
async fn is_awaited(
    store: &Store,
    group: &GroupName,
    turns: &TurnRules,
    member: &JobName,
    now: UnixMillis,
) -> Result<bool, StoreError> {
    if !turns.order.contains(member) || store.has_queued(&Gate::of_group(group), member).await? {
        return Ok(false);
    }
    let Ok(Some(job)) = store.read_job(member).await else { return Ok(false) };
    let in_time = |run: &RunId| run.due() <= now.saturating_add(turns.turn_timeout);
    let is_planned =
        job.is_live() && job.paused_at.is_none() && job.pending.as_ref().is_some_and(in_time);
    Ok(is_planned || store.list_open(member).await?.iter().any(in_time))
}

impl Known<'_> {
    /// Returns the facts about the gate `gate` at which `run` waits, such as the holders of its
    /// places.
    pub(super) async fn waits_at(
        &self,
        run: &RunId,
        lane: &Lane,
        gate: &Gate,
    ) -> Result<AtGate, StoreError> {
        let standing = async {
            let Some(group) = gate.group() else { return Ok(None) };
            let found = self.store.read_group_standings(std::slice::from_ref(&group)).await?.pop();
            let Some(found) = found else { return Ok(None) };
            let shut = shut(self.store, &group, &found, self.now).await?;
            Ok(Some((
                shut,
                found.turn.map(|(job, _)| job.to_string()).filter(|job| !job.is_empty()),
            )))
        };
        let rate = async {
            let rate = self
                .understood()
                .and_then(|job| job.spec.per_key.rate)
                .filter(|_| gate.is_of_key());
            let Some(rate) = rate else { return Ok(None) };
            Ok(self
                .store
                .read_key_opens(gate, rate)
                .await?
                .filter(|at| *at > self.now)
                .map(|at| (rate, at)))
        };
        let gates = std::slice::from_ref(gate);
        let (standing, rate, holder, mut lanes) = tokio::try_join!(
            standing,
            rate,
            self.store.read_holder(gate),
            self.store.read_waiting_lanes(gates)
        )?;
        let (shut, turn) = standing.unwrap_or_default();
        let stuck = match &holder {
            None => self.store.read_stuck(gate, run).await?.filter(|(_, until)| *until > self.now),
            Some(_) => None,
        };
        let hindrance = match (&holder, &stuck) {
            (Some((run, false)), _) | (None, Some((run, _))) => {
                Box::pin(self.hindrance(run)).await?
            }
            _ => None,
        };
        let serving = self.serving();
        let unserved = Unserved::of(lane, &serving).map(|why| (lane.clone(), why));
        let lanes = lanes.pop().unwrap_or_default();
        let is_before = |other: &Lane, first: &RunId| {
            other != lane
                && (first.due(), first.to_string()) < (run.due(), run.to_string())
                && Unserved::of(other, &serving).is_some()
        };
        let passed_over = lanes
            .into_iter()
            .filter(|(other, first)| is_before(other, first))
            .map(|(other, _)| other)
            .collect();
        Ok(AtGate {
            gate: gate.words(),
            turn,
            shut,
            holder,
            stuck,
            hindrance,
            rate,
            unserved,
            passed_over,
            until: None,
        })
    }

    /// Returns the queues and labels that each running node serves.
    pub(super) fn serving(&self) -> Vec<Serving> {
        self.nodes.iter().flat_map(NodeRecord::servings).collect()
    }

    /// Returns true if the run has ended or has no record. Returns false for an unreadable record,
    /// which `schedctl doctor` reports.
    pub(super) async fn is_over(&self, run: &RunId) -> Result<bool, StoreError> {
        match self.record_of(run).await {
            Ok(record) => Ok(record.is_none_or(|record| record.state.is_final())),
            Err(error) if error.is_passing() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Returns the reason why `run`, which has a place at a gate, has not started. Returns `None`
    /// if a node may start the run at any moment.
    pub(super) async fn hindrance(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        let Ok(Some(record)) = self.record_of(run).await else { return Ok(None) };
        if let Some(gate) = self.store.standing(run, &record.lane, &record.places).await?.gate {
            return Ok(Some(format!("that run waits for a place at {}", gate.words())));
        }
        live_state::hindrance(self.store, &record.lane, &self.nodes).await
    }

    /// Returns the gate through which a due run passed, or `None` if it passed no gate. A gate
    /// where the run gave up its place again is preferred to a gate where the run still has its
    /// place. The field `unserved` is `None`, and the caller sets it.
    pub(super) async fn passed(&self, record: &RunRecord) -> Result<Option<Passed>, StoreError> {
        let places = self.store.read_let_in(&record.run, &record.places).await?;
        let mut found: Vec<(&Gate, LetIn)> = record
            .places
            .iter()
            .zip(places)
            .filter_map(|(gate, place)| Some((gate, place?)))
            .collect();
        found.sort_by_key(|(_, place)| *place != LetIn::GaveUp);
        let Some((gate, place)) = found.first() else { return Ok(None) };
        let (since, holder) = match place {
            LetIn::Since(since) => (Some(*since), None),
            LetIn::GaveUp => (None, self.store.read_holder(gate).await?),
        };
        Ok(Some(Passed { gate: gate.words(), since, holder, unserved: None }))
    }
}
