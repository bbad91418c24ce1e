//! The complete consistency check of `schedctl doctor`: all keys, jobs, runs and counters.
//!
//! Invariant: the check only reads, and reports only findings that a second reading confirmed. If a
//! key has the wrong type, only the data of this key is left out, and the report says which data.

use std::collections::{BTreeMap, BTreeSet};

use super::consistency_check;
use super::consistency_check::{ConsistencyChecker, STEP, unique_key};
use super::count_check;
use super::repair;
use schedd_core::domain::consistency::{
    CountFacts, FindingKind, FindingSubject, Inconsistency, KeyFacts, KnownNames, Member, Mend,
    bad_entries, judge_key, judge_member, known_key, unknown_lane,
};
use schedd_core::domain::job::unique_rule::UniqueKey;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{Fence, JobName, RunId};
use schedd_store::{DueEntry, OutputFacts, Quarantined, Store, StoreError};

/// The number of sets read in one call.
const SETS: usize = 100;
/// The most rounds of repairs. The next round repairs problems that the last repairs revealed.
const ROUNDS: usize = 4;

/// The result of a complete consistency check.
#[derive(Debug, Clone, Default)]
pub struct Examination {
    /// The findings of the check.
    pub findings: Vec<Inconsistency>,
    /// The number of keys checked.
    pub keys: usize,
    /// The number of jobs checked.
    pub jobs: usize,
    /// The number of runs checked.
    pub runs: usize,
    /// The reason why some data could not be judged. `None` if all data was judged.
    pub partial: Option<String>,
    entries: BTreeMap<String, Vec<DueEntry>>,
    counts: CountFacts,
    outputs: OutputFacts,
    lanes: BTreeSet<Lane>,
}

/// A finding that was repaired, with the steps of its repair.
#[derive(Debug, Clone)]
pub struct Mended {
    /// The finding that was repaired.
    pub finding: Inconsistency,
    /// The steps of the repair, each as text.
    pub done: Vec<String>,
}

/// The jobs, runs, unique keys and invalid entries that a reading of all keys found.
#[derive(Default)]
struct Census {
    jobs: BTreeSet<JobName>,
    /// The runs that have a record or are members of an index, by the lane in whose due set, or in
    /// whose queue, a run was found. The fence is that of the lease for a run found in the set of leases, and `None`
    /// for any other run.
    runs: BTreeMap<Option<Lane>, BTreeSet<(RunId, Option<Fence>)>>,
    uniques: BTreeSet<UniqueKey>,
    entries: BTreeMap<String, Vec<(DueEntry, String)>>,
}

/// Checks all data of the namespace and returns the findings.
pub async fn examine(store: &Store) -> Result<Examination, StoreError> {
    let keys = store.scan_keys("*").await?;
    let mut exam = Examination { keys: keys.len(), ..Examination::default() };
    let mut rest: Vec<Inconsistency> = keys.iter().flat_map(judge_key).collect();
    let good = |key: &&KeyFacts| known_key(&key.rest) == known_type(&key.kind);
    let good: Vec<&KeyFacts> = keys.iter().filter(good).collect();
    exam.lanes = good
        .iter()
        .filter_map(|key| {
            let lane = key.rest.strip_prefix("due:").or_else(|| key.rest.strip_prefix("running:"));
            lane?.parse().ok()
        })
        .collect();
    match exam.judge_all(store, &good, &mut rest).await {
        Ok(()) => {}
        Err(StoreError::WrongType { key, .. }) => {
            exam.partial =
                Some(format!("jobs and runs cannot be checked until the key {key} is repaired"));
        }
        Err(error) => return Err(error),
    }
    match consistency_check::confirm(store, &exam.lanes, rest.clone()).await {
        Ok(found) => exam.findings.extend(found),
        // The findings about jobs and runs cannot be confirmed now and are dropped.
        Err(StoreError::WrongType { .. }) => {
            exam.findings.extend(
                rest.into_iter()
                    .filter(|finding| matches!(finding.subject, FindingSubject::Key(_))),
            );
        }
        Err(error) => return Err(error),
    }
    exam.findings.sort_by(|a, b| a.identity().cmp(&b.identity()));
    exam.findings.dedup_by(|a, b| a.identity() == b.identity());
    Ok(exam)
}

fn known_type(kind: &str) -> KnownNames {
    match kind {
        "zset" => KnownNames::Type("zset"),
        "hash" => KnownNames::Type("hash"),
        "string" => KnownNames::Type("string"),
        _ => KnownNames::No,
    }
}

impl Examination {
    /// Checks `keys`. Adds findings that still need a second reading to `found`. Findings that this
    /// check has confirmed itself are added to `self`.
    async fn judge_all(
        &mut self,
        store: &Store,
        keys: &[&KeyFacts],
        found: &mut Vec<Inconsistency>,
    ) -> Result<(), StoreError> {
        let census = take_census(store, keys).await?;
        for (rest, bad) in &census.entries {
            // The entries are read again, because some may have been moved meanwhile.
            let still = still_there(store, rest, bad).await?;
            let Some((first, why)) = still.first() else { continue };
            let first = format!("{:?}: {why}", first.member);
            self.findings.push(bad_entries(rest, store.key_named(rest), still.len(), &first));
            self.entries.insert(rest.clone(), still.into_iter().map(|(entry, _)| entry).collect());
        }
        found.extend(consistency_check::look_at_fields(store, keys).await?);
        found.extend(consistency_check::look_at_texts(store, keys).await?);
        self.jobs = census.jobs.len();
        self.runs = census.runs.values().flatten().collect::<BTreeSet<_>>().len();
        // Lanes are read after the keys, because each lane is registered before it gets a due run.
        let known = store.list_lanes().await?;
        let unknown = self.lanes.iter().filter(|lane| !lane.is_plain() && !known.contains(lane));
        let unknown: Vec<_> =
            unknown.map(|lane| unknown_lane(store.key_named(&format!("due:{lane}")))).collect();
        self.findings.extend(unknown);
        let mut checker = ConsistencyChecker::open(store, &self.lanes).await?;
        checker.narrow();
        let jobs: Vec<JobName> = census.jobs.into_iter().collect();
        for some in jobs.chunks(STEP) {
            found.extend(checker.look_at_jobs(some).await?);
        }
        for (lane, runs) in census.runs {
            let runs: Vec<(RunId, Option<Fence>)> = runs.into_iter().collect();
            for some in runs.chunks(STEP) {
                found.extend(checker.look_at_runs_of(some, lane.as_ref()).await?);
            }
        }
        let uniques: Vec<UniqueKey> = census.uniques.into_iter().collect();
        for some in uniques.chunks(STEP) {
            found.extend(checker.look_at_uniques(some).await?);
        }
        let gates: BTreeSet<Gate> = keys
            .iter()
            .filter_map(|key| consistency_check::gate_of_key(store, &key.name))
            .collect();
        for gate in gates {
            let waiters = store.key_named(&format!("gate_waiters:{gate}"));
            found.extend(checker.look_at_gate(&waiters).await?);
        }
        let whole =
            count_check::judge(store, &count_check::Names::among(keys.iter().copied())).await?;
        self.findings.extend(whole.findings);
        (self.counts, self.outputs) = (whole.counts, whole.outputs);
        Ok(())
    }

    /// Repairs the findings that are safe to repair, and checks again until no repair is left.
    /// Returns the repairs and the result of the last check.
    pub async fn mend(mut self, store: &Store) -> Result<(Vec<Mended>, Self), StoreError> {
        let mut mended: Vec<Mended> = Vec::new();
        for _ in 0..ROUNDS {
            let before = mended.len();
            // Keys are repaired first, because jobs and runs are judged by the content of keys.
            let fixable =
                self.findings.iter().filter(|finding| matches!(finding.mend, Mend::Fix(_)));
            let (keys, rest): (Vec<&Inconsistency>, Vec<&Inconsistency>) =
                fixable.partition(|finding| matches!(finding.subject, FindingSubject::Key(_)));
            for finding in keys {
                let done = self.mend_key(store, finding).await?;
                if !done.is_empty() {
                    mended.push(Mended { finding: finding.clone(), done });
                }
            }
            for (at, done) in Box::pin(repair::mend(store, &self.lanes, &rest)).await? {
                mended.extend(
                    rest.get(at).map(|finding| Mended { finding: (*finding).clone(), done }),
                );
            }
            if mended.len() == before {
                break;
            }
            self = examine(store).await?;
        }
        Ok((mended, self))
    }

    async fn mend_key(
        &self,
        store: &Store,
        finding: &Inconsistency,
    ) -> Result<Vec<String>, StoreError> {
        let FindingSubject::Key(key) = &finding.subject else { return Ok(Vec::new()) };
        let prefix = store.key_named("");
        let rest = key.strip_prefix(&prefix).unwrap_or_default();
        let done = match (finding.kind, finding.place) {
            (FindingKind::Wrong, "outputs") => {
                let OutputFacts { missing, unlisted } = &self.outputs;
                store.mend_outputs(&self.outputs).await?;
                Ok(vec![format!(
                    "entries removed from the index: {}, outputs added to the index: {}",
                    missing.len(),
                    unlisted.len()
                )])
            }
            (FindingKind::Wrong, "gate") => repair::repair_gate(store, key).await,
            (FindingKind::Wrong, _) => {
                repair::repair_counts(store, &self.counts.in_key(rest)).await
            }
            (FindingKind::Unreadable, _) if self.entries.contains_key(rest) => {
                self.mend_entries(store, rest).await
            }
            _ => repair::mend_key(store, key, finding).await,
        };
        match done {
            // The next check reports the unreadable key as a finding.
            Err(StoreError::WrongType { .. } | StoreError::Corrupt { .. }) => Ok(Vec::new()),
            done => done,
        }
    }

    async fn mend_entries(&self, store: &Store, rest: &str) -> Result<Vec<String>, StoreError> {
        let (mut kept, mut dropped) = (0, Vec::new());
        for entry in self.entries.get(rest).into_iter().flatten() {
            match store.quarantine_entry(rest, entry, "the entry is not valid in this key").await? {
                Quarantined::Kept => kept += 1,
                Quarantined::Dropped => {
                    dropped.push(format!(
                        "entry {:?} with score {} was deleted, because quarantine is full",
                        entry.member, entry.score
                    ));
                }
                Quarantined::Gone => {}
            }
        }
        let kept = (kept > 0).then(|| format!("entries moved to quarantine: {kept}"));
        Ok(kept.into_iter().chain(dropped).collect())
    }
}

/// Reads the names and members of `keys`, and returns the jobs, runs and unique keys found. Entries
/// that are not valid are returned with the reason.
async fn take_census(store: &Store, keys: &[&KeyFacts]) -> Result<Census, StoreError> {
    let mut census = Census::default();
    let mut sets: Vec<(String, u64)> = Vec::new();
    for key in keys {
        let (family, name) = key.rest.split_once(':').unwrap_or((&key.rest, ""));
        match family {
            "job" | "open" | "manual" | "waiting" | "catch_up" | "chain" => {
                census.jobs.extend(name.parse().ok());
            }
            "unique" => census.uniques.extend(unique_key(&key.rest)),
            "run" => census
                .runs
                .entry(None)
                .or_default()
                .extend(name.parse().ok().map(|run| (run, None))),
            _ => {}
        }
        if key.kind == "zset" {
            sets.push((key.rest.clone(), 0));
        }
    }
    while !sets.is_empty() {
        let some: Vec<(String, u64)> = sets.split_off(sets.len().saturating_sub(SETS));
        let pages = store.scan_sets(&some).await?;
        for ((rest, _), (entries, next)) in some.into_iter().zip(pages) {
            let lane = rest.strip_prefix("due:").or_else(|| rest.strip_prefix("running:"));
            let lane: Option<Lane> = lane.and_then(|lane| lane.parse().ok());
            for entry in entries {
                match judge_member(&rest, &entry.member, &entry.score) {
                    Ok(Member::Run(run, fence)) => {
                        census.runs.entry(lane.clone()).or_default().insert((run, fence));
                    }
                    Ok(Member::Job(name)) => {
                        census.jobs.insert(name);
                    }
                    Ok(Member::Unique(key)) => {
                        census.uniques.insert(key);
                    }
                    Ok(Member::Other) => {}
                    Err(why) => census.entries.entry(rest.clone()).or_default().push((entry, why)),
                }
            }
            if next != 0 {
                sets.push((rest, next));
            }
        }
    }
    census.jobs.extend(store.list_listed().await?);
    let asked_to_stop = store.list_stops().await?;
    let asked_to_stop = asked_to_stop.iter().filter_map(|run| run.parse().ok());
    census.runs.entry(None).or_default().extend(asked_to_stop.map(|run| (run, None)));
    Ok(census)
}

/// Returns the entries of `bad` that are still members of the sorted set `rest`. `rest` is the name
/// of its key within the namespace.
async fn still_there(
    store: &Store,
    rest: &str,
    bad: &[(DueEntry, String)],
) -> Result<Vec<(DueEntry, String)>, StoreError> {
    let (mut there, mut cursor) = (BTreeSet::new(), 0);
    loop {
        let pages = store.scan_sets(&[(rest.to_owned(), cursor)]).await?;
        let Some((entries, next)) = pages.into_iter().next() else { break };
        there.extend(entries.into_iter().map(|entry| (entry.member, entry.score)));
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let mut still: Vec<(DueEntry, String)> = bad
        .iter()
        .filter(|(entry, _)| there.contains(&(entry.member.clone(), entry.score.clone())))
        .cloned()
        .collect();
    still.dedup_by(|(a, _), (b, _)| a == b);
    Ok(still)
}
