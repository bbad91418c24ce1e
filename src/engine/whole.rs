//! What only many keys together tell: counters beside what they count, outputs beside their indexes.
//!
//! Invariant: what it tells was found twice, the second time also among the keys made since the first.

use std::time::Duration;

use crate::domain::books::{CountFacts, Finding, KeyFacts, judge_counts, judge_outputs};
use crate::store::{Counted, OutputFacts, Store, StoreError};

/// How often it is looked again while things move, and the pause between.
const LOOKS: usize = 6;
const PAUSE: Duration = Duration::from_millis(50);

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

/// Judges them, and those there are then again if anything is wrong: once while nothing moves, or else so often that what is wrong
/// by the same each time was not on its way.
pub(super) async fn judge(store: &Store, names: &Names) -> Result<Whole, StoreError> {
    let mut found = look(store, names).await?;
    for _ in 0..LOOKS {
        if found.findings.is_empty() {
            break;
        }
        let before = store.count_marks().await?;
        let again = look(store, &Names::read(store).await?).await?;
        let is_still = store.count_marks().await? == before;
        found = again.if_also_in(store, &found, is_still);
        if is_still {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(found)
}

impl Whole {
    /// What of it was found before too; if anything moved meanwhile, only what is wrong by the same.
    fn if_also_in(mut self, store: &Store, before: &Self, is_still: bool) -> Self {
        if !is_still {
            let OutputFacts { missing, unlisted } = &mut self.outputs;
            missing.retain(|entry| before.outputs.missing.contains(entry));
            unlisted.retain(|output| before.outputs.unlisted.contains(output));
            self.counts.forget_what_moved(&before.counts);
            self.findings = judged(store, &self.counts, &self.outputs);
        }
        self.findings.retain(|finding| before.findings.iter().any(|other| other.is_same(finding)));
        self
    }
}

async fn look(store: &Store, names: &Names) -> Result<Whole, StoreError> {
    let counts = store.count_facts(&names.counted).await?;
    let outputs = store.compare_outputs(&names.counted.outputs, &names.indexes).await?;
    Ok(Whole { findings: judged(store, &counts, &outputs), counts, outputs })
}

fn judged(store: &Store, counts: &CountFacts, outputs: &OutputFacts) -> Vec<Finding> {
    let mut findings = judge_counts(counts, |rest| store.key_named(rest));
    findings.extend(judge_outputs(store.key_named("outputs"), outputs.missing.len(), outputs.unlisted.len()));
    findings
}
