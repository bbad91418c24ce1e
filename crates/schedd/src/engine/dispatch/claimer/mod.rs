//! Decides about due runs, and claims the runs that are to start.
//!
//! - [`claim_plan`] decides about each run, and makes the claim order
//! - [`missed_runs`] skips or spreads missed runs
//! - [`claim_call`] sends the claim
//! - [`quarantine_step`] cancels orphaned runs, and moves invalid entries to quarantine
//!
//! Invariants:
//! - Each claimed run is started. No step that can fail comes between the answer to a claim and the
//!   start of its runs.
//! - A claim without an answer is repeated with the same token for as long as its lease would still
//!   be usable.

mod claim_call;
mod claim_plan;
mod missed_runs;
mod quarantine_step;

use std::sync::Arc;

use tracing::{debug, error};

use super::abandoned_claims::AbandonedClaims;
use super::definition::Definition;
use super::definitions::{Definitions, ZoneReadings};
use super::dispatcher::run_hints::RunHints;
use super::dispatcher::{ClaimBatch, ClaimReport, FoundQueue};
use super::due_entry::{DueRun, well_formed};
use super::slots::ROUND;
use crate::engine::node_context::NodeContext;
use crate::engine::recovery::loss::loss_watch::LossWatch;
use crate::engine::status::node_counters::ClaimOutcome;
use crate::engine::status::node_health::NodeHealth;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    Blocking, Claim, ClaimOrder, ClaimReply, Claimant, DueEntry, RunRecord, StoreError,
};

/// The part of dispatch that decides about due runs and claims those that are to start.
pub(crate) struct Claimer {
    node: Arc<NodeContext>,
    loss_watch: Arc<LossWatch>,
    abandoned: Arc<AbandonedClaims>,
    health: Arc<NodeHealth>,
    definitions: Definitions,
    /// The owner of the next claims.
    party: ClaimParty,
}

/// The owner of claims: the claimant that is recorded with them, and the receiver of the runs.
pub(crate) struct ClaimParty {
    pub(crate) claimant: Claimant,
    /// The token of all claim calls. `None` gives each call a token of its own.
    pub(crate) token: Option<String>,
    pub(crate) starter: Arc<dyn StartClaimed>,
}

/// The receiver of claimed runs.
pub(crate) trait StartClaimed: Send + Sync {
    /// Starts the run of `claim`, which was sent to Redis at `sent`. Neither waits nor fails.
    fn start_claimed(self: Arc<Self>, definition: Arc<Definition>, claim: Claim, sent: BootInstant);
}

/// A due run that is to start. Its order to claim it is in a list of its own, as a call takes it.
struct Planned {
    due_run: DueRun,
    definition: Arc<Definition>,
}

/// The entries and jobs that need another step after the claimed runs have started.
#[derive(Default)]
struct Leftovers {
    /// The runs whose job is not known.
    orphans: Vec<DueEntry>,
    /// The entries that go to quarantine, each with the reason as text.
    aside: Vec<(DueEntry, &'static str)>,
    /// The one-shot jobs to remove from the list of jobs with gates, each with its entry in that
    /// list.
    unlisted: Vec<(JobName, String)>,
}

impl Claimer {
    pub(crate) fn new(
        node: Arc<NodeContext>,
        loss_watch: Arc<LossWatch>,
        abandoned: Arc<AbandonedClaims>,
        health: Arc<NodeHealth>,
        readings: Arc<ZoneReadings>,
        starter: Arc<dyn StartClaimed>,
    ) -> Self {
        let claimant = Claimant {
            holder: node.settings.node.to_string(),
            incarnation: node.settings.incarnation.clone(),
            lease: node.settings.lease,
            claim_note: None,
        };
        let definitions = Definitions::new(node.clone(), readings);
        let party = ClaimParty { claimant, token: None, starter };
        Self { node, loss_watch, abandoned, health, definitions, party }
    }

    /// Makes `party` the owner of the next claims.
    pub(crate) fn claim_for(&mut self, party: ClaimParty) {
        self.party = party;
    }

    /// Returns the cache of job definitions.
    pub(crate) fn definitions(&mut self) -> &mut Definitions {
        &mut self.definitions
    }

    /// Reads the definitions of the jobs whose runs a poll found, in one call instead of one for each
    /// claim. A claim reads those that are still missing, and reports why. At most `ROUND` are read,
    /// because definitions may be large.
    pub(crate) async fn read_definitions(&mut self, found: &[FoundQueue]) {
        let entries = found.iter().flat_map(|queue| &queue.lanes).flat_map(|(_, entries)| entries);
        let runs: Vec<RunId> =
            entries.take(ROUND).filter_map(|entry| Some(well_formed(entry).ok()?.0)).collect();
        if let Err(error) = self.definitions.read_missing(runs.iter().map(RunId::job)).await {
            debug!(%error, "The definitions of due jobs could not be read before the claims.");
        }
    }

    /// Logs that a key of a lane, or of the lane's queue, has the wrong type.
    pub(crate) fn report_wrong_type(&self, lane: &Lane, error: &StoreError) {
        if self.node.outage_log.is_new(&format!("bad lane {lane}")) {
            error!(queue = %lane, "{error}. No run of this lane starts until the key is repaired (schedctl doctor).");
        }
    }

    /// Decides about the runs of `batch` at `now`, claims the runs that are to start, and starts
    /// the claimed runs. Adds the result to `report`, even if an error is returned.
    pub(crate) async fn claim(
        &mut self,
        batch: ClaimBatch,
        now: UnixMillis,
        hints: &mut RunHints,
        report: &mut ClaimReport,
    ) -> Result<(), StoreError> {
        let ClaimBatch { lane, runs, slots } = batch;
        let (planned, orders) = self.decide(&lane, runs, now, hints, report).await?;
        if planned.is_empty() {
            return Ok(());
        }
        let sent = BootInstant::now();
        let replies = self.send(&lane, slots, &orders).await?;
        report.judged += replies.len();
        let mut leftovers = Leftovers::default();
        for ((planned, order), reply) in planned.into_iter().zip(&orders).zip(replies) {
            if matches!(reply, ClaimReply::Claimed(_) | ClaimReply::Blocked(_)) {
                leftovers.unlisted.extend(gated_entry_of_once(&planned.definition, &lane));
            }
            self.count(&lane, &planned, &reply, now);
            self.receive((planned, order), reply, sent, hints, report, &mut leftovers);
        }
        self.unlist_job_gates(&lane, &leftovers.unlisted).await;
        for entry in leftovers.orphans {
            self.end_orphan(&lane, &entry, report).await?;
        }
        for (entry, why) in leftovers.aside {
            self.set_aside(&lane, &entry, why, report).await?;
        }
        Ok(())
    }

    /// Counts the reply of Redis to the claim of one run of `lane` at `now`. If the run has ended,
    /// counts the run and sends its span.
    fn count(&self, lane: &Lane, planned: &Planned, reply: &ClaimReply, now: UnixMillis) {
        let outcome = match reply {
            ClaimReply::Claimed(_) => ClaimOutcome::Claimed,
            ClaimReply::Blocked(_) => ClaimOutcome::Blocked,
            ClaimReply::Gone => ClaimOutcome::Gone,
            ClaimReply::NoRoom => ClaimOutcome::NoRoom,
            ClaimReply::Full => ClaimOutcome::NoSlot,
            ClaimReply::Stale
            | ClaimReply::Occupied
            | ClaimReply::NeedsOwnGate
            | ClaimReply::Places(_)
            | ClaimReply::Early => ClaimOutcome::Again,
            ClaimReply::JobMissing
            | ClaimReply::Unplanned
            | ClaimReply::BadState
            | ClaimReply::WrongType(_) => ClaimOutcome::Unusable,
        };
        self.node.counters.claims_answered(outcome, 1);
        let ended_in = match reply {
            ClaimReply::Blocked(Blocking::Skipped) => RunState::Skipped,
            ClaimReply::Blocked(Blocking::Cancelled) => RunState::Cancelled,
            ClaimReply::Blocked(Blocking::Failed) => RunState::Failed,
            _ => return,
        };
        self.node.counters.runs_ended(lane.queue(), ended_in, 1);
        self.node.traces.run_ended(Some(&planned.definition), || RunRecord {
            state: ended_in,
            finished_at: Some(now),
            ..RunRecord::planted(planned.due_run.run.clone(), lane.clone())
        });
    }

    /// Handles the reply of Redis to the claim of one run. Must not wait or fail, because later
    /// replies may contain claimed runs that must start.
    fn receive(
        &mut self,
        (planned, order): (Planned, &ClaimOrder),
        reply: ClaimReply,
        sent: BootInstant,
        hints: &mut RunHints,
        report: &mut ClaimReport,
        leftovers: &mut Leftovers,
    ) {
        let Planned { due_run, definition } = planned;
        match reply {
            ClaimReply::Claimed(claim) => {
                hints.forget_occupied(&due_run.run);
                self.loss_watch.journal().claimed(claim.fence.as_u64());
                // Most definitions are of one-shots, and the definition of a one-shot is not needed
                // after its claim.
                self.definitions.forget_once(due_run.run.job());
                self.party.starter.clone().start_claimed(definition, claim, sent);
                report.started += 1;
                report.done += 1;
            }
            // All slots were taken by earlier runs. A later poll returns this run again.
            ClaimReply::Full => {}
            ClaimReply::Stale => {
                self.definitions.forget(due_run.run.job());
                // By the new definition, the run may be the planned run of its job. So `is_owed` is
                // reset.
                report.again.push(DueRun { is_owed: false, ..due_run });
            }
            ClaimReply::Occupied => {
                if let Some(next) = &order.successor {
                    hints.note_occupied(&due_run.run, next.run.due());
                }
                report.again.push(due_run);
            }
            ClaimReply::NeedsOwnGate => {
                hints.note_excluded(due_run.run.job().clone());
                report.again.push(due_run);
            }
            ClaimReply::Places(gates) => {
                hints.note_gates(due_run.run.clone(), gates);
                report.again.push(due_run);
            }
            ClaimReply::JobMissing => leftovers.orphans.push(due_run.entry),
            ClaimReply::Unplanned => {
                leftovers.aside.push((due_run.entry, "the job does not plan this run"));
            }
            ClaimReply::BadState => {
                leftovers.aside.push((due_run.entry, "the record of the run has an unknown state"));
            }
            ClaimReply::WrongType(error) => {
                self.definitions.report_unusable(due_run.run.job(), &error.to_string());
                hints.refuse(due_run.run, BootInstant::now());
                report.left += 1;
            }
            ClaimReply::Blocked(how) => {
                debug!(run = %due_run.run, ?how, "The run does not start now, because it is blocked.");
                report.blocked += 1;
                report.done += 1;
            }
            ClaimReply::Gone => {
                self.definitions.forget_once(due_run.run.job());
                report.gone += 1;
                report.done += 1;
            }
            // The run stays in its lane. A poll returns the run again when its queue has room.
            ClaimReply::NoRoom => report.has_no_room = true,
            ClaimReply::Early => report.left += 1,
        }
    }

    /// Removes one-shot jobs whose runs were claimed, or wait at a gate, from the list of jobs with
    /// gates.
    async fn unlist_job_gates(&self, lane: &Lane, judged: &[(JobName, String)]) {
        // A failure is harmless: a later search, or the removal of the job, removes the entry.
        if let Err(error) = self.node.store.unlist_job_gates(judged).await {
            debug!(%lane, %error, "One-shot jobs that have started could not be removed from the list of jobs with gates.");
        }
    }
}

/// Returns the name of a one-shot job and its entry in the list of jobs with gates. Returns `None`
/// for a recurring job, or a job without gates.
fn gated_entry_of_once(definition: &Definition, lane: &Lane) -> Option<(JobName, String)> {
    let entry = definition
        .spec
        .gated_entry(&definition.record.name, lane)
        .filter(|_| definition.record.is_once)?;
    Some((definition.record.name.clone(), entry))
}
