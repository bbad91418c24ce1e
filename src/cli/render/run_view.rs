//! A run as `history` and `show` print it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde_json::{Map, Value, json};

use super::attempts::{facts_in_words, first_start, waited};
use super::console::{Colour, Console};
use super::lane_words::labels_json;
use super::resource_lines::{RESOURCE_HEADERS, resource_cells, resources_json};
use super::table::{Cell, Table};
use super::time_words::{Detail, rfc3339, shown_in, span};
use crate::cli::failure::CliFailure;
use crate::cli::local_zone::local_zone;
use crate::cli::merged_places::{MergedPlaces, Placed};
use crate::cli::runs::short_ids::ShortIds;
use schedd::engine::Definition;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness::{Due, SkipCause, skip_cause};
use schedd_schedule::names::{Fence, JobName, RunId, RunKind};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::skipped_count;
use schedd_store::{LetIn, REFUSED, RunRecord, Store};

/// A cache for the definitions of jobs, which have the zones. Each definition is read once.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    known: BTreeMap<JobName, Option<Definition>>,
}

impl Zones {
    /// Reads the zones of these jobs, except the zones that are already in the cache.
    async fn read_for(&mut self, store: &Store, mut names: Vec<JobName>) -> Result<(), CliFailure> {
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !self.known.contains_key(name));
        let records = store.read_jobs(&names).await?;
        for (name, record) in names.into_iter().zip(records) {
            let definition = record.ok().flatten().and_then(|record| Definition::of(record).ok());
            self.known.insert(name, definition);
        }
        Ok(())
    }
}

/// A run and the zone of its job, or UTC if the zone is not known.
#[derive(Debug)]
pub(crate) struct RunView {
    /// The stored record of the run.
    pub(crate) record: RunRecord,
    /// The zone of the run's job.
    pub(crate) zone: Zone,
    /// A phrase about the run's place at a gate. `None` if the run has started, or never had a
    /// place.
    pub(crate) let_in: Option<String>,
    /// The rule because of which the run was skipped as missed. `None` if it is not known.
    pub(crate) skip_cause: Option<SkipCause>,
}

/// Returns the given runs, each with the zone of its job and its place at a gate. Zones that are
/// read are kept in `zones`.
pub(crate) async fn view_runs(
    store: &Store,
    zones: &mut Zones,
    mut runs: Vec<RunRecord>,
) -> Result<Vec<RunView>, CliFailure> {
    let jobs = runs.iter().map(|run| run.run.job().clone()).collect();
    let ((), let_in) =
        tokio::try_join!(zones.read_for(store, jobs), forget_gates_passed(store, &mut runs))?;
    let view = |(record, let_in): (RunRecord, Option<String>)| {
        let definition = zones.known.get(record.run.job()).and_then(Option::as_ref);
        RunView {
            zone: definition.map_or_else(Zone::utc, |known| known.timetable.zone().clone()),
            skip_cause: definition.and_then(|known| cause_of_skip(known, &record)),
            record,
            let_in,
        }
    };
    Ok(runs.into_iter().zip(let_in).map(view).collect())
}

/// Returns the given runs of several places, as [`view_runs`] does for one place.
pub(crate) async fn view_placed_runs(
    places: &MergedPlaces,
    runs: Vec<Placed<RunRecord>>,
) -> Result<Vec<RunView>, CliFailure> {
    let view =
        |store: Store, runs| async move { view_runs(&store, &mut Zones::default(), runs).await };
    Ok(places.by_place(runs, view).await?.into_iter().map(|(_, view)| view).collect())
}

/// Returns the rule because of which a run was skipped as missed. Returns `None` for any other run,
/// and if the present definition of the job does not skip the run.
fn cause_of_skip(definition: &Definition, record: &RunRecord) -> Option<SkipCause> {
    let is_missed = record.state == RunState::Skipped && record.reason.as_deref() == Some("missed");
    let Definition { spec, timetable, .. } = definition;
    skip_cause(Due {
        timetable,
        since: definition.record.since,
        taken: record.run.due(),
        catch_up: &spec.catch_up,
        skip_if_late: spec.shape.skip_if_late,
        late_after: spec.late_after,
        due: record.run.due(),
        not_before: definition.not_before(),
        now: record.finished_at.filter(|_| is_missed)?,
    })
}

/// Clears the outdated `waiting_for` of each run that is no longer a waiter of its gate and so
/// waits only for its queue. Returns for each run a phrase if the run has or lost a place at a
/// gate, else `None`.
async fn forget_gates_passed(
    store: &Store,
    runs: &mut [RunRecord],
) -> Result<Vec<Option<String>>, CliFailure> {
    let is_at_gate = |run: &&mut RunRecord| {
        run.state == RunState::Scheduled
            && run.waiting_for.as_ref().is_some_and(|what| what != "overlap")
    };
    let mut at_gates: Vec<&mut RunRecord> = runs.iter_mut().filter(is_at_gate).collect();
    let names: Vec<RunId> = at_gates.iter().map(|run| run.run.clone()).collect();
    let queued = store.queued_among(&names.iter().collect::<Vec<_>>()).await?;
    for (run, _) in at_gates.iter_mut().zip(queued).filter(|(_, is_queued)| !is_queued) {
        run.waiting_for = None;
    }
    try_join_all(runs.iter().map(async |run| {
        let is_let_in = run.state == RunState::Scheduled && run.waiting_for.is_none();
        let gates = if is_let_in { run.places.as_slice() } else { &[] };
        Ok(let_in_words(gates, &store.read_let_in(&run.run, gates).await?))
    }))
    .await
}

/// Returns a phrase for a run that has a place at a gate, or that lost its place. Returns `None`
/// for any other run.
fn let_in_words(gates: &[Gate], places: &[Option<LetIn>]) -> Option<String> {
    let gate_of = |wanted: fn(&LetIn) -> bool| {
        gates
            .iter()
            .zip(places)
            .find(|(_, place)| place.as_ref().is_some_and(wanted))
            .map(|(gate, _)| gate.words())
    };
    match gate_of(|place| *place == LetIn::GaveUp) {
        Some(gate) => Some(format!("lost its place at {gate} because it did not start")),
        None => gate_of(|place| matches!(place, LetIn::Since(_)))
            .map(|gate| format!("has a place at {gate} but has not started")),
    }
}

impl RunView {
    /// Returns true if the last attempt of the run is running.
    fn is_running(&self) -> bool {
        self.record.state == RunState::Running
    }

    /// Returns the time between the run's due time and the start of its first attempt. Returns
    /// `None` for a run that has not started, and for reruns, backfill runs and notices, which are
    /// never late.
    fn late(&self) -> Option<Duration> {
        let kind = self.record.run.kind();
        // Reruns and backfill runs are not late: they belong to an earlier time.
        let is_of_now = matches!(kind, RunKind::Regular | RunKind::Manual | RunKind::Boot);
        // A notice is not late either: it has the due time of the run that it reports.
        // A child starts when its parents have ended.
        let is_of_now =
            is_of_now && !self.record.run.job().is_hidden() && self.record.parents.is_empty();
        first_start(&self.record).filter(|_| is_of_now).map(|at| at.since(self.record.run.due()))
    }

    /// Returns the open run or the gate for which the run waits, as text. Returns `None` if the run
    /// waits for neither.
    pub(crate) fn waiting_for(&self) -> Option<String> {
        match self.record.waiting_for.as_deref()? {
            "overlap" => Some("an open run of its job".to_owned()),
            what => Some(
                Gate::from_name(&what.replacen(' ', ":", 1))
                    .map_or_else(|| what.to_owned(), |gate| gate.words()),
            ),
        }
    }

    /// Returns the reason for the run's state, and the reason why the time that the run set for the
    /// next run was refused; `None` if there is neither.
    pub(crate) fn reason(&self) -> Option<String> {
        let refused = self.record.next.as_deref().and_then(|next| next.strip_prefix(REFUSED));
        let refused = refused.map(|why| format!("next run not set: {why}"));
        let reasons: Vec<String> = self.state_reason().into_iter().chain(refused).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    fn state_reason(&self) -> Option<String> {
        let record = &self.record;
        let waits_for_retry = record.state == RunState::Scheduled && record.attempt > 0;
        let reason = record.reason.clone().filter(|_| !waits_for_retry);
        match record.state {
            RunState::Running | RunState::Succeeded => {
                record.reason.clone().filter(|_| !self.is_running())
            }
            RunState::TimedOut => reason.or_else(|| record.error.clone()),
            _ => reason.or_else(|| facts_in_words(record)).or_else(|| record.reason.clone()),
        }
    }

    /// Returns the node of a run of a job on each node. Only this node may start the run.
    pub(crate) fn own_node(&self) -> Option<String> {
        self.record.run.job().instance().map(|(_, node)| node.to_string())
    }

    /// Returns the time that the run set for the next run, in the zone of the job, or the reason why
    /// the time was refused.
    fn next_set(&self) -> Option<String> {
        let text = self.record.next.as_deref()?;
        let at = text.parse().ok().and_then(UnixMillis::from_timestamp);
        Some(at.map_or_else(|| text.to_owned(), |at| rfc3339(at, &self.zone)))
    }

    /// Returns the fields of the run for `history --json`, with times in the zone of its job.
    pub(crate) fn json(&self) -> Map<String, Value> {
        let record = &self.record;
        let ended = !self.is_running();
        let millis = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let time = |at: Option<UnixMillis>| at.map(|at| rfc3339(at, &self.zone));
        let fields = [
            ("run_id", json!(record.run.to_string())),
            ("job", json!(record.run.job().defined().as_str())),
            ("kind", json!(record.run.kind().as_str())),
            ("queue", json!(record.lane.queue().as_str())),
            ("priority", json!(record.lane.priority().as_i8())),
            ("requires", labels_json(record.lane.requires())),
            ("due", json!(time(Some(record.run.due())))),
            ("state", json!(record.state.as_str())),
            ("attempt", json!(record.attempt)),
            ("fence", json!(record.fence.map(Fence::as_u64))),
            ("node", json!(record.node.clone().or_else(|| self.own_node()))),
            ("started_at", json!(time(record.started_at))),
            ("finished_at", json!(time(record.finished_at))),
            ("late_ms", json!(self.late().map(millis))),
            ("duration_ms", json!(self.record.took().map(millis))),
            ("waited_ms", json!(waited(record).map(millis))),
            ("recorded_after_ms", json!(record.recorded_after().map(millis))),
            ("exit_code", json!(record.exit_code.filter(|_| ended))),
            ("signal", json!(record.signal.filter(|_| ended))),
            ("http_status", json!(record.http_status.filter(|_| ended))),
            ("reason", json!(self.reason())),
            ("next", json!(self.next_set())),
            ("by", json!(record.by)),
            ("note", json!(record.note)),
            ("error", json!(record.error.clone().filter(|_| ended))),
            ("left_processes", json!(record.left_processes)),
            ("not_enforced", json!(record.not_enforced)),
            ("skipped_to", json!(time(record.skipped.map(|(to, _)| to)))),
            ("skipped_count", json!(record.skipped.map(|(_, count)| count))),
        ];
        let used = resources_json(record.resources.as_ref().filter(|_| ended));
        fields.into_iter().chain(used).map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Returns the cells of the run's row in [`RunTable`], with times in the zone `local` and the
    /// short id.
    fn cells(&self, ids: &ShortIds, local: &Zone, detail: Detail) -> [Cell; 8] {
        let record = &self.record;
        let attempt = Some(record.attempt.to_string()).filter(|_| record.attempt > 0);
        [
            Cell::new(shown_in(
                detail,
                record.run.due(),
                local,
                record.finished_at.unwrap_or(record.run.due()),
            )),
            Cell::maybe(self.late().map(span)),
            Cell::maybe(self.record.took().map(span)),
            Cell::new(record.state.as_str()).coloured(record.state.into()),
            Cell::maybe(attempt),
            Cell::maybe(record.node.as_deref()),
            Cell::new(ids.of(&record.run)),
            Cell::maybe(self.reason_with_count()),
        ]
    }

    fn reason_with_count(&self) -> Option<String> {
        let reason = self.reason().map(|reason| match self.skip_cause {
            Some(SkipCause::NewerDue(_)) => format!("{reason}: a newer occurrence was due"),
            Some(SkipCause::TooMany) => format!("{reason}: more than max_count were due"),
            Some(SkipCause::OlderThanMaxAge(_)) => format!("{reason}: older than max_age"),
            Some(SkipCause::OlderThanSkipIfLate(_)) => format!("{reason}: skip_if_late"),
            Some(SkipCause::Late) => format!("{reason}: later than late_after"),
            None => reason,
        });
        match (reason, self.record.skipped) {
            (Some(reason), Some((_, count))) if count > 1 => {
                Some(format!("{reason}, {} occurrences", skipped_count(count)))
            }
            (Some(reason), None) if self.record.by.is_some() => {
                Some(format!("{reason} by {}", self.record.by.as_deref().unwrap_or_default()))
            }
            (None, _) => self
                .waiting_for()
                .map(|what| format!("waits for {what}"))
                .or_else(|| self.let_in.clone()),
            (reason, _) => reason,
        }
    }
}

/// The columns of a table of runs: the usual ones, or also the time waited and the resources.
#[derive(Debug)]
enum RunColumns {
    Usual(Table<8>),
    Wide(Table<14>),
}

/// A table of runs, printed page by page.
#[derive(Debug)]
pub(crate) struct RunTable {
    columns: RunColumns,
    local: Zone,
    is_zone_named: bool,
}

impl RunTable {
    /// Creates a table with times in this host's zone.
    pub(crate) fn new() -> Self {
        let headers = ["DUE", "LATE", "TOOK", "STATE", "ATTEMPT", "NODE", "RUN", "REASON"];
        Self::with(RunColumns::Usual(Table::new(headers)))
    }

    /// Creates a table that also has the time that each run waited and the resources it used.
    pub(crate) fn wide() -> Self {
        let [waited, user, system, memory, read, written] = RESOURCE_HEADERS;
        Self::with(RunColumns::Wide(Table::new([
            "DUE", "LATE", waited, "TOOK", user, system, memory, read, written, "STATE", "ATTEMPT",
            "NODE", "RUN", "REASON",
        ])))
    }

    fn with(columns: RunColumns) -> Self {
        Self { columns, local: local_zone(), is_zone_named: false }
    }

    /// Adds the given runs as rows, with short ids from `ids`.
    pub(crate) fn add(&mut self, runs: &[RunView], ids: &ShortIds, console: &mut Console) {
        if !runs.is_empty() && !std::mem::replace(&mut self.is_zone_named, true) {
            console.note_zone(&self.local);
        }
        let usual = runs.iter().map(|run| run.cells(ids, &self.local, console.detail()));
        match &mut self.columns {
            RunColumns::Usual(table) => {
                let rows = usual.collect();
                table.add(rows, console);
            }
            RunColumns::Wide(table) => {
                let wide = usual.zip(runs).map(|(cells, run)| {
                    let [due, late, took, state, attempt, node, id, reason] = cells;
                    let [waited, user, system, memory, read, written] =
                        resource_cells(waited(&run.record), run.record.resources.as_ref());
                    [
                        due, late, waited, took, user, system, memory, read, written, state,
                        attempt, node, id, reason,
                    ]
                });
                let rows = wide.collect();
                table.add(rows, console);
            }
        }
    }

    /// Prints the rows that were added and not yet printed.
    pub(crate) fn end(&mut self, console: &mut Console) {
        match &mut self.columns {
            RunColumns::Usual(table) => table.end(console),
            RunColumns::Wide(table) => table.end(console),
        }
    }
}

/// Converts a run's state to the colour in which the state is shown.
impl From<RunState> for Colour {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Succeeded | RunState::Running => Self::Green,
            RunState::Failed | RunState::TimedOut | RunState::Lost => Self::Red,
            RunState::Cancelled | RunState::Skipped => Self::Yellow,
            RunState::Scheduled => Self::Plain,
        }
    }
}
