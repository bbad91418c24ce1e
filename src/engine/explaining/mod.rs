//! Gathering what is to be known to explain a job or an occurrence of it, with reads that are bounded whatever is kept.

mod records;

use std::time::Duration;

use self::records::run_facts;
use super::definition::Definition;
use super::presence::GONE_AFTER;
use crate::domain::deed::Deed;
use crate::domain::explain::{Facts, Held, JobFacts, NodeFacts, Place, RunFacts, Source, Subject};
use crate::domain::gate::Gate;
use crate::domain::ids::{JobName, RunId};
use crate::domain::schedule::Schedule;
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;
use crate::store::{JobRecord, Ledger, LedgerRange, NodeRecord, RunRecord, SourceKind, Standing, Store, StoreError};

/// Runs of each kind that are told of a job.
const OPEN_SHOWN: usize = 10;
/// Backfill runs a job may have waiting.
const WAITING: usize = 10_000;
/// Runs that ended looked through for the one meant.
const LOOKED_THROUGH: usize = 50;
/// Pages of so many looked through for a regular one.
const PAGES: usize = 20;
/// As long as history is kept: of what was due within it there is a record, unless newer ones pushed it out.
const HISTORY_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

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
    let (deeds, spoilt_deeds) = match store.read_deeds(name).await {
        Ok(deeds) => (deeds, None),
        Err(error @ StoreError::WrongType { .. }) => (Vec::new(), Some(error.to_string())),
        Err(error) => return Err(error),
    };
    let waiting = store.list_backfill(name, WAITING).await?;
    let known = Known { store, name, now, definition: record.clone().map(Definition::of), record, deeds: &deeds };
    if known.record.is_none() && deeds.is_empty() && store.read_history(Some(name), 0, 1).await?.entries == 0 {
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
    let losses = losses(store).await?;
    let making_up = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
    let (zone, job) = (known.zone(), known.facts());
    let mut facts =
        Facts { name: name.clone(), now, zone, job, subject, deeds, spoilt_deeds, losses, making_up, nodes: Vec::new() };
    let looked_at = match &facts.subject {
        Subject::Job { open, .. } => open.first().map_or(now, |run| run.run.due()),
        _ => facts.run().map(|run| run.run.due()).or_else(|| facts.at()).unwrap_or(now),
    };
    let (now, present) = store.list_nodes().await?;
    let serving = |name: &str| {
        let is_there = |node: &&NodeRecord| node.name == name && node.last_seen.is_some_and(|seen| now.since(seen) <= GONE_AFTER);
        present.iter().find(is_there).map(|node| node.serving.clone())
    };
    let nodes = store.read_events(looked_at).await?.into_iter();
    facts.nodes = nodes
        .map(|node| NodeFacts {
            serving: serving(node.node.as_str()),
            name: node.node.to_string(),
            last_seen: node.last_seen,
            started_at: node.started_at,
            events: node.events,
        })
        .collect();
    Ok(Some(facts))
}

/// When Redis lost data, oldest first.
async fn losses(store: &Store) -> Result<Vec<(UnixMillis, Option<UnixMillis>)>, StoreError> {
    let read = match store.read_losses().await {
        Err(StoreError::WrongType { .. }) => Vec::new(),
        read => read?,
    };
    let told = read.into_iter().rev().filter_map(|record| Some((record.at?, UnixMillis::new(record.loss.whole_at_ms))));
    Ok(told.map(|(noticed, whole)| (noticed, whole.filter(|at| *at > UnixMillis::EPOCH))).collect())
}

/// A job as it was read.
struct Known<'s> {
    store: &'s Store,
    name: &'s JobName,
    now: UnixMillis,
    record: Option<JobRecord>,
    definition: Option<Result<Definition, super::definition::DefinitionError>>,
    deeds: &'s [Deed],
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
            Some(record) => Ok(Some(self.of_record(record).await?)),
            None => Ok(None),
        }
    }

    async fn of_record(&self, record: RunRecord) -> Result<RunFacts, StoreError> {
        let standing = if record.state.is_final() {
            Standing { ready: None, is_waiting: false, gate: None, stop_asked_by: None }
        } else {
            self.store.standing(&record.run, &record.lane, &record.places).await?
        };
        let group = standing.gate.as_ref().and_then(Gate::group);
        let turn = match group {
            Some(group) => self.store.read_group_standings(&[group]).await?.pop().and_then(|standing| standing.turn),
            None => None,
        };
        let turn = turn.map(|(job, _)| job.to_string()).filter(|job| !job.is_empty());
        let is_held = self.record.as_ref().is_some_and(|job| job.held.as_ref() == Some(&record.run));
        let place = match (standing.is_waiting, is_held) {
            _ if standing.gate.is_some() => Place::AtGate,
            (true, _) => Place::Waiting,
            (false, true) => Place::Held,
            (false, false) => Place::Queue,
        };
        Ok(run_facts(record, standing, place, turn))
    }

    /// The run that makes up for an instant, or is to.
    async fn made_up(&self, at: UnixMillis, waiting: &[RunId]) -> Result<Option<Subject>, StoreError> {
        let id = RunId::backfill(self.name.clone(), at);
        Ok(match self.run(&id).await? {
            Some(run) => Some(Subject::Run(Box::new(run))),
            None => waiting.contains(&id).then_some(Subject::ToMakeUp { at }),
        })
    }

    /// The job as it is now: what is open of it, oldest due first, and what ended last.
    async fn job(&self, made_up: Option<&RunId>) -> Result<Subject, StoreError> {
        let (store, name) = (self.store, self.name);
        let mut ids: Vec<RunId> = Vec::new();
        for mut some in [store.list_open(name).await?, store.list_waiting(name).await?, store.list_spread(name).await?] {
            some.truncate(OPEN_SHOWN);
            ids.extend(some);
        }
        // Manual runs stand in no index of their job; those asked for lately are known by that.
        let asked = self.deeds.iter().rev().filter(|deed| deed.what == Deed::RUN_ASKED).take(OPEN_SHOWN);
        ids.extend(asked.filter_map(|deed| deed.run.as_ref()?.parse::<RunId>().ok()));
        ids.extend(self.record.as_ref().and_then(|job| job.pending.clone()).filter(|run| run.due() <= self.now));
        ids.extend(made_up.cloned());
        ids.sort_by(|a, b| a.due().cmp(&b.due()).then_with(|| a.cmp(b)));
        ids.dedup();
        let mut open = Vec::new();
        for id in &ids {
            open.extend(self.run(id).await?.filter(|run| !run.state.is_final()));
        }
        let last = match store.read_history(Some(name), 0, 1).await?.runs.pop() {
            Some(record) => Some(Box::new(self.of_record(record).await?)),
            None => None,
        };
        Ok(Subject::Job { open, last })
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

    /// The occurrence at an instant.
    async fn at(&self, at: UnixMillis) -> Result<Subject, StoreError> {
        if let Some(run) = self.run(&RunId::regular(self.name.clone(), at)).await? {
            return Ok(Subject::Run(Box::new(run)));
        }
        // Whoever names a second means the run due within it: one-shots and runs by hand are due at a millisecond.
        let is_meant = |run: &RunId| run.due() == at || run.due().floor_to_second() == at;
        let ended = self.store.read_ended_from(self.name, at, LOOKED_THROUGH).await?;
        let mut candidates: Vec<RunId> = self.planned().cloned().into_iter().collect();
        candidates.extend(self.store.list_open(self.name).await?);
        candidates.extend(ended.iter().map(|record| record.run.clone()));
        if let Some(id) = candidates.iter().find(|run| is_meant(run))
            && let Some(run) = self.run(id).await?
        {
            return Ok(Subject::Run(Box::new(run)));
        }
        let held = self.held(at);
        let is_occurrence = held.is_occurrence(at);
        let covers = |record: &&RunRecord| record.skipped.is_some_and(|(last, _)| record.run.due() <= at && at <= last);
        if let Some(record) = ended.iter().find(covers)
            && is_occurrence != Some(false)
        {
            return Ok(Subject::Stretch { at, run: Box::new(self.of_record(record.clone()).await?) });
        }
        if at > self.now {
            return Ok(if is_occurrence == Some(true) { Subject::ToCome { at } } else { self.not_due(at, &ended).await? });
        }
        let ledger = self.store.read_ledger(self.name).await?;
        if let Some(range) = ledger.fate_at(at)
            && (is_occurrence != Some(false) || range.ends_at(at))
        {
            let is_sure = range.ends_at(at) || self.is_filled(&held, &ledger, range).await?;
            let (state, reason) = (range.state.as_str().to_owned(), range.reason.clone().unwrap_or_default());
            return Ok(Subject::Ledger { at, state, reason, first: range.from, last: range.to, count: range.count, is_sure });
        }
        if is_occurrence == Some(false) {
            return self.not_due(at, &ended).await;
        }
        if let Some(until) = ledger.until.filter(|until| *until >= at) {
            let counts = ledger.before.into_iter().map(|(state, count)| (state.replace('_', " "), count)).collect();
            return Ok(Subject::BeforeLedger { at, counts, until });
        }
        if is_occurrence == Some(true) {
            return self.undone(at).await;
        }
        if self.is_within_history(at).await? {
            return self.not_due(at, &ended).await;
        }
        Ok(Subject::Unrecorded { at })
    }

    /// The schedule that held at an instant, as far as the deeds tell.
    fn held(&self, at: UnixMillis) -> Held {
        match self.understood() {
            Some(job) => Held::at(self.deeds, self.name, &job.spec, &job.timetable, (job.record.anchor, job.record.since), at),
            None => Held::Unknown,
        }
    }

    /// Whether all of the schedule's occurrences between the ends of a range are accounted for: by it, by others within it, or
    /// by records.
    async fn is_filled(&self, held: &Held, ledger: &Ledger, range: &LedgerRange) -> Result<bool, StoreError> {
        let Some(wanted) = held.count_in(range.from, range.to) else { return Ok(false) };
        let is_within = |from: UnixMillis, to: UnixMillis| range.from <= from && to <= range.to;
        let folded: u64 = ledger.ranges.iter().filter(|one| is_within(one.from, one.to)).map(|one| one.count).sum();
        if folded >= wanted {
            return Ok(true);
        }
        let recorded = self.store.read_ended_from(self.name, range.from, LOOKED_THROUGH).await?;
        let regular = recorded.iter().filter(|record| !record.run.is_manual() && is_within(record.run.due(), record.run.due()));
        let recorded: u64 = regular.map(|record| record.skipped.map_or(1, |(_, count)| count)).sum();
        Ok(folded.saturating_add(recorded) >= wanted)
    }

    /// An occurrence of the schedule up to now without a record.
    async fn undone(&self, at: UnixMillis) -> Result<Subject, StoreError> {
        let Some(planned) = self.planned().filter(|run| run.due() < at).cloned() else { return Ok(Subject::Unrecorded { at }) };
        let Some(run) = self.run(&planned).await? else { return Ok(Subject::Unrecorded { at }) };
        Ok(if run.place == Place::Held {
            Subject::Run(Box::new(RunFacts { run: RunId::regular(self.name.clone(), at), ready: None, ready_at: at, ..run }))
        } else {
            Subject::Behind { at, run: Box::new(run) }
        })
    }

    /// Whether all that was due at an instant would have a record: history reaches back to it, or the job was made later.
    async fn is_within_history(&self, at: UnixMillis) -> Result<bool, StoreError> {
        let Some(job) = &self.record else { return Ok(false) };
        let oldest = self.store.read_ended_from(self.name, UnixMillis::EPOCH, 1).await?.pop();
        let reaches_back = match oldest {
            Some(run) => run.finished_at.is_some_and(|ended| ended <= at),
            None => self.now.since(at) < HISTORY_AGE,
        };
        Ok(reaches_back || job.created.as_ref().is_some_and(|(created, _)| *created > at))
    }

    /// Nothing was due at `at`: with what was before and after.
    async fn not_due(&self, at: UnixMillis, ended_after: &[RunRecord]) -> Result<Subject, StoreError> {
        let Some(definition) = self.understood() else { return Ok(Subject::Unrecorded { at }) };
        let (timetable, since) = (&definition.timetable, definition.record.since);
        let scheduled_before = if since <= at { timetable.latest_in(since, at) } else { None };
        let before = match scheduled_before {
            Some(before) => Some(before),
            None => self.before(at).await?,
        };
        let recorded_after = ended_after.iter().map(|record| record.run.due()).filter(|due| *due > at).min();
        let after = timetable.next_after(at.max(since));
        let after = if since <= at { after } else { recorded_after.or(after) };
        Ok(Subject::NotDue { at, before, after })
    }

    /// The due time of the run that ended last before an instant.
    async fn before(&self, at: UnixMillis) -> Result<Option<UnixMillis>, StoreError> {
        let ended = crate::store::Ended { job: Some(self.name.clone()), until: Some(at), ..crate::store::Ended::history() };
        Ok(self.store.read_ended(&ended, 0, 1).await?.runs.pop().map(|record| record.run.due()))
    }
}
