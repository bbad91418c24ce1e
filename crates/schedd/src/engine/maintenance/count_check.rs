//! Checks that compare many keys: counters with the data they count, and outputs with their
//! indexes.
//!
//! Invariant: each finding was found twice. The second reading also includes keys that were made
//! after the first reading.

use std::time::Duration;

use schedd_core::domain::consistency::{
    CountFacts, Inconsistency, KeyFacts, judge_counts, judge_outputs,
};
use schedd_store::{CounterPair, OutputFacts, Store, StoreError};

/// The most readings of the data if it changes all the time. `PAUSE` is the time between readings.
const LOOKS: usize = 6;
const PAUSE: Duration = Duration::from_millis(50);

/// The result of comparing counters with the data they count, and outputs with their indexes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Whole {
    /// The counters and output indexes that are wrong.
    pub(crate) findings: Vec<Inconsistency>,
    /// The counters that were compared.
    pub(crate) counts: CountFacts,
    /// The outputs and output indexes that were compared.
    pub(crate) outputs: OutputFacts,
}

/// The names, within the namespace, of the keys to compare: waiting runs, gate waiters, ledgers,
/// outputs, and the indexes of outputs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    counted: CounterPair,
    indexes: Vec<String>,
}

impl Names {
    /// Returns the names of those `keys` that are to be compared.
    pub(crate) fn among<'a>(keys: impl Iterator<Item = &'a KeyFacts>) -> Self {
        let mut names = Self::default();
        for key in keys {
            let list = match (key.rest.split(':').next().unwrap_or_default(), key.kind.as_str()) {
                ("waiting" | "gate_waiters", "zset") => &mut names.counted.waiting,
                ("ledger", "zset") => &mut names.counted.ledgers,
                ("output", "hash") => &mut names.counted.outputs,
                ("outputs", "zset") => &mut names.indexes,
                _ => continue,
            };
            list.push(key.rest.clone());
        }
        names
    }

    /// Returns the names of all keys of the namespace that are to be compared.
    pub(crate) async fn read(store: &Store) -> Result<Self, StoreError> {
        let mut keys = Vec::new();
        for of in ["waiting:*", "gate_waiters:*", "ledger:*", "output*"] {
            keys.extend(store.scan_keys(of).await?);
        }
        Ok(Self::among(keys.iter()))
    }
}

/// Compares the keys in `names`, and returns only confirmed findings. If anything is wrong, all
/// keys that then exist are compared again. While data changes, this is repeated several times,
/// because a real difference stays the same.
pub(crate) async fn judge(store: &Store, names: &Names) -> Result<Whole, StoreError> {
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
    /// Returns the findings that an earlier reading, `before`, contains too. If data changed
    /// meanwhile (`is_still` is false), a finding must also show the same difference in both
    /// readings.
    fn if_also_in(mut self, store: &Store, before: &Self, is_still: bool) -> Self {
        if !is_still {
            let OutputFacts { missing, unlisted } = &mut self.outputs;
            missing.retain(|entry| before.outputs.missing.contains(entry));
            unlisted.retain(|output| before.outputs.unlisted.contains(output));
            self.counts.forget_what_moved(&before.counts);
            self.findings = judged(store, &self.counts, &self.outputs);
        }
        self.findings.retain(|finding| {
            before.findings.iter().any(|other| other.identity() == finding.identity())
        });
        self
    }
}

async fn look(store: &Store, names: &Names) -> Result<Whole, StoreError> {
    let counts = store.count_facts(&names.counted).await?;
    let outputs = store.compare_outputs(&names.counted.outputs, &names.indexes).await?;
    Ok(Whole { findings: judged(store, &counts, &outputs), counts, outputs })
}

fn judged(store: &Store, counts: &CountFacts, outputs: &OutputFacts) -> Vec<Inconsistency> {
    let mut findings = judge_counts(counts, |rest| store.key_named(rest));
    findings.extend(judge_outputs(
        store.key_named("outputs"),
        outputs.missing.len(),
        outputs.unlisted.len(),
    ));
    findings
}
