//! The consistency check in the background. Each minute one node checks a part of all indexes and
//! records (a slice), and stores the findings. While nothing changes in Redis, a node checks a
//! slice only once an hour.
//!
//! Invariant: the check only reads and reports. The exception is a run whose time was computed
//! while Redis' clock was ahead, because such a run is planned again.
//! - A job or run is searched only in its own lane, so that the cost does not grow with the lanes.
//! - A slice has a fixed size, whatever the amount of data. The next slice continues at the end of
//!   the last one.
//! - Each slice also checks earlier findings again, so that a repaired finding disappears.
//! - The check uses a connection of its own, so it delays no run.
//! - Counters are checked once a round, unless Redis has more keys than `COUNTED`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tracing::{info, warn};

use super::consistency_check;
use super::consistency_check::ConsistencyChecker;
use super::count_check;
use crate::engine::node_context::NodeContext;
use crate::engine::planning::corrections::replan;
use crate::engine::status::node_health::NodeHealth;
use schedd_core::domain::consistency::{FindingSubject, Inconsistency, is_of_many_keys, judge_key};
use schedd_core::domain::queue::lane::Lane;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::{Fence, JobName, QueueName, RunId};
use schedd_store::{CheckNote, IndexName, Store, StoreError};

/// The interval between slices. The first node that asks after this interval checks the slice.
pub const EVERY: Duration = Duration::from_secs(60);
/// The interval at which a node asks whether the next slice is due.
const ASK: Duration = Duration::from_secs(5);
/// The longest interval between slices of a node while nothing changes in Redis.
pub const UNCHANGED_EVERY: Duration = Duration::from_secs(3_600);
/// The number of index members checked in one slice.
const SLICE: usize = 500;
const PAGE: usize = 100;
/// The most runs that a slice checks in each set of runs of one job (open, manual, waiting,
/// spread).
const PLACES: usize = 20;
/// The most findings kept in Redis.
const KEPT: usize = 100;
/// The largest number of keys in Redis at which the background check still compares the counters
/// with the data. If Redis has more keys, only `doctor` checks the counters.
const COUNTED: u64 = 100_000;

/// The loop that checks the consistency of the data slice by slice.
pub(crate) struct BackgroundCheck {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) health: Arc<NodeHealth>,
}

/// Asks Redis at intervals whether the next slice is due for this node, and checks it. Never
/// returns.
pub(crate) async fn run(check: Arc<BackgroundCheck>) {
    let mut store = None;
    // The changes known at the last question, and the instant of the next question if nothing
    // changes.
    let (mut asked_at, mut next) = (None, BootInstant::now());
    loop {
        tokio::time::sleep(ASK.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
        let changes = Some(check.node.wakeups.changes());
        if changes == asked_at && BootInstant::now() < next {
            continue;
        }
        let asked = async {
            if store.is_none() {
                store = Some(check.node.store.apart()?);
            }
            match &store {
                Some(store) => Box::pin(turn(&check, store)).await,
                None => Ok(ASK),
            }
        };
        match asked.await {
            Ok(pause) => {
                asked_at = changes;
                next = BootInstant::now().saturating_add(pause);
            }
            Err(error) => {
                asked_at = None;
                check.node.outage_log.failed(&error, "the consistency of the data is not checked");
            }
        }
    }
}

/// Checks a slice if it is due. Returns the time after which this node asks again if nothing
/// changes.
async fn turn(check: &BackgroundCheck, store: &Store) -> Result<Duration, StoreError> {
    let turn = match store.take_check_turn(&check.node.settings.node, EVERY).await? {
        Ok(turn) => turn,
        Err(pause) => return Ok(pause),
    };
    let known = Known::read(&turn.list);
    let no_more = BTreeSet::new();
    let mut checker = ConsistencyChecker::open(store, &no_more).await?;
    let mut found = checker.look_at(&known.subjects).await?;
    checker.narrow();
    let lanes = checker.lanes();
    let mut place = Place::parse(&turn.place, &lanes);
    let (first, mut looked_at, mut round_at) = (place.part.clone(), 0, turn.round_at);
    // A finding about counters is confirmed only if all counted keys are read again.
    let mut is_counted = known.has_of_many_keys();
    while looked_at < SLICE {
        if place.part == Part::Counters {
            is_counted = true;
        } else {
            let (findings, members) = look(check, store, &mut checker, &mut place).await?;
            found.extend(findings);
            looked_at += members.max(1);
        }
        if place.cursor == 0 {
            place = place.next(&lanes);
            if place.is_beginning() {
                round_at = Some(turn.now);
            }
            if place.part == first {
                break;
            }
        }
    }
    let mut found = consistency_check::confirm(store, &no_more, found).await?;
    if found.iter().any(Inconsistency::is_of_clock) {
        let of_clocks;
        (of_clocks, found) = found.into_iter().partition(Inconsistency::is_of_clock);
        replan::mend(store, of_clocks).await?;
    }
    if is_counted {
        match count(store).await {
            Ok(findings) => found.extend(findings),
            // The check of all keys reports a key of the wrong type. A Redis user who may not scan
            // all keys cannot count.
            Err(StoreError::WrongType { .. } | StoreError::Denied { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    // Findings that were reported before come first, so that the limit `KEPT` does not drop them.
    // Otherwise a later slice would report them again as new.
    found.sort_by_cached_key(|finding| {
        (!known.has(finding), finding.kind, finding.place, finding.subject.clone())
    });
    for finding in found.iter().take(KEPT).filter(|finding| !known.has(finding)) {
        warn!(finding = finding.code(), "Consistency check failed: {finding}.");
    }
    if found.is_empty() && !known.subjects.is_empty() {
        info!("The consistency check passes again.");
    }
    let list: Vec<Value> = found.iter().take(KEPT).map(finding_json).collect();
    let note = CheckNote {
        at: turn.now,
        round_at,
        place: place.text(),
        list: Value::Array(list).to_string(),
        findings: found.len() as u64,
    };
    store.write_check_note(&note).await?;
    Ok(UNCHANGED_EVERY)
}

/// Returns the findings about counters and output indexes. Returns no findings if there are too
/// many keys to count.
async fn count(store: &Store) -> Result<Vec<Inconsistency>, StoreError> {
    if store.count_keys().await? > COUNTED {
        return Ok(Vec::new());
    }
    let names = count_check::Names::read(store).await?;
    Ok(count_check::judge(store, &names).await?.findings)
}

/// Checks one page of the part of the data at `place`, and moves `place` forward. Returns the
/// findings and the number of members checked.
async fn look(
    check: &BackgroundCheck,
    store: &Store,
    checker: &mut ConsistencyChecker<'_>,
    place: &mut Place,
) -> Result<(Vec<Inconsistency>, usize), StoreError> {
    let index = match &place.part {
        Part::Index(index) => index.clone(),
        Part::Keys => {
            return match look_at_keys(store, checker, place).await {
                // A Redis user who may not scan all keys still checks the other parts.
                Err(StoreError::Denied { .. }) => {
                    place.cursor = 0;
                    Ok((Vec::new(), 0))
                }
                looked => looked,
            };
        }
        Part::Counters => return Ok((Vec::new(), 0)),
    };
    let page = match store.scan_index(&index, place.cursor, PAGE).await {
        Ok(page) => page,
        // The key of the wrong type becomes a finding, and the other indexes are still checked.
        Err(StoreError::WrongType { key, .. }) => {
            place.cursor = 0;
            return Ok((checker.look_at(&BTreeSet::from([FindingSubject::Key(key)])).await?, 0));
        }
        Err(error) => return Err(error),
    };
    place.cursor = page.cursor;
    let count = page.members.len();
    if matches!(index, IndexName::Jobs | IndexName::Finished) {
        let names: Vec<JobName> =
            page.members.iter().filter_map(|name| name.parse().ok()).collect();
        let mut findings = checker.look_at_jobs(&names).await?;
        if check.health.redis_clock.is_steady() {
            store.forget_dealt(&names, store.now().await?).await?;
        }
        for name in &names {
            // Keys of the wrong type were already reported above.
            let Ok(places) = store.list_places(name, PLACES).await else { continue };
            let runs: Vec<(RunId, Option<Fence>)> =
                places.into_iter().map(|run| (run, None)).collect();
            if !runs.is_empty() {
                findings.extend(checker.look_at_runs(&runs).await?);
            }
        }
        return Ok((findings, count));
    }
    let runs: Vec<(RunId, Option<Fence>)> =
        page.members.iter().filter_map(|member| index.run_of(member)).collect();
    let lane = match &index {
        IndexName::Due(lane) => Some(lane.clone()),
        IndexName::Running(queue) => Some(Lane::from(queue.clone())),
        _ => None,
    };
    Ok((checker.look_at_runs_of(&runs, lane.as_ref()).await?, count))
}

/// Checks one page of the keys of the namespace, and the jobs and runs named by these keys. Also
/// finds jobs and runs that no index names.
async fn look_at_keys(
    store: &Store,
    checker: &mut ConsistencyChecker<'_>,
    place: &mut Place,
) -> Result<(Vec<Inconsistency>, usize), StoreError> {
    let (keys, next) = store.scan_some_keys(place.cursor, PAGE).await?;
    place.cursor = next;
    let mut findings: Vec<Inconsistency> = keys.iter().flat_map(judge_key).collect();
    findings
        .extend(consistency_check::look_at_fields(store, &keys.iter().collect::<Vec<_>>()).await?);
    let (mut jobs, mut runs) = (BTreeSet::new(), Vec::new());
    for key in &keys {
        let (family, name) = key.rest.split_once(':').unwrap_or((&key.rest, ""));
        match family {
            "job" | "open" | "manual" | "waiting" | "catch_up" => {
                jobs.extend(name.parse::<JobName>().ok());
            }
            "run" => runs.extend(name.parse::<RunId>().ok().map(|run| (run, None))),
            _ => {}
        }
    }
    findings.extend(checker.look_at_jobs(&jobs.into_iter().collect::<Vec<_>>()).await?);
    if !runs.is_empty() {
        findings.extend(checker.look_at_runs(&runs).await?);
    }
    // Keys of other programs also count, because the scan reads them too.
    Ok((findings, PAGE.max(keys.len())))
}

/// A part of the data that is checked in pages.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// The members of an index.
    Index(IndexName),
    /// All keys of the namespace.
    Keys,
    /// The counters, which one slice checks together.
    Counters,
}

/// The position in the data at which the next slice continues.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    part: Part,
    cursor: u64,
}

impl Place {
    /// Returns all parts of the data in the order of checking.
    fn round(lanes: &[Lane]) -> Vec<Part> {
        let mut round =
            vec![IndexName::Jobs, IndexName::Finished, IndexName::Leases, IndexName::Stops];
        round.extend(lanes.iter().cloned().map(IndexName::Due));
        let queues: BTreeSet<&QueueName> = lanes.iter().map(Lane::queue).collect();
        round.extend(queues.into_iter().cloned().map(IndexName::Running));
        round.extend([IndexName::History, IndexName::Dead, IndexName::Deadlines]);
        round.into_iter().map(Part::Index).chain([Part::Keys, Part::Counters]).collect()
    }

    fn word(part: &Part) -> String {
        match part {
            Part::Index(IndexName::Jobs) => "jobs".to_owned(),
            Part::Index(IndexName::Finished) => "finished".to_owned(),
            Part::Index(IndexName::Due(lane)) => format!("due:{lane}"),
            Part::Index(IndexName::Running(queue)) => format!("running:{queue}"),
            Part::Index(IndexName::Leases) => "leases".to_owned(),
            Part::Index(IndexName::Stops) => "stop_requests".to_owned(),
            Part::Index(IndexName::History) => "history".to_owned(),
            Part::Index(IndexName::Dead) => "dead".to_owned(),
            Part::Index(IndexName::Deadlines) => "deadlines".to_owned(),
            Part::Keys => "keys".to_owned(),
            Part::Counters => "counters".to_owned(),
        }
    }

    /// Parses the stored position at which the last slice stopped. Returns the beginning of a round
    /// for an unknown position.
    fn parse(text: &str, lanes: &[Lane]) -> Self {
        let (word, cursor) = text.split_once(' ').unwrap_or((text, ""));
        let part = Self::round(lanes).into_iter().find(|part| Self::word(part) == word);
        match (part, cursor.parse()) {
            (Some(part), Ok(cursor)) => Self { part, cursor },
            _ => Self { part: Part::Index(IndexName::Jobs), cursor: 0 },
        }
    }

    /// Returns true if a round begins at this position.
    fn is_beginning(&self) -> bool {
        self.part == Part::Index(IndexName::Jobs)
    }

    fn text(&self) -> String {
        format!("{} {}", Self::word(&self.part), self.cursor)
    }

    fn next(&self, lanes: &[Lane]) -> Self {
        let round = Self::round(lanes);
        let at =
            round.iter().position(|part| *part == self.part).map_or(0, |at| (at + 1) % round.len());
        Self { part: round.get(at).cloned().unwrap_or(Part::Index(IndexName::Jobs)), cursor: 0 }
    }
}

/// The findings that earlier slices stored.
struct Known {
    known: BTreeSet<(String, FindingSubject)>,
    subjects: BTreeSet<FindingSubject>,
}

impl Known {
    /// Reads stored findings. An unreadable finding is left out, so a slice that finds it again
    /// reports it again.
    fn read(list: &str) -> Self {
        let items = match serde_json::from_str(list) {
            Ok(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let known: BTreeSet<(String, FindingSubject)> = items.iter().filter_map(known).collect();
        Self { subjects: known.iter().map(|(_, subject)| subject.clone()).collect(), known }
    }

    fn has_of_many_keys(&self) -> bool {
        self.known.iter().any(|(code, _)| is_of_many_keys(code))
    }

    fn has(&self, finding: &Inconsistency) -> bool {
        self.known.contains(&(finding.code(), finding.subject.clone()))
    }
}

fn known(item: &Value) -> Option<(String, FindingSubject)> {
    let text = |word: &str| item.get(word).and_then(Value::as_str);
    let subject = match (text("job"), text("run"), text("key")) {
        (Some(name), _, _) => FindingSubject::Job(name.parse().ok()?),
        (_, Some(run), _) => FindingSubject::Run(
            run.parse().ok()?,
            item.get("fence").and_then(Value::as_u64).and_then(Fence::new),
        ),
        (_, _, Some(key)) => FindingSubject::Key(key.to_owned()),
        _ => return None,
    };
    Some((text("finding")?.to_owned(), subject))
}

/// Returns a finding in the JSON form that Redis stores.
fn finding_json(finding: &Inconsistency) -> Value {
    let mut item = match &finding.subject {
        FindingSubject::Job(name) => json!({"job": name.as_str()}),
        FindingSubject::Run(run, fence) => {
            json!({"run": run.to_string(), "fence": fence.map(Fence::as_u64)})
        }
        FindingSubject::Key(key) => json!({"key": key}),
    };
    item["finding"] = json!(finding.code());
    item["found"] = json!(finding.found);
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedd_core::domain::consistency::FindingKind;

    #[test]
    fn a_round_passes_every_index_and_begins_again_also_from_a_place_nobody_knows() {
        let lanes = ["default".parse().unwrap(), "other".parse().unwrap()];
        let mut place = Place::parse("no such place", &lanes);
        let mut words = BTreeSet::new();
        for _ in 0..13 {
            assert!(words.insert(place.text()));
            place = Place::parse(&place.next(&lanes).text(), &lanes);
        }
        assert_eq!(place.text(), "jobs 0");
    }

    #[test]
    fn a_finding_reads_back_as_it_was_reported() {
        let (run, fence) = ("a@5".parse::<RunId>().unwrap(), Fence::new(7));
        let subject = FindingSubject::Run(run, fence);
        let finding = Inconsistency {
            kind: FindingKind::Missing,
            place: "leases",
            subject,
            found: String::new(),
            mend: schedd_core::domain::consistency::Mend::Fix(""),
        };
        let known = Known::read(&Value::Array(vec![finding_json(&finding)]).to_string());
        assert!(known.has(&finding));
        assert!(!known.has(&Inconsistency { place: "due", ..finding }));
        assert!(Known::read("{\"damaged\":").subjects.is_empty());
    }
}
