//! The claims of the runs that this node handed to workers.
//!
//! A report that such a run is done, or that its work goes on, needs no reading of the run's record.
//! Any other node reads the record, so a worker may report to any node.
//!
//! Invariant: a claim here may be outdated. Then the scripts refuse what is reported by it, and the
//! report is answered from the record.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::run_report::{Report, ReportedRun};
use super::worker_ask::WorkerAsk;
use crate::engine::dispatch::definition::Definition;
use crate::engine::recovery::loss::loss_watch::LossQuestion;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::Claim;

/// The most claims that are remembered. When there are more, all are forgotten.
const MOST: usize = 5_000;
/// The largest definition of a job whose claims are remembered, in bytes.
pub(super) const MOST_DEFINITION: usize = 4 * 1024;

/// The claims of the runs that this node handed to workers, until their ends are reported.
#[derive(Default)]
pub(super) struct HandedClaims(Mutex<HashMap<RunId, HandedClaim>>);

/// The claim of a run that this node handed to a worker.
#[derive(Clone)]
pub(super) struct HandedClaim {
    pub(super) claim: Claim,
    /// The definition of the job at the claim.
    pub(super) definition: Arc<Definition>,
    pub(super) ask: Arc<WorkerAsk>,
    /// The instant at which the claim was sent to Redis.
    pub(super) sent: BootInstant,
    /// Which data in Redis the node had accepted as its own at the claim. After a data loss or a
    /// failover the node accepts other data, and the claim is not used any more.
    pub(super) known: LossQuestion,
}

impl HandedClaim {
    /// Returns the time by the clock of Redis, or a later time if the claim was repeated.
    pub(super) fn now(&self) -> UnixMillis {
        self.claim.claimed_at.saturating_add(BootInstant::now().since(self.sent))
    }

    /// Returns true if `report` can be recorded without a look at the record of the run.
    pub(super) fn suffices_for(&self, report: &Report) -> bool {
        match report {
            // The clock of Redis decides whether the attempt has taken too long.
            Report::Alive { .. } => {
                self.now().since(self.claim.claimed_at) <= self.definition.spec.timeout
            }
            // Redis stores output before the end, and does not ask then if the attempt goes on.
            Report::Complete { output } => output.is_empty() && self.claim.may_be_plain(),
            Report::Fail { .. } | Report::Release { .. } => false,
        }
    }
}

impl HandedClaims {
    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, HandedClaim>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, handed: HandedClaim) {
        let mut kept = self.lock();
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(handed.claim.run.clone(), handed);
    }

    /// Adds a claim. A claim of the same run that is remembered already stays.
    pub(super) fn add_again(&self, handed: HandedClaim) {
        self.lock().entry(handed.claim.run.clone()).or_insert(handed);
    }

    /// Returns the claims whose attempts took longer than their timeouts and `more`. A report about
    /// such an attempt forgets its claim.
    pub(super) fn overdue(&self, more: Duration) -> Vec<HandedClaim> {
        let is_over = |handed: &&HandedClaim| {
            let most = handed.definition.spec.timeout.saturating_add(more);
            handed.now().since(handed.claim.claimed_at) > most
        };
        self.lock().values().filter(is_over).cloned().collect()
    }

    /// Returns the claim that `report` proves to have. Forgets it if the report ends the attempt, so
    /// that a repeated report is answered from the record of the run.
    pub(super) fn claim_for(&self, report: &ReportedRun) -> Option<HandedClaim> {
        let mut kept = self.lock();
        let handed = kept.get(&report.run)?;
        if handed.claim.fence != report.token.fence || handed.ask.id != report.token.ask {
            return None;
        }
        if matches!(report.report, Report::Alive { .. }) {
            return Some(handed.clone());
        }
        kept.remove(&report.run)
    }
}
