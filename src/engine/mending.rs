//! What `doctor --fix` does: for each finding the one script that makes its subject agree, guarded by that script alone.

use std::collections::BTreeSet;

use super::books::{Books, LEASES, gate_of_key};
use super::definition::Definition;
use crate::domain::books::{CountFacts, Finding, Mend, Rule, Subject};
use crate::domain::ids::{Fence, JobName, RunId};
use crate::domain::lane::Lane;
use crate::domain::schedule::Schedule;
use crate::domain::time::UnixMillis;
use crate::store::{
    JobMending, MendReply, Quarantined, RemoveOrder, RemoveReply, RipeEntry, SetAside, SourceKind, StopRunning, Store, StoreError,
};

/// Rounds before a job is left for changing faster than it can be read.
const ROUNDS: usize = 8;

/// Mends what a finding is about, if that is safe. What was done, in words; empty = nothing.
pub async fn mend(store: &Store, more: &BTreeSet<Lane>, finding: &Finding) -> Result<Vec<String>, StoreError> {
    if matches!(finding.mend, Mend::Hand(_)) {
        return Ok(Vec::new());
    }
    match &finding.subject {
        Subject::Key(key) => mend_key(store, key, finding).await,
        Subject::Job(name) if finding.rule == Rule::Listed => unlist(store, name).await,
        Subject::Job(name) => mend_job(store, more, name).await,
        Subject::Run(run, fence) => mend_run(store, more, run, *fence, finding.rule).await,
    }
}

/// Sets the counters that are wrong.
pub async fn mend_counts(store: &Store, facts: &CountFacts) -> Result<Vec<String>, StoreError> {
    store.mend_counts(facts).await.map(words)
}

fn words(reply: MendReply) -> Vec<String> {
    match reply {
        MendReply::Mended(done) => done,
        MendReply::Sound | MendReply::Stale | MendReply::Occupied => Vec::new(),
    }
}

async fn mend_key(store: &Store, key: &str, finding: &Finding) -> Result<Vec<String>, StoreError> {
    if finding.rule == Rule::Expires {
        return Ok(if store.persist_key(key).await? { vec!["it stays".to_owned()] } else { Vec::new() });
    }
    if finding.rule == Rule::GateWrong {
        let Some(gate) = gate_of_key(store, key) else { return Ok(Vec::new()) };
        let facts = store.inspect_gate(&gate).await?;
        let runs: Vec<RunId> = facts.strays.into_iter().chain(facts.queued).collect();
        let left = store.mend_gate(&gate, &runs).await?;
        return Ok(vec![format!("{left} taken out, and the gate of {} looked at", gate.words())]);
    }
    if finding.rule == Rule::LaneUnknown {
        let Some(lane) = key.strip_prefix(&store.key_named("due:")).and_then(|lane| lane.parse().ok()) else {
            return Ok(Vec::new());
        };
        store.note_lanes([&lane]).await?;
        return Ok(vec!["written down".to_owned()]);
    }
    let prefix = store.key_named("");
    let rest = key.strip_prefix(&prefix).unwrap_or_default();
    let job = rest.strip_prefix("job:");
    Ok(match store.quarantine_key(rest, &finding.found, job).await? {
        SetAside::Kept(aside) => vec![format!("moved to {aside}")],
        SetAside::Full => vec!["left where it is, for quarantine is full".to_owned()],
        SetAside::Gone => Vec::new(),
    })
}

/// Takes a job without a record off the lists of files, which then define it again.
async fn unlist(store: &Store, name: &JobName) -> Result<Vec<String>, StoreError> {
    let mut done = Vec::new();
    for source in store.read_listed(std::slice::from_ref(name)).await?.remove(name).unwrap_or_default() {
        let order = RemoveOrder {
            name: name.clone(),
            kind: SourceKind::File,
            source: source.to_string(),
            // One that is there again stays listed.
            read: None,
            pending: None,
            running: StopRunning::No,
            reason: "removed".to_owned(),
            gates: Vec::new(),
        };
        if store.remove_job(&order).await? == RemoveReply::Unknown {
            done.push(format!("taken off the list of {source}"));
        }
    }
    Ok(done)
}

async fn mend_job(store: &Store, more: &BTreeSet<Lane>, name: &JobName) -> Result<Vec<String>, StoreError> {
    let mut not_before = UnixMillis::EPOCH;
    for _ in 0..ROUNDS {
        let record = store.read_job(name).await?;
        let mut books = Books::open(store, more).await?;
        // Its lane is known from here on.
        books.look_at_jobs(std::slice::from_ref(name)).await?;
        let now = store.now().await?;
        let definition = record.clone().filter(|job| job.is_live() && job.paused_at.is_none()).map(Definition::of);
        // What cannot be read plants nothing.
        let definition = definition.and_then(Result::ok);
        let next = match &definition {
            Some(definition) => match definition.spec.schedule {
                Schedule::At(at) => Some(at).filter(|_| definition.record.pending.is_none()),
                _ => definition.planted_after(now.max(not_before)),
            },
            None => None,
        };
        let mending = JobMending {
            planted: next.and_then(|due| definition.as_ref().map(|definition| definition.planned(due))),
            has_manual_out: books.has_manual_out(name).await?,
        };
        match store.mend_job(name, record.as_ref(), &books.lanes(), &mending).await? {
            MendReply::Stale => {}
            MendReply::Occupied => not_before = next.unwrap_or(not_before),
            reply => return Ok(words(reply)),
        }
    }
    Ok(Vec::new())
}

async fn mend_run(
    store: &Store,
    more: &BTreeSet<Lane>,
    run: &RunId,
    found_under: Option<Fence>,
    rule: Rule,
) -> Result<Vec<String>, StoreError> {
    let mut books = Books::open(store, more).await?;
    books.look_at_runs(&[(run.clone(), found_under)]).await?;
    let lanes = books.lanes();
    let mut done = Vec::new();
    if rule == Rule::DueUnknown {
        for lane in &lanes {
            let Some(ready) = store.due_score(lane, run).await? else { continue };
            let entry = RipeEntry { member: run.to_string(), score: ready };
            if store.quarantine_run(lane, &entry, "its job is not known").await? == Quarantined::Kept {
                done.push(format!("moved from queue {lane} to quarantine"));
            }
        }
    }
    if rule == Rule::StrayLease
        && let Some(fence) = found_under
        && store.read_run(run).await.is_ok_and(|record| record.is_none())
    {
        let now = store.now().await?;
        for lease in store.list_leases(LEASES).await?.into_iter().flatten() {
            let is_over = lease.end.parse::<f64>().is_ok_and(|end| end < as_score(now));
            if lease.run == *run && lease.fence == fence && is_over {
                let entry = RipeEntry { member: format!("{run}#{fence}"), score: lease.end };
                if store.quarantine_lease(&entry, "its run has no record").await? == Quarantined::Kept {
                    done.push("its lease moved to quarantine".to_owned());
                }
            }
        }
    }
    // What belongs to a host stays there.
    let of_host = store.read_run(run).await.ok().flatten().map(|record| record.lane).filter(Lane::is_of_host);
    let lane = match of_host {
        Some(lane) => lane,
        None => match store.read_job(run.job()).await {
            Ok(job) => job.map_or_else(Lane::default_lane, |job| job.lane),
            Err(error) if error.is_passing() => return Err(error),
            Err(_) => Lane::default_lane(),
        },
    };
    done.extend(words(store.mend_run(run, &lane, &lanes, found_under).await?));
    Ok(done)
}

#[expect(clippy::cast_precision_loss, reason = "instants are far below 2^53")]
fn as_score(at: UnixMillis) -> f64 {
    at.as_i64() as f64
}
