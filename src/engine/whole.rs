//! What only many keys together tell: counters beside what they count, outputs beside their indexes.
//!
//! Invariant: what it tells was found twice, the second time also among the keys made since the first.

use crate::domain::books::{CountFacts, Finding, KeyFacts, judge_counts, judge_outputs};
use crate::store::{Counted, OutputFacts, Store, StoreError};

/// What was found.
#[derive(Debug, Clone, Default)]
pub(super) struct Whole {
    /// What does not agree.
    pub(super) findings: Vec<Finding>,
    /// The counters, as they were judged.
    pub(super) counts: CountFacts,
    /// The outputs and their indexes, as they were judged.
    pub(super) outputs: OutputFacts,
}

/// The keys that are looked at together, by their names within the namespace.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    counted: Counted,
    indexes: Vec<String>,
}

impl Names {
    /// Those among some keys.
    pub(super) fn among<'a>(keys: impl Iterator<Item = &'a KeyFacts>) -> Self {
        let mut names = Self::default();
        for key in keys {
            let list = match (key.rest.split(':').next().unwrap_or_default(), key.kind.as_str()) {
                ("waiting" | "queued", "zset") => &mut names.counted.waiting,
                ("ledger", "zset") => &mut names.counted.ledgers,
                ("output", "hash") => &mut names.counted.outputs,
                ("outputs", "zset") => &mut names.indexes,
                _ => continue,
            };
            list.push(key.rest.clone());
        }
        names
    }

    /// Those there are now.
    pub(super) async fn read(store: &Store) -> Result<Self, StoreError> {
        let mut keys = Vec::new();
        for of in ["waiting:*", "queued:*", "ledger:*", "output*"] {
            keys.extend(store.scan_keys(of).await?);
        }
        Ok(Self::among(keys.iter()))
    }
}

/// Judges them, and those there are then again if anything is wrong.
pub(super) async fn judge(store: &Store, names: &Names) -> Result<Whole, StoreError> {
    let first = look(store, names).await?;
    if first.findings.is_empty() {
        return Ok(first);
    }
    let mut again = look(store, &Names::read(store).await?).await?;
    again.findings.retain(|finding| first.findings.iter().any(|other| other.is_same(finding)));
    Ok(again)
}

async fn look(store: &Store, names: &Names) -> Result<Whole, StoreError> {
    let counts = store.count_facts(&names.counted).await?;
    let outputs = store.compare_outputs(&names.counted.outputs, &names.indexes).await?;
    let mut findings = judge_counts(&counts, |rest| store.key_named(rest));
    findings.extend(judge_outputs(store.key_named("outputs"), outputs.missing.len(), outputs.unlisted.len()));
    Ok(Whole { findings, counts, outputs })
}
