//! Claims whose answer never came. If Redis carried out such a claim, its runs are leased to this
//! node, but this node never started these runs.
//!
//! Invariant: this node never executes a run that was claimed by a token noted here. So the run may
//! be given back as if it had never been claimed, even an at-most-once run. A token is noted only
//! when no caller waits for the answer to its claim any more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::name::names::RunId;
use crate::store::RunRecord;

/// The upper bound of remembered claims, counted once for each run of a claim. Past this bound all
/// claims are forgotten, and recovery takes care of their runs.
const MOST: usize = 10_000;

/// The claims whose answers this node no longer waits for.
#[derive(Default)]
pub(crate) struct AbandonedClaims {
    tokens: Mutex<HashMap<RunId, Vec<String>>>,
}

impl AbandonedClaims {
    fn tokens(&self) -> MutexGuard<'_, HashMap<RunId, Vec<String>>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that no caller waits any more for the answer to the claim of `runs` by `token`.
    pub(crate) fn note<'a>(&self, token: &str, runs: impl Iterator<Item = &'a RunId>) {
        let mut tokens = self.tokens();
        // Counted anew at each call: calls are rare, and one run may be claimed in vain many times.
        let mut known: usize = tokens.values().map(Vec::len).sum();
        for run in runs {
            if known >= MOST {
                tokens.clear();
                known = 0;
            }
            known += 1;
            tokens.entry(run.clone()).or_default().push(token.to_owned());
        }
    }

    /// Returns true if a claim of `run` is noted as abandoned. The record of `run` shows whether
    /// Redis carried out that claim.
    pub(crate) fn knows(&self, run: &RunId) -> bool {
        self.tokens().contains_key(run)
    }

    /// Returns the runs with an abandoned claim.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.tokens().keys().cloned().collect()
    }

    /// Returns true if an abandoned claim of this node took the lease in `record`.
    pub(crate) fn won(&self, record: &RunRecord) -> bool {
        let Some(claim) = &record.claim_token else { return false };
        self.tokens().get(&record.run).is_some_and(|tokens| tokens.contains(claim))
    }
}
