//! The repairs of `doctor --fix`. For each finding one script in Redis makes the repair, after it
//! checked that the data is unchanged.
//!
//! Invariant: facts that many findings need are read once for each page of findings. So the time
//! for repairs grows in proportion to the number of findings.

use std::collections::{BTreeMap, BTreeSet};

use super::consistency_check::{
    ConsistencyChecker, gate_of_key, inspect_runs, read_bad_fields, unique_key,
};
use crate::engine::chains::chain_upkeep;
use crate::engine::dispatch::definition::Definition;
use crate::engine::planning::corrections::far_plans;
use crate::engine::planning::corrections::far_plans::Far;
use crate::engine::planning::passed_ranges;
use schedd_core::domain::consistency::{
    CountFacts, FindingKind, FindingSubject, Inconsistency, KnownNames, Mend, PlacedRun, RunPlace,
    judge_skipped_range, known_key, shown,
};
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{Fence, JobName, RunId};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    DueEntry, JobMending, MendReply, Quarantined, RemoveOrder, RemoveReply, SetAside, SourceKind,
    StopRunning, Store, StoreError, Successor,
};

/// The most times that a job or run is read again because it changed during its repair. After that
/// it is not repaired.
const ROUNDS: usize = 8;
/// The most jobs or runs that are repaired in one call.
const PAGE: usize = 100;

/// The repairs that were made, by the index of their finding. A finding that was not repaired has
/// no entry.
pub type RepairOutcome = BTreeMap<usize, Vec<String>>;

/// A job to repair.
struct BadJob<'a> {
    name: &'a JobName,
    /// The index of the first finding about the job.
    at: usize,
    /// The time before which no run of the job may be planned.
    not_before: UnixMillis,
    /// True if a finding says that the planned run of the job is too far in the future.
    is_far: bool,
}

/// A run to repair.
struct BadRun<'a> {
    run: &'a RunId,
    found_under: Option<Fence>,
    /// The index of the first finding about the run.
    at: usize,
    /// The indexes and sets that the findings about the run name, such as `waiting`.
    places: BTreeSet<&'static str>,
}

/// Repairs the jobs and runs of `findings` if a repair is safe. If several findings concern one job
/// or run, its repairs are listed at the first of these findings. `more` are lanes to check that
/// Redis may not list.
pub async fn mend(
    store: &Store,
    more: &BTreeSet<Lane>,
    findings: &[&Inconsistency],
) -> Result<RepairOutcome, StoreError> {
    let mut done = RepairOutcome::new();
    let mut jobs: BTreeMap<&JobName, BadJob<'_>> = BTreeMap::new();
    let mut runs: BTreeMap<(&RunId, Option<Fence>), BadRun<'_>> = BTreeMap::new();
    for (at, finding) in
        findings.iter().enumerate().filter(|(_, finding)| matches!(finding.mend, Mend::Fix(_)))
    {
        match &finding.subject {
            FindingSubject::Key(_) => {}
            FindingSubject::Job(name) if finding.place == "source" => {
                note(&mut done, at, passing(unlist(store, name).await)?);
            }
            FindingSubject::Job(name) if matches!(finding.place, "chains" | "chain" | "after") => {
                note(&mut done, at, passing(chain_upkeep::mend_links(store, name).await)?);
            }
            FindingSubject::Job(name) if finding.place == "ledger" => {
                note(&mut done, at, passing(mend_ledger(store, name).await)?);
            }
            FindingSubject::Job(name) => {
                let new = BadJob { name, at, not_before: UnixMillis::EPOCH, is_far: false };
                jobs.entry(name).or_insert(new).is_far |= finding.is_of_clock();
            }
            FindingSubject::Run(run, _) if finding.place == "skipped_range" => {
                note(&mut done, at, passing(repair_skipped_range(store, run).await)?);
            }
            FindingSubject::Run(run, found_under) => {
                let new = BadRun { run, found_under: *found_under, at, places: BTreeSet::new() };
                runs.entry((run, *found_under)).or_insert(new).places.insert(finding.place);
            }
        }
    }
    let mut jobs: Vec<BadJob<'_>> = jobs.into_values().collect();
    // Runs that wait where they should not are repaired first. Otherwise the repair of an open run
    // could start such a run.
    let is_waiting =
        |bad: &BadRun<'_>| bad.places.contains("waiting") || bad.places.contains("gate_waiters");
    let (waiting, others): (Vec<_>, Vec<_>) = runs.into_values().partition(is_waiting);
    for page in waiting.chunks(PAGE) {
        mend_runs(store, more, page, &mut done).await?;
    }
    for page in jobs.chunks_mut(PAGE) {
        mend_jobs(store, more, page, &mut done).await?;
    }
    for page in others.chunks(PAGE) {
        mend_runs(store, more, page, &mut done).await?;
    }
    Ok(done)
}

fn note(done: &mut RepairOutcome, at: usize, words: Vec<String>) {
    if !words.is_empty() {
        done.entry(at).or_default().extend(words);
    }
}

/// Returns no repairs if the data is unreadable, so that the repairs of other data continue. The
/// next check reports unreadable data as a finding.
fn passing(done: Result<Vec<String>, StoreError>) -> Result<Vec<String>, StoreError> {
    match done {
        Err(StoreError::WrongType { .. } | StoreError::Corrupt { .. }) => Ok(Vec::new()),
        done => done,
    }
}

/// Corrects the wrong counters in `facts`, and returns the corrections as text.
pub async fn repair_counts(store: &Store, facts: &CountFacts) -> Result<Vec<String>, StoreError> {
    store.repair_counts(facts).await.map(words)
}

fn words(reply: MendReply) -> Vec<String> {
    match reply {
        MendReply::Mended(done) => done,
        MendReply::Sound | MendReply::Stale | MendReply::Occupied => Vec::new(),
    }
}

/// Repairs the gate whose holders or waiters are in `key`, and returns the repairs as text.
pub async fn repair_gate(store: &Store, key: &str) -> Result<Vec<String>, StoreError> {
    let Some(gate) = gate_of_key(store, key) else { return Ok(Vec::new()) };
    let facts = store.inspect_gate(&gate).await?;
    let runs: Vec<RunId> =
        facts.strays.into_iter().chain(facts.aside).chain(facts.queued).collect();
    let left = store.repair_gate(&gate, &runs).await?;
    Ok(vec![format!("runs removed from the gate of {}: {left}", gate.words())])
}

/// Repairs the Redis key `key` that `finding` concerns, and returns the repairs as text.
pub async fn mend_key(
    store: &Store,
    key: &str,
    finding: &Inconsistency,
) -> Result<Vec<String>, StoreError> {
    let prefix = store.key_named("");
    let rest = key.strip_prefix(&prefix).unwrap_or_default();
    match (finding.kind, finding.place) {
        (FindingKind::Extra, "expiry") => {
            return Ok(if store.persist_key(key).await? {
                vec!["the expiry of the key was removed".to_owned()]
            } else {
                Vec::new()
            });
        }
        (FindingKind::Missing, "lanes") => {
            let Some(lane) = rest.strip_prefix("due:").and_then(|lane| lane.parse().ok()) else {
                return Ok(Vec::new());
            };
            store.note_lanes([&lane]).await?;
            return Ok(vec!["the lane was added to the list of lanes".to_owned()]);
        }
        (FindingKind::Unreadable, _) => {}
        _ => return mend_unique(store, rest).await,
    }
    let Some(facts) = store.look_at_key(key).await? else { return Ok(Vec::new()) };
    if facts.kind == "hash" && known_key(rest) == KnownNames::Type("hash") {
        return if rest.starts_with("unique:") {
            mend_unique(store, rest).await
        } else {
            drop_fields(store, key).await
        };
    }
    let job = rest.strip_prefix("job:");
    Ok(match store.quarantine_key(rest, &finding.found, job).await? {
        SetAside::Kept(aside) => vec![format!("the key was moved to {aside}")],
        SetAside::Full => vec!["the key was not moved, because quarantine is full".to_owned()],
        SetAside::Gone => Vec::new(),
    })
}

/// Deletes the entry of a unique key that belongs to no job. If a job has the key, adds the key to
/// the index of unique keys.
async fn mend_unique(store: &Store, rest: &str) -> Result<Vec<String>, StoreError> {
    let Some(key) = unique_key(rest) else { return Ok(Vec::new()) };
    let gone = store.forget_uniques(std::slice::from_ref(&key)).await?;
    let done = if gone > 0 {
        "the unique key was released, because no job has the key"
    } else {
        "the unique key was added to the index of unique keys"
    };
    Ok(vec![done.to_owned()])
}

/// Removes unreadable fields of a Redis hash, and returns their old values as text. A node later
/// writes the correct values again.
async fn drop_fields(store: &Store, key: &str) -> Result<Vec<String>, StoreError> {
    let bad = read_bad_fields(store, &[key.to_owned()]).await?.pop().unwrap_or_default();
    let seen: Vec<(String, String)> = bad.into_iter().map(|bad| (bad.field, bad.value)).collect();
    let dropped = store.drop_fields(key, &seen).await?;
    if !dropped.is_empty() && key.starts_with(&store.key_named("group:")) {
        // Without these fields, each node declares its section of the group again.
        let fields = store.read_fields(&[key.to_owned()]).await?.pop().unwrap_or_default();
        let said: Vec<_> =
            fields.into_iter().filter(|(field, _)| field.starts_with("src:")).collect();
        store.drop_fields(key, &said).await?;
    }
    Ok(dropped
        .into_iter()
        .map(|(field, value)| {
            format!("field {} removed, content: {}", shown(&field), shown(&value))
        })
        .collect())
}

/// Removes a job without a record from the lists that Redis keeps of the jobs in each file. The
/// nodes with these files then add the job again.
async fn unlist(store: &Store, name: &JobName) -> Result<Vec<String>, StoreError> {
    let mut done = Vec::new();
    for source in
        store.read_listed(std::slice::from_ref(name)).await?.remove(name).unwrap_or_default()
    {
        let order = RemoveOrder {
            name: name.clone(),
            kind: SourceKind::File,
            source: source.to_string(),
            // Without a revision, the script changes no existing job. It only removes the name of a
            // missing job from the list of the file.
            read: None,
            pending: None,
            running: StopRunning::No,
            reason: "removed".to_owned(),
            passed: (None, None),
            unique: None,
            gates: Vec::new(),
        };
        if store.remove_job(&order).await? == RemoveReply::Unknown {
            done.push(format!("the job was removed from the list of {source}"));
        }
    }
    Ok(done)
}

/// Removes occurrences that have their own run record from the skipped range of `run`.
async fn repair_skipped_range(store: &Store, run: &RunId) -> Result<Vec<String>, StoreError> {
    let facts = passed_ranges::look_at_skipped_ranges(store, std::slice::from_ref(run)).await?;
    let Some(facts) = facts.first().filter(|facts| judge_skipped_range(facts).is_some()) else {
        return Ok(Vec::new());
    };
    let is_mended = store.repair_skipped_range(run, facts.written, facts.possible).await?;
    Ok(is_mended
        .then(|| format!("occurrences left in the skipped range: {}", facts.possible.count))
        .into_iter()
        .collect())
}

/// Corrects the ledger of a job where the correct value is certain: each occurrence without a run
/// record counts once, and no other occurrence counts.
async fn mend_ledger(store: &Store, name: &JobName) -> Result<Vec<String>, StoreError> {
    let Some(job) = store.read_job(name).await? else { return Ok(Vec::new()) };
    let (mut folded, recorded) = passed_ranges::look_at_ledger(store, &job).await?;
    let mut taken_out = 0_u32;
    while let Some((run, range, left)) = folded.counted_twice(name, &recorded) {
        if !store.repair_ledger_range(&run, &range, left).await? {
            break;
        }
        folded.shrink(&range, left);
        taken_out += 1;
    }
    while let Some(over) = folded.ledger_excess(name, &recorded) {
        if !store.repair_ledger_range(&over.run, &over.range, over.left).await? {
            break;
        }
        folded.shrink(&over.range, over.left);
        taken_out += 1;
    }
    Ok((taken_out > 0)
        .then(|| format!("occurrences removed from the ledger: {taken_out}"))
        .into_iter()
        .collect())
}

async fn mend_jobs(
    store: &Store,
    more: &BTreeSet<Lane>,
    page: &mut [BadJob<'_>],
    done: &mut RepairOutcome,
) -> Result<(), StoreError> {
    let mut left: Vec<&mut BadJob<'_>> = page.iter_mut().collect();
    for _ in 0..ROUNDS {
        if left.is_empty() {
            break;
        }
        let mut checker = ConsistencyChecker::open(store, more).await?;
        let names: Vec<JobName> = left.iter().map(|job| job.name.clone()).collect();
        let now = store.now().await?;
        let mut mendings = Vec::with_capacity(names.len());
        let mut readable = Vec::with_capacity(names.len());
        for (job, record) in left.into_iter().zip(store.read_jobs(&names).await?) {
            let record = match record {
                Ok(record) => record,
                Err(StoreError::WrongType { .. } | StoreError::Corrupt { .. }) => continue,
                Err(error) => return Err(error),
            };
            checker.add_lanes(record.iter().map(|record| record.lane.clone()));
            let name = job.name.clone();
            let usable = record.as_ref().filter(|record| record.is_live() || job.is_far);
            mendings.push(match usable.and_then(|record| Definition::of(record.clone()).ok()) {
                Some(definition) => {
                    let from = now.max(job.not_before);
                    let is_live = definition.record.is_live();
                    let far = if job.is_far || definition.record.pending.is_none() {
                        passing_plan(far_plans::look_at_plan(store, &definition, from).await)?
                    } else {
                        None
                    };
                    let (planted, pending_ready) =
                        if is_live { next_of(&definition, from) } else { (None, None) };
                    let anchor = far
                        .as_ref()
                        .filter(|far| far.is_by_clock)
                        .map(|far| far.definition.record.anchor);
                    if anchor.is_some() {
                        passing(
                            far_plans::cut_ranges(store, &definition.record, now)
                                .await
                                .map(|()| Vec::new()),
                        )?;
                    }
                    let planted = far.map(|far| far.definition.planned(far.first)).or(planted);
                    let gated = definition.spec.gated_entry(&name, &definition.record.lane);
                    let unique = definition.spec.unique.as_ref().map(|unique| unique.second);
                    JobMending { name, record, planted, pending_ready, gated, anchor, unique }
                }
                None => JobMending {
                    name,
                    record,
                    planted: None,
                    pending_ready: None,
                    gated: None,
                    anchor: None,
                    unique: None,
                },
            });
            readable.push(job);
        }
        left = Vec::new();
        let replies = store.mend_jobs(&mendings, &checker.lanes()).await?;
        for ((job, mending), reply) in readable.into_iter().zip(mendings).zip(replies) {
            match reply {
                Ok(MendReply::Stale) => left.push(job),
                Ok(MendReply::Occupied) => {
                    job.not_before =
                        mending.planted.map_or(job.not_before, |planted| planted.run.due());
                    left.push(job);
                }
                reply => note(done, job.at, passing(reply.map(words))?),
            }
        }
    }
    Ok(())
}

/// Returns `look`, or `None` if a key of the job is unreadable. The planned run of the job then
/// stays unchanged.
fn passing_plan(look: Result<Option<Far>, StoreError>) -> Result<Option<Far>, StoreError> {
    match look {
        Err(StoreError::WrongType { .. } | StoreError::Corrupt { .. }) => Ok(None),
        look => look,
    }
}

/// Returns the run after `from` that a live job should plan if it has no planned run. Also returns
/// the ready time that the present planned run should have, or `None` without a planned run. Both
/// are `None` for a paused job.
fn next_of(definition: &Definition, from: UnixMillis) -> (Option<Successor>, Option<UnixMillis>) {
    if definition.record.paused_at.is_some() {
        return (None, None);
    }
    let due = match definition.spec.schedule {
        Schedule::At(at) => Some(at).filter(|_| definition.record.pending.is_none()),
        _ => definition.planted_after(from),
    };
    let pending_ready =
        definition.record.pending.as_ref().map(|pending| definition.planned(pending.due()).ready);
    (due.map(|due| definition.planned(due)), pending_ready)
}

async fn mend_runs(
    store: &Store,
    more: &BTreeSet<Lane>,
    page: &[BadRun<'_>],
    done: &mut RepairOutcome,
) -> Result<(), StoreError> {
    let lanes = ConsistencyChecker::open(store, more).await?.lanes();
    let mut left: Vec<&BadRun<'_>> = page.iter().collect();
    for _ in 0..ROUNDS {
        if left.is_empty() {
            break;
        }
        let runs: Vec<(RunId, Option<Fence>)> =
            left.iter().map(|bad| (bad.run.clone(), bad.found_under)).collect();
        let now = store.now().await?;
        let (mut readable, mut facts) = (Vec::new(), Vec::new());
        let searched = vec![lanes.as_slice(); runs.len()];
        let found = inspect_runs(store, &runs, &searched, now).await?;
        for (bad, found) in left.into_iter().zip(found) {
            match found {
                Ok(found) => {
                    note(done, bad.at, quarantine_stray(store, &found, now).await?);
                    readable.push(bad);
                    facts.push(found);
                }
                Err(error) => drop(passing(Err(error))?),
            }
        }
        left = Vec::new();
        for (bad, reply) in readable.into_iter().zip(store.mend_runs(&facts).await?) {
            match reply {
                // The run changed meanwhile, so the next round reads it again.
                Ok(MendReply::Stale) => left.push(bad),
                reply => note(done, bad.at, passing(reply.map(words))?),
            }
        }
    }
    Ok(())
}

/// Moves the entries of a run without a run record to quarantine. These are expired leases, and due
/// entries whose job has no record. Returns the repairs as text.
async fn quarantine_stray(
    store: &Store,
    facts: &PlacedRun,
    now: UnixMillis,
) -> Result<Vec<String>, StoreError> {
    let mut done = Vec::new();
    for (place, score) in facts.to_quarantine() {
        let entry = DueEntry { member: place.member(&facts.run), score: score.clone() };
        let kept = match place {
            RunPlace::Due(lane) => {
                store.quarantine_run(lane, &entry, "the job of the run is unknown").await?
            }
            _ if score.parse::<f64>().is_ok_and(|end| end < as_score(now)) => {
                store.quarantine_lease(&entry, "the run of the lease has no record").await?
            }
            _ => Quarantined::Gone,
        };
        if kept == Quarantined::Kept {
            done.push(format!("the entry was moved from {} to quarantine", place.key(&facts.run)));
        }
    }
    Ok(done)
}

#[expect(clippy::cast_precision_loss, reason = "instants are far below 2^53")]
fn as_score(at: UnixMillis) -> f64 {
    at.as_i64() as f64
}
