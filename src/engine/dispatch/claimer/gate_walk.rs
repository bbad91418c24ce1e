//! Searches a lane for due runs by the first gate of each run. Only gates that few jobs name are
//! searched.
//!
//! Many due runs of one gate do not slow this search, because the search skips to the next gate.
//!
//! Invariant: no run is taken before an earlier planned or open run of its gate. A manual run has
//! no place in this order, so another run may overtake it once.

use tracing::debug;

use super::Claimer;
use super::blocked_walk::Walk;
use crate::domain::job::job_spec::gated_entry;
use crate::domain::name::names::JobName;
use crate::domain::queue::lane::Lane;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::dispatch::definition::Definition;
use crate::engine::dispatch::due_entry::well_formed;
use crate::store::{PlannedAtGate, RipeEntry, StoreError};

/// The number of jobs with gates examined in one call.
const JOBS: usize = 250;
/// The most jobs that may name a gate whose first due run is searched job by job. If more jobs
/// name the gate, the walk through the lane finds that run.
const FEW_JOBS: usize = 100;

impl Claimer {
    /// Returns the first few due runs of each gate that few jobs name, at most `most`. Each call
    /// goes on after the last gate of the previous call.
    pub(super) async fn choose_by_gate(
        &self,
        lane: &Lane,
        walk: &mut Walk,
        most: usize,
        now: UnixMillis,
    ) -> Result<Vec<RipeEntry>, StoreError> {
        let store = &self.node.store;
        let gated = store.list_gated(lane, walk.after_gate.as_ref(), JOBS, FEW_JOBS).await?;
        walk.after_gate = gated.last;
        let jobs: Vec<JobName> = gated.gates.iter().flat_map(|(_, jobs)| jobs).cloned().collect();
        let mut planned = store.list_planned(lane, &jobs, now).await?.into_iter();
        let (mut chosen, mut gone) = (Vec::new(), Vec::new());
        for (gate, jobs) in gated.gates {
            let (mut ripe, mut is_clear) = (Vec::new(), true);
            for (job, planned) in jobs.into_iter().zip(planned.by_ref()) {
                match planned {
                    PlannedAtGate::Ripe(entries) => ripe.extend(entries),
                    PlannedAtGate::Gone => {
                        let entry = gated_entry(&job, lane, &gate);
                        gone.push((job, entry));
                    }
                    PlannedAtGate::Unclear => is_clear = false,
                }
            }
            let mut ripe: Vec<(i64, RipeEntry)> =
                ripe.into_iter().filter_map(|entry| Some((well_formed(&entry).ok()?.1, entry))).collect();
            ripe.sort_by(|(ready, a), (other, b)| (ready, &a.member).cmp(&(other, &b.member)));
            for (_, entry) in ripe.into_iter().filter(|_| is_clear) {
                if chosen.len() < most && walk.may_take(gate.clone(), &entry) {
                    chosen.push(entry);
                }
            }
        }
        store.unlist_gated(&gone).await?;
        Ok(chosen)
    }

    /// Removes one-shot jobs from the list of jobs with gates. The run of each of these jobs was
    /// claimed, or waits at its gate.
    pub(super) async fn unlist_gated(&self, lane: &Lane, judged: &[(JobName, String)]) {
        // If this fails, the entry is removed when a search meets it, or when its job is forgotten.
        if let Err(error) = self.node.store.unlist_gated(judged).await {
            debug!(%lane, %error, "Jobs that have run stay listed with their gates.");
        }
    }
}

/// Returns the entry under which a one-shot job is listed with its first gate.
pub(super) fn entry_of_once(definition: &Definition, lane: &Lane) -> Option<(JobName, String)> {
    let entry = definition.spec.gated_entry(&definition.record.name, lane).filter(|_| definition.record.is_once)?;
    Some((definition.record.name.clone(), entry))
}
