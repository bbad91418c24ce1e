//! Gathering what is to be known to explain a job or an occurrence of it, with reads that are bounded whatever is kept.

mod gates;
mod live;
mod occurrence;
mod records;

pub use self::gates::shut;
use self::records::{late_notice, run_facts};
use super::definition::Definition;
use super::folded::past_schedules;
use super::presence::GONE_AFTER;
use crate::domain::deed::Deed;
use crate::domain::explain::{Facts, JobFacts, LateNotice, Loss, NodeFacts, PastSchedule, Place, RunFacts, Source, Subject};
use crate::domain::ids::{JobName, RunId, RunKind};
use crate::domain::notice::{Deadline, NoticeKind, notice_id};
use crate::domain::run::RunState;
use crate::domain::schedule::Schedule;
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;
use crate::store::{JobRecord, LossRecord, NodeRecord, RunRecord, SourceKind, Standing, Store, StoreError};

/// Runs of each kind that are told of a job.
const OPEN_SHOWN: usize = 10;
/// Backfill runs a job may have waiting.
const WAITING: usize = 10_000;
/// Runs that ended looked through for the one meant.
const LOOKED_THROUGH: usize = 50;
/// Pages of so many looked through for a regular one.
const PAGES: usize = 20;

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The job as it is now.
    Job,
    /// Its last occurrence.
    Last,
    /// The occurrence at this instant.
    At(UnixMillis),
    /// This run.
    Run(RunId),
}

/// What is known of a job, and of what is asked about; none if nothing is kept of a job of this name.
pub async fn gather(store: &Store, name: &JobName, ask: &Ask) -> Result<Option<Facts>, StoreError> {
    let now = store.now().await?;
    let record = store.read_job(name).await?;
    // What is told of the rest does not hang on them.
    let (deeds, deeds_error) = match store.read_deeds(name).await {
        Ok(deeds) => (deeds, None),
        Err(error @ StoreError::WrongType { .. }) => (Vec::new(), Some(error.to_string())),
        Err(error) => return Err(error),
    };
    let waiting = store.list_backfill(name, WAITING).await?;
    let (losses, gone) = losses(store, name).await?;
    let past = past_schedules(store, name).await?;
    let known = Known {
        store,
        name,
        now,
        definition: record.clone().map(Definition::of),
        record,
        deeds: &deeds,
        past: &past,
        losses: &losses,
    };
    if known.record.is_none() && gone.is_none() && deeds.is_empty() && store.read_history(Some(name), 0, 1).await?.entries == 0 {
        let ledger = store.read_ledger(name).await?;
        if ledger.ranges.is_empty() && ledger.until.is_none() && !matches!(ask, Ask::Run(_)) {
            return Ok(None);
        }
    }
    let subject = match ask {
        Ask::Job => known.job(waiting.first()).await?,
        Ask::Last => known.last().await?,
        Ask::At(at) => known.at(*at).await?,
        Ask::Run(run) => match known.run(run).await? {
            Some(run) => Subject::Run(Box::new(run)),
            None if !run.is_manual() => known.at(run.due()).await?,
            None if waiting.contains(run) => Subject::ToMakeUp { at: run.due() },
            None => Subject::Unrecorded { at: run.due() },
        },
    };
    let subject = match subject {
        Subject::NotDue { at, .. } | Subject::Unrecorded { at } => known.made_up(at, &waiting).await?.unwrap_or(subject),
        other => other,
    };
    let making_up = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
    let made_up_by = known.made_up_by(&subject, &waiting).await?;
    let queue = known.record.as_ref().filter(|job| job.is_live()).map(|job| job.lane.queue().clone());
    let (zone, job) = (known.zone(), known.facts());
    let mut facts = Facts {
        name: name.clone(),
        now,
        zone,
        job,
        subject,
        deeds,
        past,
        deeds_error,
        losses,
        gone,
        making_up,
        made_up_by,
        nodes: Vec::new(),
        blockers: Vec::new(),
    };
    let looked_at = match &facts.subject {
        Subject::Job { open, .. } => open.first().map_or(now, |run| run.run.due()),
        _ => facts.run().map(|run| run.run.due()).or_else(|| facts.at()).unwrap_or(now),
    };
    let (now, present) = store.list_nodes().await?;
    let there = there(&present, now);
    let node_there = |name: &str| there.iter().find(|node| node.name == name);
    let nodes = store.read_events(looked_at).await?.into_iter();
    facts.nodes = nodes
        .map(|node| NodeFacts {
            serving: node_there(node.node.as_str()).map(|node| node.serving.clone()),
            refuses_file: node_there(node.node.as_str()).map(|node| node.config_error.is_some()),
            name: node.node.to_string(),
            last_seen: node.last_seen,
            started_at: node.started_at,
            events: node.events,
            is_cut: node.is_cut,
        })
        .collect();
    if let Some(lane) = facts.owed().map(|run| run.lane.clone()) {
        facts.blockers = live::keeps(store, &lane, &there).await?;
    } else if let (Subject::Job { .. }, Some(queue)) = (&facts.subject, queue) {
        facts.blockers = live::pause(store, &queue).await?;
    }
    Ok(Some(facts))
}

/// Those of the nodes that are there.
fn there(present: &[NodeRecord], now: UnixMillis) -> Vec<&NodeRecord> {
    present.iter().filter(|node| node.last_seen.is_some_and(|seen| now.since(seen) <= GONE_AFTER)).collect()
}

/// A job that a loss took: when that was noticed, and when it was to run.
type Gone = Option<(UnixMillis, String)>;

/// When Redis lost data, oldest first, and whether the job was lost with it.
async fn losses(store: &Store, name: &JobName) -> Result<(Vec<Loss>, Gone), StoreError> {
    let read = match store.read_losses().await {
        Err(StoreError::WrongType { .. }) => Vec::new(),
        read => read?,
    };
    let took = |record: &LossRecord| {
        let (_, schedule) = record.jobs_gone().into_iter().find(|(gone, _)| gone == name)?;
        Some((record.at?, schedule))
    };
    let gone = read.iter().find_map(took);
    let known = |ms: i64| UnixMillis::new(ms).filter(|at| *at > UnixMillis::EPOCH);
    let told = read.into_iter().rev().filter_map(|record| {
        let mut told_by: Vec<String> = record.reports.iter().map(|report| report.node.clone()).collect();
        told_by.sort();
        let loss = record.loss;
        let (kept, whole) = (known(loss.kept_to_ms), known(loss.whole_at_ms));
        Some(Loss { noticed: record.at?, by: loss.by, what: loss.kind.words(), kept, whole, told_by })
    });
    Ok((told.collect(), gone))
}

/// A job as it was read.
struct Known<'s> {
    store: &'s Store,
    name: &'s JobName,
    now: UnixMillis,
    record: Option<JobRecord>,
    definition: Option<Result<Definition, super::definition::DefinitionError>>,
    deeds: &'s [Deed],
    past: &'s [PastSchedule],
    losses: &'s [Loss],
}

impl Known<'_> {
    fn understood(&self) -> Option<&Definition> {
        self.definition.as_ref()?.as_ref().ok()
    }

    fn zone(&self) -> Zone {
        self.understood().map_or_else(Zone::utc, |definition| definition.timetable.zone().clone())
    }

    fn facts(&self) -> Option<JobFacts> {
        let record = self.record.as_ref()?;
        let definition = match self.definition.as_ref()? {
            Ok(definition) => Ok((definition.spec.clone(), definition.timetable.clone())),
            Err(why) => Err(why.to_string()),
        };
        let nodes =
            || if record.listed_by.is_empty() { vec![record.source.clone()] } else { record.listed_by.keys().cloned().collect() };
        Some(JobFacts {
            definition,
            since: record.since,
            created: record.created.clone(),
            source: if record.kind == SourceKind::File { Source::File(nodes()) } else { Source::Api },
            ended: record.ended.clone().map(|how| (how, record.ended_at)),
            paused_at: record.paused_at,
            runs_left: self.understood().and_then(Definition::runs_left),
            pending: record.pending.as_ref().map(RunId::due),
        })
    }

    /// The pending or held run.
    fn planned(&self) -> Option<&RunId> {
        let record = self.record.as_ref()?;
        record.pending.as_ref().or(record.held.as_ref())
    }

    /// A run with a record, or planned.
    async fn run(&self, run: &RunId) -> Result<Option<RunFacts>, StoreError> {
        let planned = || {
            let lane = self.record.as_ref().map(|job| job.lane.clone())?;
            (self.planned() == Some(run)).then(|| RunRecord::planted(run.clone(), lane))
        };
        match self.store.read_run(run).await?.or_else(planned) {
            Some(record) => Ok(Some(Box::pin(self.of_record(record)).await?)),
            None => Ok(None),
        }
    }

    async fn of_record(&self, mut record: RunRecord) -> Result<RunFacts, StoreError> {
        let standing = if record.state.is_final() {
            Standing { ready: None, is_waiting: false, gate: None, stop_asked_by: None }
        } else {
            let standing = self.store.standing(&record.run, &record.lane, &record.places).await?;
            let is_elsewhere = standing.ready.is_none() && !standing.is_waiting && standing.gate.is_none();
            // One that waited for an open run comes into the lane its job has by then.
            match self.record.as_ref().map(|job| &job.lane).filter(|lane| is_elsewhere && **lane != record.lane) {
                Some(lane) => {
                    let there = self.store.standing(&record.run, lane, &record.places).await?;
                    if there.ready.is_some() {
                        record.lane = lane.clone();
                        there
                    } else {
                        standing
                    }
                }
                None => standing,
            }
        };
        let waits_at = match &standing.gate {
            Some(gate) => Some(Box::pin(self.waits_at(&record.run, &record.lane, gate)).await?),
            None => None,
        };
        // One that is over keeps nobody out.
        if let Some(behind) = record.behind.clone().filter(|_| waits_at.is_some())
            && self.is_over(&behind).await?
        {
            record.behind = None;
        }
        let is_held = self.record.as_ref().is_some_and(|job| job.held.as_ref() == Some(&record.run));
        let place = match (standing.is_waiting, is_held) {
            _ if standing.gate.is_some() => Place::AtGate,
            (true, _) => Place::Waiting,
            (false, true) => Place::Held,
            (false, false) => Place::Queue,
        };
        let late_notices = self.late_notices(&record.run).await?;
        let passed = if place == Place::Queue { Box::pin(self.passed(&record)).await? } else { None };
        Ok(RunFacts { passed, late_notices, ..run_facts(record, standing, place, waits_at) })
    }

    /// What told that a run was late; a notice itself tells of none.
    async fn late_notices(&self, run: &RunId) -> Result<Vec<LateNotice>, StoreError> {
        let mut found = Vec::new();
        for of in Deadline::ALL {
            let Ok(notice) = notice_id(run, NoticeKind::Late, of.as_str()) else { continue };
            // A spoilt record is the doctor's, and keeps nothing else from being told.
            match self.store.read_run(&notice).await {
                Ok(record) => found.extend(record.as_ref().map(|record| late_notice(of, record))),
                Err(error) if error.is_passing() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(found)
    }

    /// The run that makes up for an instant, or is to.
    async fn made_up(&self, at: UnixMillis, waiting: &[RunId]) -> Result<Option<Subject>, StoreError> {
        let id = RunId::backfill(self.name.clone(), at);
        Ok(match self.run(&id).await? {
            Some(run) => Some(Subject::Run(Box::new(run))),
            None => waiting.contains(&id).then_some(Subject::ToMakeUp { at }),
        })
    }

    /// What makes up for an occurrence that did not run, and its state.
    async fn made_up_by(&self, subject: &Subject, waiting: &[RunId]) -> Result<Option<(RunId, RunState)>, StoreError> {
        let at = match subject {
            Subject::Run(run) if run.run.kind() == RunKind::Regular => run.run.due(),
            Subject::Stretch { at, .. } | Subject::Ledger { at, .. } | Subject::BeforeLedger { at, .. } => *at,
            _ => return Ok(None),
        };
        let id = RunId::backfill(self.name.clone(), at);
        let record = self.store.read_run(&id).await?;
        let state = record.map(|record| record.state).or_else(|| waiting.contains(&id).then_some(RunState::Scheduled));
        Ok(state.map(|state| (id, state)))
    }

    /// The job as it is now: what is open of it, oldest due first, and what ended last.
    async fn job(&self, made_up: Option<&RunId>) -> Result<Subject, StoreError> {
        let (store, name) = (self.store, self.name);
        let (mut ids, mut rest): (Vec<RunId>, Vec<RunId>) = (Vec::new(), Vec::new());
        for mut some in [store.list_open(name).await?, store.list_waiting(name).await?, store.list_spread(name).await?] {
            rest.extend(some.split_off(some.len().min(OPEN_SHOWN)));
            ids.extend(some);
        }
        ids.extend(store.list_manual(name).await?.into_iter().take(OPEN_SHOWN));
        ids.extend(self.record.as_ref().and_then(|job| job.pending.clone()).filter(|run| run.due() <= self.now));
        ids.extend(made_up.cloned());
        ids.sort_by(|a, b| a.due().cmp(&b.due()).then_with(|| a.cmp(b)));
        ids.dedup();
        rest.sort();
        rest.dedup();
        let more = rest.iter().filter(|run| !ids.contains(run)).count() as u64;
        let mut open = Vec::new();
        for id in &ids {
            open.extend(self.run(id).await?.filter(|run| !run.state.is_final()));
        }
        let last = match store.read_history(Some(name), 0, 1).await?.runs.pop() {
            Some(record) => Some(Box::new(Box::pin(self.of_record(record)).await?)),
            None => None,
        };
        Ok(Subject::Job { open, more, last })
    }

    /// Whether it has a schedule by whose times it runs.
    fn has_times(&self) -> bool {
        self.understood().is_some_and(|job| job.spec.schedule != Schedule::Manual && !job.spec.schedule.is_at_boot())
    }

    /// The last regular occurrence up to now; of a job that has none the last run asked for by hand.
    async fn last(&self) -> Result<Subject, StoreError> {
        let (store, name) = (self.store, self.name);
        let mut ids: Vec<RunId> = self.planned().filter(|run| run.due() <= self.now).cloned().into_iter().collect();
        for some in [store.list_open(name).await?, store.list_waiting(name).await?, store.list_spread(name).await?] {
            ids.extend(some.into_iter().max_by_key(|run| (!run.is_manual(), run.due())));
        }
        let mut found: Vec<(UnixMillis, RunId)> = ids.into_iter().map(|run| (run.due(), run)).collect();
        for page in 0..PAGES {
            let ended = store.read_history(Some(name), page * LOOKED_THROUGH, LOOKED_THROUGH).await?;
            let last = |record: &RunRecord| record.skipped.map_or_else(|| record.run.due(), |(last, _)| last);
            found.extend(ended.runs.into_iter().map(|record| (last(&record), record.run)));
            if ended.entries < LOOKED_THROUGH || found.iter().any(|(_, run)| !run.is_manual()) {
                break;
            }
        }
        let newest = found.into_iter().max_by_key(|(due, run)| (!run.is_manual(), *due));
        match newest.filter(|(_, run)| !run.is_manual() || !self.has_times()) {
            Some((at, id)) => Ok(match self.run(&id).await? {
                Some(run) if at != id.due() => Subject::Stretch { at, run: Box::new(run) },
                Some(run) => Subject::Run(Box::new(run)),
                None => Subject::Never,
            }),
            None => match store.read_ledger(name).await?.ranges.iter().map(|range| range.to).max() {
                Some(at) => self.at(at).await,
                None => Ok(Subject::Never),
            },
        }
    }
}
