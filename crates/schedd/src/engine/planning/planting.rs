//! Applies definitions: turns a checked definition into a job in Redis, and adds the job's first
//! run to the due set. A caller may repeat a request at any time.
//!
//! Each round reads the job, computes its dates from Redis' time, and applies the definition. A
//! script that answers `stale` or `occupied` has changed nothing, because the job changed after it
//! was read. The next round then begins with the new state.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use super::job_operations::{ENDED_AT_ONCE, cancel_run};
use super::passed_ranges::unrecorded;
use super::unique_add::{KeyHolder, read_key_holders, release_finished};
use crate::engine::chains::chain_check::ParentFault;
use crate::engine::dispatch::definition::{Definition, planned as planned_run};
use schedd_core::config;
use schedd_core::config::StoredJob;
use schedd_core::domain::job::job_spec::JobSpec;
use schedd_core::domain::job::job_spec::gates_of;
use schedd_core::domain::job::notice::notify_words;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::chain::parents::Parents;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::{Zone, ZoneError};
use schedd_schedule::timetable::Timetable;
use schedd_store::{
    ApplyOrder, ApplyReply, DefinitionChange, Existing, JobRecord, Rev, SourceKind, Store,
    StoreError, UniqueOrder,
};

/// The most rounds for a job that changes between reading and writing.
const ROUNDS: usize = 8;

/// The most times the same changes are sent if Redis does not answer. Redis may have made the
/// changes without an answer. The store opens another connection after three calls without an
/// answer.
const TRIES: usize = 4;
/// The pause before the same changes are sent again.
const PAUSE: Duration = Duration::from_millis(100);

/// A request to apply a definition to a job.
#[derive(Debug, Clone)]
pub struct Request {
    /// The name of the job.
    pub name: JobName,
    /// True if the name was drawn at random, so that most likely no job has it.
    pub is_drawn: bool,
    /// The checked definition to apply.
    pub spec: Arc<JobSpec>,
    /// The delay of a one-shot, counted from Redis' time at the start of the request. `None` if the
    /// schedule has fixed times.
    pub start_in: Option<Duration>,
    /// The kind of source the definition comes from.
    pub kind: SourceKind,
    /// The name of the node or applied file that defines the job. Empty for a job of the command
    /// line.
    pub source: String,
    /// The action if a live job already has the name.
    pub existing: Existing,
    /// The revision on which an edit was based. If the job has another revision by now, the job is
    /// not changed. `None` changes the job at any revision.
    pub seen: Option<Rev>,
}

impl Request {
    /// Returns the request to apply a job of the file `source`.
    pub(super) fn of_file(
        name: &JobName,
        job: &StoredJob,
        source: &SourceName,
    ) -> Result<Self, StoreError> {
        let spec = job.spec().map_err(|error| {
            StoreError::corrupt(format!("job {name} of the jobs file"), error.to_string())
        })?;
        Ok(Self {
            name: name.clone(),
            is_drawn: false,
            spec: Arc::new(spec),
            start_in: None,
            kind: SourceKind::File,
            source: source.as_str().to_owned(),
            existing: Existing::Edit,
            seen: None,
        })
    }
}

/// The result of a request to apply a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// A new job was added. The value is the due time of its first run, if any.
    Created(Option<UnixMillis>),
    /// The job was changed. The value is the due time of the next run, if the change planned that
    /// run again.
    Updated(Option<UnixMillis>),
    /// The job already had the requested definition.
    Unchanged,
    /// An existing job was changed instead, because it has the unique key and has not begun. The
    /// values are the name of that job and the due time of its next run.
    Moved(JobName, Option<UnixMillis>),
    /// Nothing was changed, because another job has the unique key. The value is the name of that
    /// job.
    Taken(JobName),
    /// Nothing was changed, because a job of this name already exists.
    Exists,
    /// Nothing was changed, because another client changed the job first. The value is the present
    /// revision of the job.
    Newer(Rev),
    /// Nothing was changed, because the name belongs to a job of the other kind of source (a file,
    /// or the command line). The value is the name of that kind.
    OtherKind(String),
    /// Nothing was planned, because this time of a one-shot from a file is past. An edit of a file
    /// never starts a job.
    Past(UnixMillis),
    /// Nothing was planned, because a one-shot of the same name has already run at this time.
    Done(UnixMillis),
}

/// The reason why a request to apply a definition failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PlantingError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The time zone of the definition is not known on this host.
    #[error(transparent)]
    Zone(#[from] ZoneError),
    /// Another client changed the job at every round.
    #[error(
        "job {0} keeps changing, because another client edits the job at the same time; try again"
    )]
    Contended(JobName),
    /// The parents of the job are refused.
    #[error("job {0}: {1}")]
    Parents(JobName, ParentFault),
    /// The edit would move the job to another place: its queue or its key is another.
    #[error(
        "job {job} is in the namespace {found}, and the new definition belongs to {wanted}: keep the queue and the key of the job, or cancel the job first"
    )]
    Elsewhere {
        /// The name of the job.
        job: JobName,
        /// The namespace that has the job.
        found: String,
        /// The namespace of the new definition.
        wanted: String,
    },
    /// The job needs a new lane, and Redis has as many lanes as nodes poll.
    #[error(
        "the queue, priority and labels of job {job} need the new lane {lane}, but there are 10,000 lanes, the most that nodes read; use the queue, priority and labels of another job (lanes unused for 90 days are removed)"
    )]
    NoLane {
        /// The name of the job.
        job: JobName,
        /// The lane that the job needs.
        lane: String,
    },
}

struct Open<'a> {
    index: usize,
    request: &'a Request,
    spec: Arc<JobSpec>,
    token: String,
    not_before: UnixMillis,
}

/// Applies several requests, and returns their results in the order of the requests. A refused
/// request does not affect the other requests. Also returns the indexes of the requests that changed
/// a job which has or had an instance on each node.
pub async fn apply(
    store: &Store,
    host_zone: &Zone,
    requests: &[Request],
) -> Result<(Vec<Result<Applied, PlantingError>>, Vec<usize>), StoreError> {
    let now = until_answered(|| store.recent_now()).await?;
    let mut with_instances = Vec::new();
    let mut answers: Vec<Result<Applied, PlantingError>> = requests
        .iter()
        .map(|request| Err(PlantingError::Contended(request.name.clone())))
        .collect();
    let mut open: Vec<Open<'_>> = requests
        .iter()
        .enumerate()
        .map(|(index, request)| Open::new(index, request, now))
        .collect();
    open = add_new(store, host_zone, open, now, &mut answers).await?;
    for _ in 0..ROUNDS {
        if open.is_empty() {
            break;
        }
        let now = until_answered(|| store.now()).await?;
        let names: Vec<JobName> = open.iter().map(|item| item.request.name.clone()).collect();
        let specs: Vec<_> = open.iter().map(|item| &*item.spec).collect();
        let holder_read = until_answered(|| read_key_holders(store, &specs)).await?;
        until_answered(|| release_finished(store, &holder_read)).await?;
        let records = until_answered(|| store.read_jobs(&names)).await?;
        let (mut orders, mut ordered, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for ((item, record), holder_read) in open.into_iter().zip(records).zip(holder_read) {
            let ended = record
                .as_ref()
                .ok()
                .and_then(Option::as_ref)
                .filter(|job| !job.is_live())
                .map(|job| job.definition.clone());
            let read =
                record.and_then(|record| Ok((record, holder_read?))).map_err(PlantingError::from);
            match read.and_then(|(record, holder_read)| {
                item.order(record, holder_read.as_ref(), host_zone, now)
            }) {
                Ok(Step::Ask(mut ask)) => {
                    if let (Some(skipped_range), Some(old)) = (ask.0.passed, &ask.1) {
                        ask.0.passed = unrecorded(store, old, skipped_range).await?;
                    }
                    let former = match ended {
                        Some(text) if text != ask.0.definition => {
                            store.list_places(&ask.0.name, ENDED_AT_ONCE).await?
                        }
                        _ => Vec::new(),
                    };
                    orders.push(ask.0);
                    ordered.push((item, former));
                }
                Ok(Step::Known(applied)) => answers[item.index] = Ok(applied),
                Err(error) => answers[item.index] = Err(error),
            }
        }
        if orders.is_empty() {
            break;
        }
        let replies = until_answered(|| store.apply_jobs(&orders)).await?;
        for (((mut item, former), order), reply) in ordered.into_iter().zip(orders).zip(replies) {
            let next = order.planted.as_ref().map(|planted| planted.run.due());
            if concerns_instances(&order, &reply) {
                with_instances.push(item.index);
            }
            let is_another = order.name != item.request.name;
            answers[item.index] = match reply {
                Ok(ApplyReply::Updated | ApplyReply::Unchanged) if is_another => {
                    Ok(Applied::Moved(order.name, next))
                }
                Ok(ApplyReply::Taken(holder)) => Ok(Applied::Taken(holder)),
                Ok(ApplyReply::Created) => {
                    Box::pin(end_former(store, &former)).await;
                    Ok(Applied::Created(next))
                }
                Ok(ApplyReply::Updated) => Ok(Applied::Updated(next)),
                Ok(ApplyReply::Unchanged) => Ok(Applied::Unchanged),
                Ok(ApplyReply::Exists) => Ok(Applied::Exists),
                Ok(ApplyReply::OtherKind(by)) => Ok(Applied::OtherKind(by)),
                Ok(ApplyReply::Occupied) if order.is_once => {
                    Ok(Applied::Done(next.unwrap_or(item.not_before)))
                }
                Ok(ApplyReply::Occupied) => {
                    item.not_before = next.unwrap_or(item.not_before);
                    left.push(item);
                    continue;
                }
                Ok(ApplyReply::Stale) => {
                    left.push(item);
                    continue;
                }
                Ok(ApplyReply::NoLane) => {
                    Err(PlantingError::NoLane { job: order.name, lane: order.lane.to_string() })
                }
                Err(error) => Err(error.into()),
            };
        }
        open = left;
    }
    Ok((answers, with_instances))
}

/// Returns true if `order` changed a job that has an instance on each node, or had them before.
fn concerns_instances(order: &ApplyOrder, reply: &Result<ApplyReply, StoreError>) -> bool {
    let each = Lane::of_each_node();
    let had = order.read.as_ref().is_some_and(|(_, lane)| *lane == each);
    (had || order.lane == each) && matches!(reply, Ok(ApplyReply::Created | ApplyReply::Updated))
}

/// Adds the requested jobs that are new and plain. Returns the other requests, which need a read of
/// their jobs.
async fn add_new<'a>(
    store: &Store,
    host_zone: &Zone,
    open: Vec<Open<'a>>,
    now: UnixMillis,
    answers: &mut [Result<Applied, PlantingError>],
) -> Result<Vec<Open<'a>>, StoreError> {
    let (mut orders, mut ordered, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for item in open {
        let may_be_new = item.request.kind == SourceKind::Api
            && item.request.seen.is_none()
            && item.spec.unique.is_none()
            && !item.spec.is_on_each_node();
        let step = may_be_new.then(|| item.order(None, None, host_zone, now));
        if let Some(Ok(Step::Ask(ask))) = step {
            orders.push(ask.0);
            ordered.push(item);
        } else {
            left.push(item);
        }
    }
    let added = until_answered(|| store.add_jobs(&orders)).await?;
    for ((item, order), is_added) in ordered.into_iter().zip(&orders).zip(added) {
        if is_added {
            let next = order.planted.as_ref().map(|planted| planted.run.due());
            answers[item.index] = Ok(Applied::Created(next));
        } else {
            left.push(item);
        }
    }
    // Of two requests for one name, the later request wins.
    left.sort_by_key(|item| item.index);
    Ok(left)
}

/// Cancels the runs in `former` that are not executing, so that the new job does not wait for them.
/// These runs belong to an earlier job of the same name. The claim script ends the remaining runs
/// of the earlier job.
async fn end_former(store: &Store, former: &[RunId]) {
    let records = store.read_runs(former).await.unwrap_or_default();
    for record in records
        .into_iter()
        .filter_map(|record| record.ok().flatten())
        .filter(|run| run.state == RunState::Scheduled)
    {
        if let Err(error) = cancel_run(store, &record.run, "of an earlier job of this name").await {
            debug!(run = %record.run, "A run of an earlier job of the same name was not cancelled: {error}.");
        }
    }
}

/// Sends reads or changes to Redis, and repeats them if no answer comes. Each change has a token, by
/// which Redis makes the change only once.
pub(crate) async fn until_answered<T, F: Future<Output = Result<T, StoreError>>>(
    send: impl Fn() -> F,
) -> Result<T, StoreError> {
    for _ in 1..TRIES {
        match send().await {
            Err(error) if error.is_outage() => tokio::time::sleep(PAUSE).await,
            answered => return answered,
        }
    }
    send().await
}

/// Applies the definition in `request` to its job, and returns what changed. The error is the
/// reason why the request failed.
pub async fn apply_one(
    store: &Store,
    host_zone: &Zone,
    request: &Request,
) -> Result<Applied, PlantingError> {
    let (mut answers, _) = apply(store, host_zone, std::slice::from_ref(request)).await?;
    answers.pop().unwrap_or_else(|| Err(PlantingError::Contended(request.name.clone())))
}

enum Step {
    /// The change to send to Redis, and the old definition of the job if the schedule changes.
    Ask(Box<(ApplyOrder, Option<Definition>)>),
    Known(Applied),
}

impl<'a> Open<'a> {
    fn new(index: usize, request: &'a Request, now: UnixMillis) -> Self {
        let mut spec = request.spec.clone();
        if let Some(delay) = request.start_in {
            Arc::make_mut(&mut spec).schedule = Schedule::At(now.saturating_add(delay));
        }
        Self { index, request, spec, token: token(), not_before: UnixMillis::EPOCH }
    }

    /// Returns the change of the job to send to Redis, or the result if no change is needed.
    fn order(
        &self,
        record: Option<JobRecord>,
        holder_read: Option<&KeyHolder>,
        host_zone: &Zone,
        now: UnixMillis,
    ) -> Result<Step, PlantingError> {
        let unique = self.spec.unique.as_ref();
        let of_burst = unique.and_then(|unique| holder_read?.to_change(unique));
        let runs = unique
            .zip(holder_read)
            .is_some_and(|(unique, holder_read)| holder_read.runs_as(&self.request.name, unique));
        let since = of_burst.and_then(|_| holder_read?.burst_since()).unwrap_or(now);
        let spec = &due_within(&self.spec, since);
        let existing =
            if of_burst.is_some() || runs { Existing::Edit } else { self.request.existing };
        let name = of_burst.map_or(&self.request.name, |job| &job.name);
        let live = of_burst.cloned().or(record).filter(JobRecord::is_live);
        if let (Some(seen), Some(live)) = (&self.request.seen, &live)
            && *seen != live.rev
        {
            return Ok(Step::Known(Applied::Newer(live.rev.clone())));
        }
        // An unreadable definition counts as different from the new definition in every key.
        let known = live.as_ref().and_then(|job| Definition::of(job.clone()).ok());
        let zone = match (&spec.tz, &live) {
            (Some(name), _) => Zone::load(name)?,
            (None, Some(job)) => Zone::load(&job.tz.parse()?)?,
            // The zone is loaded again by its name, because the zone data may have changed
            // meanwhile.
            (None, None) => Zone::load(host_zone.name()).unwrap_or_else(|_| host_zone.clone()),
        };
        let anchor = live.as_ref().map_or(now.floor_to_second(), |job| job.anchor);
        let schedule = spec.schedule.for_job(name, spec.dst);
        let timetable = Timetable::shaped(schedule, &spec.shape, zone.clone(), anchor);
        let is_used_up = |most: u32| live.as_ref().is_some_and(|job| job.begun >= most);
        let is_asked_for = self.request.kind == SourceKind::Api;
        let first = match &spec.schedule {
            // Only the instances of the job have runs.
            _ if spec.is_on_each_node() => None,
            // A time that an operator sets runs even if it has just passed.
            Schedule::At(at) if is_asked_for => Some(*at),
            Schedule::Instants(_) if is_asked_for && self.not_before == UnixMillis::EPOCH => {
                newest_past(&timetable, live.as_ref().map(|job| (job, known.as_ref())), now)
                    .or_else(|| timetable.planted_after(now))
            }
            _ => timetable.planted_after(now.max(self.not_before)),
        };
        // An add in a debounced burst always counts as a change of schedule, because another add
        // may have moved the job after it was read.
        let is_same = of_burst.is_none()
            && known.as_ref().is_some_and(|old| {
                is_same_schedule(old, spec, &zone)
                    && old.spec.is_on_each_node() == spec.is_on_each_node()
            });
        let change = if is_same { DefinitionChange::Rest } else { DefinitionChange::Schedule };
        if let (Schedule::At(at), None, DefinitionChange::Schedule) =
            (&spec.schedule, first, change)
        {
            return Ok(Step::Known(Applied::Past(*at)));
        }
        let planned =
            live.as_ref().and_then(|job| job.pending.clone().or_else(|| job.paused_run.clone()));
        let old_gates = known.as_ref().map_or_else(Vec::new, |old| gates_left(old, spec, change));
        let changed = live.as_ref().filter(|_| change == DefinitionChange::Schedule);
        let old = known.filter(|_| changed.is_some());
        let passed = old.as_ref().filter(|_| of_burst.is_none()).and_then(|old| old.passed(now));
        let schedules = changed.map(|_| {
            let old =
                old.as_ref().map_or_else(|| "unreadable".to_owned(), Definition::schedule_text);
            (old, spec.schedule.text_with_zone(&zone))
        });
        let order = ApplyOrder {
            name: name.clone(),
            definition: config::to_canonical(spec),
            read: live.as_ref().map(|job| (job.rev.clone(), job.lane.clone())),
            kind: self.request.kind,
            source: self.request.source.clone(),
            token: self.token.clone(),
            tz: zone.name().as_str().to_owned(),
            lane: spec.lane(),
            is_once: matches!(spec.schedule, Schedule::At(_)),
            delay: match spec.schedule {
                Schedule::Delay(delay) => Some(delay),
                _ => None,
            },
            max_runs: spec.shape.max_runs,
            not_while: spec.not_while.clone(),
            after: spec.schedule.parents().map_or_else(String::new, Parents::stored),
            notify: notify_words(spec, name),
            change,
            planted: first
                .filter(|_| {
                    change == DefinitionChange::Schedule
                        && !spec.shape.max_runs.is_some_and(is_used_up)
                })
                .map(|due| planned_run(name, &spec.shape, due)),
            anchor,
            existing,
            planned,
            passed,
            schedules,
            unique: unique.map(|unique| UniqueOrder {
                unique: unique.clone(),
                holder: holder_read.map(|holder_read| holder_read.holder.job.clone()),
            }),
            old_gates,
            gated: spec.gated_entry(name, &spec.lane()),
            old_key: live.and_then(|job| job.unique),
        };
        Ok(Step::Ask(Box::new((order, old))))
    }
}

/// Returns the newest past instant of the schedule if this instant must still run. It must run if
/// the present job `live` has a run planned for this instant, or its old definition did not contain
/// the instant. The definition in `live` is `None` if unreadable.
fn newest_past(
    timetable: &Timetable,
    live: Option<(&JobRecord, Option<&Definition>)>,
    now: UnixMillis,
) -> Option<UnixMillis> {
    let newest = timetable.latest_in(UnixMillis::EPOCH, now)?;
    let Some((job, old)) = live else { return Some(newest) };
    let is_planted =
        [&job.pending, &job.paused_run].into_iter().flatten().any(|run| run.due() == newest);
    let had_it = || old.is_some_and(|old| old.timetable.count_in(newest, newest) > 0);
    (is_planted || !had_it()).then_some(newest)
}

/// Returns `spec` with the due time of a one-shot limited to `max_wait` after `since`. `since` is
/// the time of the first add in a debounced burst.
fn due_within(spec: &JobSpec, since: UnixMillis) -> Cow<'_, JobSpec> {
    let longest = spec.unique.as_ref().and_then(|unique| unique.second.max_wait());
    let (Schedule::At(at), Some(longest)) = (&spec.schedule, longest) else {
        return Cow::Borrowed(spec);
    };
    let schedule = Schedule::At((*at).min(since.saturating_add(longest)));
    Cow::Owned(JobSpec { schedule, ..spec.clone() })
}

/// Returns the gates at which waiting runs may start after this edit. If the gates or the lane of the
/// job changed, these are all its old gates. If only the schedule changed, this is the group of the
/// job, because another member may wait for this job's turn.
fn gates_left(old: &Definition, new: &JobSpec, change: DefinitionChange) -> Vec<Gate> {
    let gates = |spec: &JobSpec| gates_of(&old.record.name, spec, false);
    let is_same = gates(&old.spec) == gates(new)
        && old.spec.per_key == new.per_key
        && old.record.lane == new.lane();
    match (is_same, change) {
        (false, _) => gates(&old.spec),
        (true, DefinitionChange::Schedule | DefinitionChange::Zone) => {
            old.spec.group.as_ref().map(Gate::of_group).into_iter().collect()
        }
        (true, DefinitionChange::Rest) => Vec::new(),
    }
}

/// Returns true if the new definition has the same occurrences as the old definition.
fn is_same_schedule(old: &Definition, new: &JobSpec, zone: &Zone) -> bool {
    let is_same_clock = old.timetable.zone().name() == zone.name() && old.spec.dst == new.dst;
    is_same_clock && old.spec.schedule == new.schedule && old.spec.shape.counts_as(&new.shape)
}

/// Returns a random token that identifies one call to Redis.
pub(crate) fn token() -> String {
    format!("{:016x}", fastrand::u64(..))
}
