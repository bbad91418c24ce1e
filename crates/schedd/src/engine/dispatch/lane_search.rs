//! Searches a lane for runs that may start although blocked runs come before them.
//!
//! A run whose gate has no free place is blocked, and a claim moves the run from its lane to the
//! gate. Many due runs of one gate may come before a run of another gate. So two searches follow
//! when a claim found blocked runs:
//! - The first search looks up the runs of each gate that only a few jobs name. Many due runs of
//!   one gate do not slow it down, because it continues with the next gate.
//! - The second search reads the lane from a remembered position, and takes the first few runs of
//!   each gate.
//!
//! Invariant: no run is returned for a claim before an earlier planned or open run of its gate. The
//! exception is a manual run, which another run may overtake once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::dispatcher::FoundBehind;
use super::dispatcher::walk_progress::LaneWalk;
use super::due_entry::well_formed;
use crate::engine::node_context::NodeContext;
use crate::engine::status::node_health::NodeHealth;
use schedd_core::config::first_gate_in;
use schedd_core::domain::job::job_spec::gated_entry;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{DueEntry, PlannedAtGate, StoreError};

/// The number of entries read in one call. With so few entries, other clients of Redis wait only
/// some milliseconds.
const PAGE: usize = 250;
/// The number of jobs with gates examined in one call.
const JOBS: usize = 250;
/// The most jobs of a gate for which the first search looks up runs. The runs of a gate with more
/// jobs are found by the second search.
const FEW_JOBS: usize = 100;

/// The search of a lane past the blocked runs at its head.
pub(crate) struct LaneSearch {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) health: Arc<NodeHealth>,
}

/// The limits of one search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchBounds {
    /// The most runs to return.
    pub(crate) most: usize,
    /// The instant at which the search stops. The next call continues the search.
    pub(crate) until: BootInstant,
    /// The present time by Redis' clock.
    pub(crate) now: UnixMillis,
}

impl LaneSearch {
    /// Returns due runs past the blocked head of `lane`, and the new progress of the search.
    pub(crate) async fn search(
        &self,
        lane: &Lane,
        mut walk: LaneWalk,
        bounds: SearchBounds,
    ) -> Result<(LaneWalk, FoundBehind), StoreError> {
        // Once the second search has read the whole lane, it also finds runs that become due later.
        // The first search is then not needed.
        if !walk.is_by_entries && walk.arrived.is_none() {
            let runs = self.choose_by_gate(lane, &mut walk, bounds.most, bounds.now).await?;
            if !runs.is_empty() {
                return Ok((walk, FoundBehind { runs, is_by_gate: true }));
            }
        }
        let (walk, runs) = self.walk_on(lane, walk, bounds.most, bounds.until).await?;
        Ok((walk, FoundBehind { runs, is_by_gate: false }))
    }

    /// Returns at most `most` due runs: the first few of each gate that only a few jobs name. Each
    /// call continues after the last gate of the previous call.
    async fn choose_by_gate(
        &self,
        lane: &Lane,
        walk: &mut LaneWalk,
        most: usize,
        now: UnixMillis,
    ) -> Result<Vec<DueEntry>, StoreError> {
        let store = &self.node.store;
        let gated = store.list_job_gates(lane, walk.after_gate.as_ref(), JOBS, FEW_JOBS).await?;
        walk.after_gate = gated.last;
        let jobs: Vec<JobName> = gated.gates.iter().flat_map(|(_, jobs)| jobs).cloned().collect();
        let mut planned = store.list_planned(lane, &jobs, now).await?.into_iter();
        let (mut chosen, mut gone) = (Vec::new(), Vec::new());
        for (gate, jobs) in gated.gates {
            let (mut due_run, mut is_clear) = (Vec::new(), true);
            for (job, planned) in jobs.into_iter().zip(planned.by_ref()) {
                match planned {
                    PlannedAtGate::DueRun(entries) => due_run.extend(entries),
                    PlannedAtGate::Gone => {
                        let entry = gated_entry(&job, lane, &gate);
                        gone.push((job, entry));
                    }
                    PlannedAtGate::Unclear => is_clear = false,
                }
            }
            let mut due_run: Vec<(i64, DueEntry)> = due_run
                .into_iter()
                .filter_map(|entry| Some((well_formed(&entry).ok()?.1, entry)))
                .collect();
            due_run.sort_by(|(ready, a), (other, b)| (ready, &a.member).cmp(&(other, &b.member)));
            for (_, entry) in due_run.into_iter().filter(|_| is_clear) {
                if chosen.len() < most && walk.may_take(gate.clone(), &entry) {
                    chosen.push(entry);
                }
            }
        }
        store.unlist_job_gates(&gone).await?;
        Ok(chosen)
    }

    async fn walk_on(
        &self,
        lane: &Lane,
        mut walk: LaneWalk,
        most: usize,
        until: BootInstant,
    ) -> Result<(LaneWalk, Vec<DueEntry>), StoreError> {
        let mut chosen = Vec::new();
        let mut at = walk.after.clone();
        loop {
            self.health.progress.ticker.back_within(Duration::ZERO);
            let began = BootInstant::now();
            let Some(entries) = self.node.store.list_behind(lane, at.as_deref(), PAGE).await?
            else {
                // The entry of the remembered position is gone, so the search starts again.
                return Ok((LaneWalk::default(), chosen));
            };
            let is_last = entries.len() < PAGE;
            at = entries.last().map(|entry| entry.member.clone());
            walk.choose(self.with_gates(entries).await?, &mut chosen, most);
            let now = BootInstant::now();
            walk.spent += now.since(began);
            if is_last && chosen.len() < most {
                walk.arrived = walk.arrived.or(Some(now));
            }
            if is_last || chosen.len() == most || now >= until {
                return Ok((walk, chosen));
            }
        }
    }

    /// Returns each entry with the first gate that its run must pass. A job without gates counts as
    /// its own gate. An invalid entry has no gate, and is left to the normal poll.
    async fn with_gates(
        &self,
        entries: Vec<DueEntry>,
    ) -> Result<Vec<(DueEntry, Option<Gate>)>, StoreError> {
        let runs: Vec<Option<JobName>> = entries
            .iter()
            .map(|entry| well_formed(entry).ok().map(|(run, _)| run.job().clone()))
            .collect();
        let jobs: Vec<JobName> =
            runs.iter().flatten().cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let texts = self.node.store.read_definitions(&jobs).await?;
        let gate = |(job, text): (&JobName, Option<String>)| {
            text.as_deref().and_then(first_gate_in).unwrap_or_else(|| Gate::of_job(job))
        };
        let gates: HashMap<&JobName, Gate> =
            jobs.iter().zip(jobs.iter().zip(texts).map(gate)).collect();
        Ok(entries
            .into_iter()
            .zip(&runs)
            .map(|(entry, job)| (entry, job.as_ref().and_then(|job| gates.get(job).cloned())))
            .collect())
    }
}
