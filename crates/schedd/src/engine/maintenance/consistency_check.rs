//! One pass of the consistency check: reads facts from the store, gives them to
//! `domain::consistency` for judgement, and confirms the findings.
//!
//! Invariant: data that changes during the check is never reported. A finding counts only if a
//! second reading a moment later shows the same finding.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::engine::chains::chain_upkeep;
use crate::engine::dispatch::definition::{Definition, DefinitionError};
use crate::engine::planning::corrections::far_plans;
use crate::engine::planning::corrections::far_plans::Far;
use crate::engine::planning::passed_ranges;
use schedd_core::config::CanonicalError;
use schedd_core::domain::consistency;
use schedd_core::domain::consistency::{
    BadField, FindingSubject, Inconsistency, JobPlaces, KeyFacts, PlacedRun, PlannedRun,
    RecordFacts,
};
use schedd_core::domain::job::unique_rule::UniqueKey;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::chain::chain_graph::ChainGraph;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{Fence, JobName, RunId};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{JobRecord, JobToInspect, Searched, Store, StoreError};

/// The time between the first reading of the facts and the second reading that confirms findings.
const MOMENT: Duration = Duration::from_millis(300);
/// The most leases read to find out which runs are leased.
pub(crate) const LEASES: usize = 20_000;
/// The number of jobs or runs checked in one step.
pub(crate) const STEP: usize = 500;

/// One pass of the consistency check.
pub struct ConsistencyChecker<'a> {
    store: &'a Store,
    now: UnixMillis,
    lanes: BTreeSet<Lane>,
    leased: BTreeMap<RunId, Vec<Fence>>,
    /// True if jobs and runs are searched only in their own lanes.
    is_narrow: bool,
    /// The links of all jobs to their parents, once this pass has read them.
    chains: Option<ChainGraph>,
}

impl<'a> ConsistencyChecker<'a> {
    /// Starts a pass over all known lanes, the lanes of hosts with boot runs, the lanes in `more`,
    /// and the leases.
    pub async fn open(store: &'a Store, more: &BTreeSet<Lane>) -> Result<Self, StoreError> {
        let mut lanes = store.list_lanes().await?;
        lanes.extend(more.iter().cloned());
        lanes.extend(store.list_host_lanes().await?);
        let (now, leased) = (store.now().await?, store.read_leased(LEASES).await?);
        Ok(Self { store, now, lanes, leased, is_narrow: false, chains: None })
    }

    /// From now on searches a job or run only in its own lane, and in the lane in which it was
    /// found. So the cost of a check does not grow with the number of lanes. A run in a wrong lane
    /// is found when the due set of that lane is read. [`confirm`] searches all lanes.
    pub fn narrow(&mut self) {
        self.is_narrow = true;
    }

    /// Returns the lanes that this pass checks.
    pub fn lanes(&self) -> Vec<Lane> {
        self.lanes.iter().cloned().collect()
    }

    /// Adds the lanes in `more` to the lanes that this pass checks.
    pub fn add_lanes(&mut self, more: impl IntoIterator<Item = Lane>) {
        self.lanes.extend(more);
    }

    /// Returns the findings about these jobs. Adds the lanes of these jobs to the lanes of this
    /// pass.
    pub async fn look_at_jobs(
        &mut self,
        names: &[JobName],
    ) -> Result<Vec<Inconsistency>, StoreError> {
        let mut findings = Vec::new();
        let mut records = Vec::with_capacity(names.len());
        for (name, record) in names.iter().zip(self.store.read_jobs(names).await?) {
            match record {
                Ok(record) => records.push((name, record)),
                Err(StoreError::Corrupt { found, .. }) => {
                    findings.push(consistency::unreadable_job(name, &found, None));
                }
                Err(error) => findings.extend(self.of_key(error).await?),
            }
        }
        self.add_lanes(
            records.iter().filter_map(|(_, record)| Some(record.as_ref()?.lane.clone())),
        );
        // Only the record is examined here. The runs of the job follow once its keys were checked.
        let definitions =
            records.iter().filter_map(|(_, record)| Definition::of(record.clone()?).ok());
        let far =
            definitions.filter(|definition| far_plans::may_be_far(definition, self.now).is_some());
        let plans: BTreeMap<JobName, Definition> =
            far.map(|definition| (definition.record.name.clone(), definition)).collect();
        let to_inspect = records.iter().map(|(name, record)| {
            let (plan, gated) = record
                .as_ref()
                .map_or((PlannedRun::Nothing, None), |record| plan_of(record, self.now));
            JobToInspect { name, record: record.as_ref(), plan, gated }
        });
        let to_inspect: Vec<JobToInspect<'_>> = to_inspect.collect();
        let known: Vec<&JobRecord> =
            records.iter().filter_map(|(_, record)| record.as_ref()).collect();
        let has_ledger = self.store.have_ledgers(known.iter().map(|record| &record.name)).await?;
        for (record, _) in known.into_iter().zip(has_ledger).filter(|(_, has_ledger)| *has_ledger) {
            findings.extend(self.counted_twice(record).await?);
        }
        let lost: Vec<JobName> = records
            .iter()
            .filter(|(_, record)| record.is_none())
            .map(|(name, _)| (*name).clone())
            .collect();
        let mut listed = self.store.read_listed(&lost).await?;
        let lanes = self.lanes();
        let searched = if self.is_narrow { Searched::Own } else { Searched::All(&lanes) };
        for facts in self.store.inspect_jobs(&to_inspect, searched).await? {
            match facts {
                Ok(Some(mut facts)) => {
                    if facts.open > 0
                        && facts.pending.is_some()
                        && matches!(facts.plan, PlannedRun::AfterEnd)
                    {
                        facts.open_unasked = self.open_unasked(&facts.name).await?;
                    }
                    if let Some(definition) = plans.get(&facts.name) {
                        match far_plans::look_at_plan(self.store, definition, self.now).await {
                            Ok(far) => note_far(&mut facts, far),
                            Err(error) => findings.extend(self.of_key(error).await?),
                        }
                    }
                    facts.listed_by = listed.remove(&facts.name).unwrap_or_default();
                    findings.extend(consistency::judge_job(&facts));
                }
                // The job changed during the reading, so the facts are not judged.
                Ok(None) => {}
                Err(error) => findings.extend(self.of_key(error).await?),
            }
        }
        let links: Vec<(&JobName, Option<&JobRecord>)> =
            records.iter().map(|(name, record)| (*name, record.as_ref())).collect();
        match self.look_at_links(&links).await {
            Ok(found) => findings.extend(found),
            Err(error) => findings.extend(self.of_key(error).await?),
        }
        Ok(findings)
    }

    /// Returns the findings about the links of these jobs to their parents. The index of links is
    /// read once in a pass.
    async fn look_at_links(
        &mut self,
        jobs: &[(&JobName, Option<&JobRecord>)],
    ) -> Result<Vec<Inconsistency>, StoreError> {
        let graph = match self.chains.take() {
            Some(graph) => graph,
            None => self.store.read_chains().await?,
        };
        let facts = chain_upkeep::look_at_links(self.store, &graph, jobs).await;
        self.chains = Some(graph);
        Ok(facts?.iter().flat_map(consistency::judge_chain).collect())
    }

    /// Returns a finding if the ledger of `job` counts an occurrence that has a record, or more
    /// occurrences than the schedule has.
    async fn counted_twice(&self, job: &JobRecord) -> Result<Vec<Inconsistency>, StoreError> {
        let (folded, recorded) = match passed_ranges::look_at_ledger(self.store, job).await {
            Ok(found) => found,
            Err(error) => return self.of_key(error).await,
        };
        let found = folded.counted_twice(&job.name, &recorded).map(|(run, range, _)| {
            let skipped = SkippedRange { first: range.from, last: range.to, count: range.count };
            consistency::counted_twice(&run, skipped, range.state)
        });
        if found.is_some() {
            return Ok(found.into_iter().collect());
        }
        let over = folded.ledger_excess(&job.name, &recorded).map(|over| {
            let range = SkippedRange {
                first: over.range.from,
                last: over.range.to,
                count: over.range.count,
            };
            consistency::ledger_excess(&job.name, range, over.range.state, (over.total, over.has))
        });
        Ok(over.into_iter().collect())
    }

    /// Returns the first open run of `job` that is not a retry requested by an operator, or `None`.
    async fn open_unasked(&self, job: &JobName) -> Result<Option<RunId>, StoreError> {
        let open = self.store.list_open(job).await?;
        let records = self
            .store
            .read_runs(&open)
            .await?
            .into_iter()
            .filter_map(|record| record.ok().flatten());
        Ok(records.into_iter().find(|record| record.retried_at.is_none()).map(|record| record.run))
    }

    /// Returns the findings about these runs. The fence of a run is that of the lease in which the
    /// run was found, if any.
    pub async fn look_at_runs(
        &mut self,
        runs: &[(RunId, Option<Fence>)],
    ) -> Result<Vec<Inconsistency>, StoreError> {
        self.look_at_runs_of(runs, None).await
    }

    /// Returns the findings about these runs, which were found in `lane`, if given.
    pub async fn look_at_runs_of(
        &mut self,
        runs: &[(RunId, Option<Fence>)],
        lane: Option<&Lane>,
    ) -> Result<Vec<Inconsistency>, StoreError> {
        let names: BTreeSet<JobName> = runs.iter().map(|(run, _)| run.job().clone()).collect();
        let names: Vec<JobName> = names.into_iter().collect();
        let jobs = self.store.read_jobs(&names).await?;
        let of_jobs: BTreeMap<JobName, Lane> = jobs
            .into_iter()
            .filter_map(|job| job.ok().flatten())
            .map(|job| (job.name, job.lane))
            .collect();
        self.add_lanes(of_jobs.values().cloned());
        // The record of a run may have another fence than the lease of the run.
        let with_fence = |run: &RunId, fence: Option<Fence>| {
            fence.or_else(|| self.leased.get(run).and_then(|all| all.last().copied()))
        };
        let runs: BTreeSet<(RunId, Option<Fence>)> =
            runs.iter().map(|(run, fence)| (run.clone(), with_fence(run, *fence))).collect();
        let runs: Vec<_> = runs.into_iter().collect();
        let (mut findings, mut skipped) = (Vec::new(), Vec::new());
        let (all, own): (Vec<Lane>, Vec<Vec<Lane>>) = if self.is_narrow {
            let lanes_of = |(run, _): &(RunId, Option<Fence>)| {
                let lanes: BTreeSet<&Lane> =
                    of_jobs.get(run.job()).into_iter().chain(lane).collect();
                lanes.into_iter().cloned().collect()
            };
            (Vec::new(), runs.iter().map(lanes_of).collect())
        } else {
            (self.lanes(), Vec::new())
        };
        let searched: Vec<&[Lane]> = if self.is_narrow {
            own.iter().map(Vec::as_slice).collect()
        } else {
            vec![all.as_slice(); runs.len()]
        };
        for facts in inspect_runs(self.store, &runs, &searched, self.now).await? {
            match facts {
                Ok(facts) => {
                    findings.extend(consistency::judge_run(&facts));
                    if matches!(facts.record, RecordFacts::Known { state: RunState::Skipped, .. }) {
                        skipped.push(facts.run);
                    }
                }
                Err(error) => findings.extend(self.of_key(error).await?),
            }
        }
        match passed_ranges::look_at_skipped_ranges(self.store, &skipped).await {
            Ok(skipped_ranges) => {
                findings.extend(skipped_ranges.iter().filter_map(consistency::judge_skipped_range));
            }
            Err(error) => findings.extend(self.of_key(error).await?),
        }
        Ok(findings)
    }

    /// Returns the finding about the gate whose holders or waiters are in `key`. Returns `None` if
    /// the gate is correct, or `key` belongs to no gate.
    pub async fn look_at_gate(&self, key: &str) -> Result<Option<Inconsistency>, StoreError> {
        let Some(gate) = gate_of_key(self.store, key) else { return Ok(None) };
        Ok(consistency::judge_gate(key, &self.store.inspect_gate(&gate).await?))
    }

    /// Returns the findings about the key that a wrong-type error names. Returns any other error.
    async fn of_key(&self, error: StoreError) -> Result<Vec<Inconsistency>, StoreError> {
        match error {
            StoreError::WrongType { key, .. } => Ok(self.look_at_key(&key).await?),
            error => Err(error),
        }
    }

    /// Returns the findings about the key `name`: about its type, its fields if it is a Redis hash,
    /// or its value if it is a string.
    async fn look_at_key(&self, name: &str) -> Result<Vec<Inconsistency>, StoreError> {
        let Some(key) = self.store.look_at_key(name).await? else { return Ok(Vec::new()) };
        let mut findings = consistency::judge_key(&key);
        findings.extend(look_at_fields(self.store, &[&key]).await?);
        findings.extend(look_at_texts(self.store, &[&key]).await?);
        Ok(findings)
    }

    /// Returns the findings about the jobs, runs and keys in `subjects`.
    pub async fn look_at(
        &mut self,
        subjects: &BTreeSet<FindingSubject>,
    ) -> Result<Vec<Inconsistency>, StoreError> {
        let (mut jobs, mut runs, mut uniques, mut findings) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for subject in subjects {
            match subject {
                FindingSubject::Job(name) => jobs.push(name.clone()),
                FindingSubject::Run(run, fence) => runs.push((run.clone(), *fence)),
                FindingSubject::Key(key) => {
                    findings.extend(self.look_at_key(key).await?);
                    findings.extend(self.look_at_gate(key).await?);
                    let prefix = self.store.key_named("");
                    uniques.extend(key.strip_prefix(&prefix).and_then(unique_key));
                }
            }
        }
        // Jobs and runs are checked in steps, so that no call to Redis takes long.
        for some in jobs.chunks(STEP) {
            findings.extend(self.look_at_jobs(some).await?);
        }
        for some in runs.chunks(STEP) {
            findings.extend(self.look_at_runs(some).await?);
        }
        for some in uniques.chunks(STEP) {
            findings.extend(self.look_at_uniques(some).await?);
        }
        Ok(findings)
    }

    /// Returns the findings about the entries of these unique keys.
    pub async fn look_at_uniques(
        &self,
        keys: &[UniqueKey],
    ) -> Result<Vec<Inconsistency>, StoreError> {
        let facts = self.store.inspect_uniques(keys).await?;
        Ok(facts.iter().filter_map(|facts| consistency::judge_unique(facts, self.now)).collect())
    }
}

/// Returns the record and the index entries of each run. `lanes` contains, at the index of each
/// run, the lanes in which that run is searched. If a run other than the planned run waits too
/// long, also returns the ready time that the run should have.
pub(crate) async fn inspect_runs(
    store: &Store,
    runs: &[(RunId, Option<Fence>)],
    lanes: &[&[Lane]],
    now: UnixMillis,
) -> Result<Vec<Result<PlacedRun, StoreError>>, StoreError> {
    let mut all = store.inspect_runs_in(runs, lanes).await?;
    let to_come = all.iter().flatten().filter_map(|facts| {
        let is_scheduled =
            matches!(facts.record, RecordFacts::Known { state: RunState::Scheduled, .. });
        let ready =
            facts.ready().filter(|ready| is_scheduled && !facts.is_pending && *ready > now)?;
        Some((facts.run.clone(), ready))
    });
    let by = far_plans::ready_instead_of(store, &to_come.collect::<Vec<_>>()).await?;
    for facts in all.iter_mut().flatten() {
        facts.ready_by = by.get(&facts.run).copied();
    }
    Ok(all)
}

/// Returns the findings about unreadable fields of those keys that are Redis hashes with checked
/// fields.
pub async fn look_at_fields(
    store: &Store,
    keys: &[&KeyFacts],
) -> Result<Vec<Inconsistency>, StoreError> {
    let judged =
        keys.iter().filter(|key| key.kind == "hash" && consistency::has_judged_fields(&key.rest));
    let names: Vec<String> = judged.map(|key| key.name.clone()).collect();
    let bad = read_bad_fields(store, &names).await?;
    let prefix = store.key_named("");
    let finding = |(name, bad): (String, Vec<BadField>)| {
        consistency::bad_fields(name.strip_prefix(&prefix).unwrap_or_default(), &name, &bad)
    };
    Ok(names.into_iter().zip(bad).filter_map(finding).collect())
}

/// Returns the findings about unreadable values of those keys that are strings with a checked
/// value.
pub async fn look_at_texts(
    store: &Store,
    keys: &[&KeyFacts],
) -> Result<Vec<Inconsistency>, StoreError> {
    let judged =
        keys.iter().filter(|key| key.kind == "string" && consistency::has_judged_text(&key.rest));
    let judged: Vec<&&KeyFacts> = judged.collect();
    let names: Vec<String> = judged.iter().map(|key| key.name.clone()).collect();
    let texts = store.read_texts(&names).await?;
    let found = judged
        .into_iter()
        .zip(texts)
        .filter_map(|(key, text)| consistency::judge_text(&key.rest, key.name.clone(), &text?));
    Ok(found.collect())
}

/// Returns the unreadable fields of each of these keys. `keys` are full names of Redis keys.
pub(crate) async fn read_bad_fields(
    store: &Store,
    keys: &[String],
) -> Result<Vec<Vec<BadField>>, StoreError> {
    let prefix = store.key_named("");
    let judge = |(key, fields): (&String, Vec<(String, String)>)| {
        let rest = key.strip_prefix(&prefix).unwrap_or_default();
        let bad = fields.into_iter().filter_map(|(field, value)| {
            let why = consistency::judge_field(rest, &field, &value)?;
            Some(BadField { field, value, why })
        });
        bad.collect()
    };
    Ok(keys.iter().zip(store.read_fields(keys).await?).map(judge).collect())
}

/// Returns those of `findings` that a second reading after `MOMENT` shows again. `more` are lanes
/// to check that Redis may not list.
pub async fn confirm(
    store: &Store,
    more: &BTreeSet<Lane>,
    findings: Vec<Inconsistency>,
) -> Result<Vec<Inconsistency>, StoreError> {
    if findings.is_empty() {
        return Ok(findings);
    }
    tokio::time::sleep(MOMENT).await;
    let subjects: BTreeSet<FindingSubject> =
        findings.iter().map(|finding| finding.subject.clone()).collect();
    let again = ConsistencyChecker::open(store, more).await?.look_at(&subjects).await?;
    let owned = |finding: &Inconsistency| {
        let (subject, kind, place) = finding.identity();
        (subject.clone(), kind, place)
    };
    let mut first: BTreeSet<_> = findings.iter().map(owned).collect();
    Ok(again.into_iter().filter(|finding| first.remove(&owned(finding))).collect())
}

/// Returns the unique key whose entry is stored in a Redis key. `rest` is the name of the Redis key
/// within the namespace. Returns `None` for a key of another family.
pub(crate) fn unique_key(rest: &str) -> Option<UniqueKey> {
    String::from_utf8(consistency::member_bytes(rest.strip_prefix("unique:")?)).ok()?.parse().ok()
}

/// Returns the gate whose runs are in `key`, or `None` for a key of another family.
pub(crate) fn gate_of_key(store: &Store, key: &str) -> Option<Gate> {
    let prefix = store.key_named("");
    let (family, name) = key.strip_prefix(&prefix)?.split_once(':')?;
    let has_runs = family == "gate" || family.starts_with("gate_") && family != "gate_rate";
    has_runs.then(|| Gate::from_name(name)).flatten()
}

/// Adds to `facts` the occurrence to plan instead of a planned run that was computed while Redis'
/// clock was ahead (from `far`). If `far` is `None` and the job has no planned run, the job needs
/// no planned run. In this case each future occurrence has already run or was skipped.
fn note_far(facts: &mut JobPlaces, far: Option<Far>) {
    if far.is_none() && facts.pending.is_none() {
        facts.plan = PlannedRun::Nothing;
    }
    facts.comes_first = far.filter(|far| far.is_by_clock).map(|far| far.first);
}

/// Returns the kind of planned run that a job should have at `now`. Also returns the entry of the
/// job in the list of jobs with gates. The entry is `None` if the job has no gates or its
/// definition is unusable.
fn plan_of(record: &JobRecord, now: UnixMillis) -> (PlannedRun, Option<String>) {
    let definition = match Definition::of(record.clone()) {
        Ok(definition) => definition,
        Err(error) => {
            let advice = match &error {
                DefinitionError::Canonical(CanonicalError::Newer { .. }) => Some(
                    "update schedd on this host; until then only nodes of the newer version run the job",
                ),
                DefinitionError::Zone(_) => Some(
                    "install the time zone data (tzdata) on this host; until then only other nodes run the job",
                ),
                DefinitionError::Canonical(CanonicalError::Corrupt { .. }) => None,
            };
            return (PlannedRun::Unreadable { why: error.to_string(), advice }, None);
        }
    };
    let plan = match definition.spec.schedule {
        // Only the instances of the job have runs.
        _ if definition.spec.is_on_each_node() => PlannedRun::Nothing,
        Schedule::Manual | Schedule::After(_) => PlannedRun::Nothing,
        Schedule::At(_) => PlannedRun::Once,
        Schedule::Delay(_) if !definition.is_used_up() => PlannedRun::AfterEnd,
        _ if definition.next_after(now).is_some() => PlannedRun::Recurring,
        _ => PlannedRun::Nothing,
    };
    (plan, definition.spec.gated_entry(&record.name, &record.lane))
}
