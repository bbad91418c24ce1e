//! Claims whose answer never came: if Redis did them, their runs are leased to this node and were never started by it.
//!
//! Invariant: what a token in here won is not executed on this node, now or later, so it may be given back as if it had never
//! been claimed, an at-most-once run too. Noted only once nobody waits for the answer any more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::ids::RunId;
use crate::store::RunRecord;

/// Claims remembered at most, each counted for each of its runs: past this all are forgotten, and left to recovery.
const MOST: usize = 10_000;

/// The claims given up.
#[derive(Default)]
pub(super) struct Abandoned {
    tokens: Mutex<HashMap<RunId, Vec<String>>>,
}

impl Abandoned {
    fn tokens(&self) -> MutexGuard<'_, HashMap<RunId, Vec<String>>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that nobody waits any more for the answer to the claim of `runs` by `token`.
    pub(super) fn note<'a>(&self, token: &str, runs: impl Iterator<Item = &'a RunId>) {
        let mut tokens = self.tokens();
        // Counted anew each time: this is rare, and one run may be claimed in vain again and again.
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

    /// Whether a claim of `run` was given up: what its record says is worth reading.
    pub(super) fn knows(&self, run: &RunId) -> bool {
        self.tokens().contains_key(run)
    }

    /// The runs whose claims were given up.
    pub(super) fn runs(&self) -> Vec<RunId> {
        self.tokens().keys().cloned().collect()
    }

    /// Whether the lease a record tells of was won by a claim that was given up.
    pub(super) fn won(&self, record: &RunRecord) -> bool {
        let Some(claim) = &record.claim_token else { return false };
        self.tokens().get(&record.run).is_some_and(|tokens| tokens.contains(claim))
    }
}
