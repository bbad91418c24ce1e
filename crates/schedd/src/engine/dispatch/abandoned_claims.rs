//! Claims whose answer never came. If Redis carried out such a claim, its runs are leased to this
//! node, although this node never started these runs.
//!
//! A claim is recorded by its token, the id of the call to Redis. A token is recorded only when no
//! caller waits for the answer any more, and never for the question of a worker. Invariant: nobody
//! executes a run of a recorded claim. So even an at-most-once run may be given back as if it had
//! never been claimed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use schedd_schedule::names::RunId;
use schedd_store::RunRecord;

/// The most runs of abandoned claims that are remembered. A run counts once for each of its claims.
/// Above this number all abandoned claims are forgotten, and the recovery of expired leases takes
/// back their runs.
const MOST: usize = 10_000;

/// The claims for whose answers this node no longer waits.
#[derive(Default)]
pub(crate) struct AbandonedClaims {
    tokens: Mutex<HashMap<RunId, Vec<String>>>,
}

impl AbandonedClaims {
    fn tokens(&self) -> MutexGuard<'_, HashMap<RunId, Vec<String>>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that no caller waits any more for the answer to the claim of `runs` with `token`.
    pub(crate) fn note<'a>(&self, token: &str, runs: impl Iterator<Item = &'a RunId>) {
        let mut tokens = self.tokens();
        // The remembered runs are counted again at each call. Such calls are rare, and several
        // claims may concern the same run.
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

    /// Returns true if a claim of `run` was abandoned. Only the record of `run` shows whether Redis
    /// carried out that claim.
    pub(crate) fn knows(&self, run: &RunId) -> bool {
        self.tokens().contains_key(run)
    }

    /// Returns the runs with an abandoned claim.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.tokens().keys().cloned().collect()
    }

    /// Returns true if the lease in `record` comes from an abandoned claim of this node.
    pub(crate) fn won(&self, record: &RunRecord) -> bool {
        let Some(claim) = &record.claim_token else { return false };
        self.tokens().get(&record.run).is_some_and(|tokens| tokens.contains(claim))
    }
}
