//! Handles due entries that cannot be claimed. A run without a job record is cancelled, and an
//! entry that is not a valid run goes to quarantine.

use tracing::{error, info};

use super::Claimer;
use crate::engine::dispatch::dispatcher::ClaimReport;
use crate::engine::dispatch::due_entry::well_formed;
use crate::engine::dispatch::orphans;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{DueEntry, Quarantined, StoreError};

impl Claimer {
    /// Cancels the run of an entry whose job has no record. If the run cannot be cancelled, the
    /// entry goes to quarantine.
    pub(super) async fn end_orphan(
        &self,
        lane: &Lane,
        entry: &DueEntry,
        report: &mut ClaimReport,
    ) -> Result<(), StoreError> {
        if let Ok((run, _)) = well_formed(entry)
            && orphans::end_orphan(&self.node.store, &run).await?
        {
            report.done += 1;
            self.node.counters.runs_ended(lane.queue(), RunState::Cancelled, 1);
            info!(run = %run, "The run was cancelled, because its job was removed and has no record any more.");
            return Ok(());
        }
        self.set_aside(lane, entry, "the job of the run is unknown", report).await
    }

    /// Moves an entry to quarantine, for the reason `why`. If Redis refuses the move, the entry
    /// stays in the due set and the error is logged.
    pub(crate) async fn set_aside(
        &self,
        lane: &Lane,
        entry: &DueEntry,
        why: &str,
        report: &mut ClaimReport,
    ) -> Result<(), StoreError> {
        match self.node.store.quarantine_run(lane, entry, why).await {
            Ok(Quarantined::Kept) => {
                report.done += 1;
                error!(queue = %lane, entry = ?entry.member, "An invalid entry of this queue was moved to quarantine: {why}.");
                Ok(())
            }
            Ok(Quarantined::Dropped) => {
                report.done += 1;
                let (entry, score) = (&entry.member, &entry.score);
                error!(queue = %lane, entry = ?entry, score, "An invalid entry of this queue was deleted ({why}), because quarantine is full. Only this line records the entry.");
                Ok(())
            }
            // Another node already moved the entry.
            Ok(Quarantined::Gone) => {
                report.left += 1;
                Ok(())
            }
            Err(error) if error.is_passing() => Err(error),
            Err(error) => {
                self.node.outage_log.failed(&error, "invalid entries are not moved to quarantine");
                report.left += 1;
                Ok(())
            }
        }
    }
}
