//! The client of a program that adds jobs and follows their runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _};
use schedd_core::config::NamedJob;
use schedd_core::domain::job::unique_rule::Second;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::queue_rules::QueueSettings;
use schedd_schedule::names::{JobName, QueueName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{
    Address, CancelReply, DEFAULT_NAMESPACE, Existing, JobRecord, Keys, RemoveReply, RunRecord,
    Section, SectionText, SourceKind, StopRunning, Store, StoreError,
};

use super::add::{Add, IfExists};
use super::added::{Added, AddedJob};
use super::client_error::ClientError;
use super::run_end::RunEnd;
use super::shared_adds::SharedAdds;
use crate::adding::{AddPools, DRAWS, draw_name, past_problem};
use crate::engine::planning::job_operations;
use crate::engine::planning::planting::{Applied, PlantingError, Request};
use crate::instants::system_time;

/// The most jobs that go to Redis in one call.
const BATCH: usize = 500;
/// The first and the longest wait between two looks at a run.
const LOOKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// The longest outage of Redis that [`Client::wait`] tolerates.
const AWAY_AT_MOST: Duration = Duration::from_secs(30);
/// The time for which the declared queues and the time of Redis, once read, are used again.
const FRESH: Duration = Duration::from_secs(1);
/// The name of the source that declares the queues of programs.
const SOURCE: &str = "programs";

/// A connection to the jobs in one Redis. Clones share the connection.
///
/// ```
/// # schedd::testing::block_on(async |bench| {
/// use schedd::{Add, Client};
///
/// # let url = bench.url();
/// let client = Client::connect(&url).await?;
/// let added = client.add(Add::to("send-mail", &"ann@example.org")).await?;
/// assert!(added.job().due.is_some());
/// # Ok(())
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    store: Store,
    zone: Zone,
    known: Arc<Mutex<Option<Known>>>,
    shared_adds: Arc<SharedAdds>,
}

/// The declared queues, and the time of Redis, as read at an instant.
#[derive(Debug, Clone)]
struct Known {
    pools: AddPools,
    now: UnixMillis,
    at: Instant,
}

impl Client {
    /// Connects to the Redis at `url`, such as `redis://127.0.0.1:6379/0`, in the namespace
    /// `schedd`. Fails if Redis does not answer, or cannot be used.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// let client = schedd::Client::connect(&bench.url()).await?;
    /// # let _ = client;
    /// assert!(schedd::Client::connect("redis://127.0.0.1:1").await.is_err());
    /// # Ok(())
    /// # });
    /// ```
    pub async fn connect(url: &str) -> Result<Self, ClientError> {
        Self::connect_in(url, DEFAULT_NAMESPACE).await
    }

    /// Connects to the jobs of another namespace of the Redis at `url`.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// let staging = schedd::Client::connect_in(&bench.url(), "staging").await?;
    /// # let _ = staging;
    /// # Ok(())
    /// # });
    /// ```
    pub async fn connect_in(url: &str, namespace: &str) -> Result<Self, ClientError> {
        let keys = Keys::new(namespace).map_err(|error| ClientError::Invalid(error.to_string()))?;
        let store = Store::new(&Address::parse(url)?, keys)?.signed(&author());
        store.findings().await?;
        Ok(Self {
            store,
            zone: Zone::of_host(),
            known: Arc::default(),
            shared_adds: Arc::default(),
        })
    }

    /// Creates a client that uses `store`.
    #[cfg(feature = "testing")]
    pub(crate) fn on(store: Store, zone: Zone) -> Self {
        Self { store, zone, known: Arc::default(), shared_adds: Arc::default() }
    }

    /// Returns the store of this client.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the zone of a schedule without a zone.
    pub(crate) fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Adds a job. Jobs that many callers add at the same time go to Redis together.
    ///
    /// The call may be repeated after [`ClientError::Unreachable`] if the job has a name or a
    /// unique key. A job without both may then exist twice.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// use schedd::{Add, Added};
    ///
    /// let mail = Add::to("send-mail", &"ann@example.org").unique("welcome-42");
    /// assert!(matches!(client.add(mail.clone()).await?, Added::Created(_)));
    /// assert!(matches!(client.add(mail.if_absent()).await?, Added::Exists(_)));
    /// # Ok(())
    /// # });
    /// ```
    pub async fn add(&self, add: Add) -> Result<Added, ClientError> {
        let client = self.clone();
        let send = move |adds: Vec<Add>| {
            let client = client.clone();
            async move { client.add_all(adds).await }
        };
        self.shared_adds.add(add, send).await
    }

    /// Adds jobs, many in one call to Redis. Returns the result of each, in their order.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// use schedd::Add;
    ///
    /// let mails = (0..1_000).map(|number| Add::to("send-mail", &number));
    /// let added = client.add_all(mails).await?;
    /// assert!(added.iter().all(Result::is_ok));
    /// # Ok(())
    /// # });
    /// ```
    pub async fn add_all(
        &self,
        adds: impl IntoIterator<Item = Add>,
    ) -> Result<Vec<Result<Added, ClientError>>, ClientError> {
        let adds: Vec<Add> = adds.into_iter().collect();
        // While Redis adds a batch, the next is prepared.
        let batches: Vec<_> = adds.chunks(BATCH).map(|batch| self.add_batch(batch)).collect();
        let results = futures_util::stream::iter(batches).buffered(2);
        Ok(results.try_collect::<Vec<_>>().await?.into_iter().flatten().collect())
    }

    async fn add_batch(
        &self,
        batch: &[Add],
    ) -> Result<Vec<Result<Added, ClientError>>, ClientError> {
        let known = self.known(FRESH).await?;
        let mut results: Vec<Option<Result<Added, ClientError>>> = Vec::with_capacity(batch.len());
        let mut open = Vec::new();
        for (at, add) in batch.iter().enumerate() {
            match self.compiled(add, &known).await {
                Ok(job) => {
                    open.push((at, job));
                    results.push(None);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        for _ in 0..DRAWS {
            if open.is_empty() {
                break;
            }
            let requests: Vec<Request> = open
                .iter()
                .map(|(at, job)| request(job, batch[*at].if_exists()))
                .collect::<Result<_, _>>()?;
            let applied = known.pools.apply(&self.zone, &requests).await?;
            let mut clashed = Vec::new();
            for (((at, job), request), (place, answer)) in
                open.into_iter().zip(requests).zip(applied)
            {
                if job.name.is_none()
                    && matches!(answer, Ok(Applied::Exists | Applied::OtherKind(_)))
                {
                    clashed.push((at, job));
                    continue;
                }
                let keeps = batch[at].if_exists() == IfExists::Keep;
                results[at] = Some(answered(&place, request.name, &job, keeps, answer).await);
            }
            open = clashed;
        }
        let unnamed = || ClientError::Conflict("no free random name was found".to_owned());
        Ok(results.into_iter().map(|result| result.unwrap_or_else(|| Err(unnamed()))).collect())
    }

    /// Returns the declared queues and the time of Redis, read at most `age` ago.
    async fn known(&self, age: Duration) -> Result<Known, ClientError> {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().clone().filter(|known| known.at.elapsed() < age);
        if let Some(known) = known {
            return Ok(Known { now: known.now.saturating_add(known.at.elapsed()), ..known });
        }
        let at = Instant::now();
        let (pools, now) = tokio::try_join!(AddPools::read(&self.store), self.store.now())?;
        let known = Known { pools, now, at };
        *lock() = Some(known.clone());
        Ok(known)
    }

    /// Compiles the job, and checks its times and its queue.
    async fn compiled(&self, add: &Add, known: &Known) -> Result<NamedJob, ClientError> {
        let job = add.compile(&self.zone)?;
        if let Some(problem) = past_problem(&job.spec, known.now) {
            return Err(ClientError::Invalid(problem.to_string()));
        }
        if known.pools.unknown_to(&job).is_some() {
            // The queue may have been declared after the last reading of the queues.
            let known = self.known(Duration::ZERO).await?;
            if let Some(problem) = known.pools.unknown_to(&job) {
                return Err(ClientError::Invalid(problem.to_string()));
            }
        }
        Ok(job)
    }

    /// Declares the queue `name` with default settings, so that jobs may use it. Changes nothing if
    /// the queue exists. A [`Worker`](crate::Worker) declares its queues when it starts.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// client.declare_queue("mail").await?;
    /// client.add(schedd::Add::to("send-mail", &()).queue("mail")).await?;
    /// # Ok(())
    /// # });
    /// ```
    pub async fn declare_queue(&self, name: &str) -> Result<(), ClientError> {
        let queue: QueueName = parsed(name)?;
        if queue == QueueName::default_queue()
            || self.store.read_queues().await?.contains_key(&queue)
        {
            return Ok(());
        }
        let source =
            SourceName::applied(SOURCE).map_err(|error| ClientError::Failed(error.to_string()))?;
        let text = SectionText::Queue(QueueSettings::default());
        self.store.declare_section(&source, &Section::Queue(queue), Some(&text)).await?;
        Ok(())
    }

    /// Starts a run of the job `name` now, besides its planned runs. Returns the id of the run.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// client.add(schedd::Add::to("report", &()).name("report").manual()).await?;
    /// let run = client.run("report").await?;
    /// assert!(run.starts_with("report@"));
    /// # Ok(())
    /// # });
    /// ```
    pub async fn run(&self, name: &str) -> Result<String, ClientError> {
        let job = parsed(name)?;
        let place = self.store.place_of_job(&job).await?;
        let runs = job_operations::run_by_hand(&place, &job, None).await?;
        let run = runs.into_iter().next();
        run.map(|run| run.to_string()).ok_or_else(|| no_such_job(&job))
    }

    /// Cancels the run with this id. A run that executes is asked to stop:
    /// [`Run::cancelled`](crate::Run::cancelled) resolves. Its job continues with later runs.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// use std::time::Duration;
    ///
    /// let add = schedd::Add::to("send-mail", &()).in_(Duration::from_secs(60));
    /// let added = client.add(add).await?;
    /// client.cancel_run(added.job().run.as_deref().unwrap()).await?;
    /// # Ok(())
    /// # });
    /// ```
    pub async fn cancel_run(&self, run: &str) -> Result<(), ClientError> {
        let run: RunId = parsed(run)?;
        let place = self.store.place_of_run(&run).await?;
        match job_operations::cancel_run(&place, &run, "cancelled").await? {
            CancelReply::Cancelled | CancelReply::Requested => Ok(()),
            CancelReply::Over { state, .. } => {
                Err(ClientError::Conflict(format!("run {run} has ended already: {state}")))
            }
            CancelReply::Unknown | CancelReply::Stale | CancelReply::Occupied => {
                Err(ClientError::NotFound(format!("no run {run}")))
            }
        }
    }

    /// Removes the job `name` with its planned run. A run that executes goes on, unless the job runs
    /// only once. A job of a file is refused.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// client.add(schedd::Add::to("report", &()).name("report").cron("0 7 * * *")).await?;
    /// client.cancel("report").await?;
    /// assert!(client.cancel("report").await.is_err());
    /// # Ok(())
    /// # });
    /// ```
    pub async fn cancel(&self, name: &str) -> Result<(), ClientError> {
        let job: JobName = parsed(name)?;
        let place = self.store.place_of_job(&job).await?;
        let before = place.read_job(&job).await?.filter(JobRecord::is_live);
        let Some(before) = before else { return Err(no_such_job(&job)) };
        if before.kind == SourceKind::File {
            let why = format!("job {job} is declared in a file: remove it there");
            return Err(ClientError::Conflict(why));
        }
        let running = if before.is_once { StopRunning::Yes } else { StopRunning::No };
        match job_operations::cancel_job(&place, &job, running, "cancelled").await? {
            RemoveReply::Removed(_) => Ok(()),
            RemoveReply::Over(_) | RemoveReply::Unknown => Err(no_such_job(&job)),
            RemoveReply::Listed | RemoveReply::OtherKind(_) | RemoveReply::Stale => {
                Err(ClientError::Conflict(format!("job {job} was changed at the same time")))
            }
        }
    }

    /// Waits at most `most` for the end of the run with this id. Returns `None` if the run has not
    /// ended by then; the run goes on. Tolerates an outage of Redis of 30 s.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// use std::time::Duration;
    ///
    /// let added = client.add(schedd::Add::to("send-mail", &())).await?;
    /// let run = added.job().run.as_deref().unwrap();
    /// // No worker runs here, so the run does not end.
    /// assert!(client.wait(run, Duration::from_millis(50)).await?.is_none());
    /// # Ok(())
    /// # });
    /// ```
    pub async fn wait(&self, run: &str, most: Duration) -> Result<Option<RunEnd>, ClientError> {
        let run: RunId = parsed(run)?;
        let started = Instant::now();
        let (mut pause, longest) = LOOKS;
        let mut answered = Instant::now();
        let place = self.store.place_of_run(&run).await?;
        loop {
            match look_at(&place, &run).await {
                Ok(Some(RunLook::Ended(end))) => return Ok(Some(*end)),
                Ok(Some(RunLook::Open)) => answered = Instant::now(),
                Ok(None) => return Err(ClientError::NotFound(format!("no run {run}"))),
                Err(error) if error.is_passing() && answered.elapsed() < AWAY_AT_MOST => {}
                Err(error) => return Err(error.into()),
            }
            let left = most.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(longest);
        }
    }
}

/// The state of a run.
enum RunLook {
    /// The run is planned, or was claimed and has not ended.
    Open,
    Ended(Box<RunEnd>),
}

/// Returns the state of a run, or `None` if there is no such run.
async fn look_at(place: &Store, run: &RunId) -> Result<Option<RunLook>, StoreError> {
    let of = |record: &RunRecord| match RunEnd::of(record) {
        Some(end) => RunLook::Ended(Box::new(end)),
        None => RunLook::Open,
    };
    if let Some(record) = place.read_run(run).await? {
        return Ok(Some(of(&record)));
    }
    // A planned run has no record.
    let job = place.read_job(run.job()).await?;
    if job.is_some_and(|job| job.pending.as_ref() == Some(run)) {
        return Ok(Some(RunLook::Open));
    }
    // The run may have been claimed since the first read.
    Ok(place.read_run(run).await?.as_ref().map(of))
}

/// Converts `answer`, the answer of Redis to the add of `job`, into the result for the caller. If
/// `keeps` is true, an existing job is a success.
async fn answered(
    store: &Store,
    name: JobName,
    job: &NamedJob,
    keeps: bool,
    answer: Result<Applied, PlantingError>,
) -> Result<Added, ClientError> {
    let is_dropped = job
        .spec
        .unique
        .as_ref()
        .is_some_and(|unique| matches!(unique.second, Second::Dropped { .. }));
    Ok(match answer? {
        Applied::Created(next) => Added::Created(added_job(&name, next)),
        Applied::Updated(Some(next)) => Added::Updated(added_job(&name, Some(next))),
        Applied::Updated(None) => Added::Updated(pending(store, &name).await?),
        Applied::Moved(first, next) => Added::Updated(added_job(&first, next)),
        Applied::Unchanged => Added::Exists(pending(store, &name).await?),
        Applied::Taken(first) if keeps || is_dropped => {
            Added::Exists(pending(store, &first).await?)
        }
        Applied::Exists | Applied::OtherKind(_) if keeps => {
            Added::Exists(pending(store, &name).await?)
        }
        Applied::Taken(first) => {
            let key = job.spec.unique.as_ref().map(|unique| unique.key.as_str());
            let key = key.unwrap_or_default();
            return Err(ClientError::Conflict(format!(
                "unique key {key:?} is held by job {first}; if_absent makes this a success"
            )));
        }
        Applied::Exists | Applied::OtherKind(_) => {
            return Err(ClientError::Conflict(format!(
                "job {name} exists already; replace changes the job, if_absent leaves the job unchanged"
            )));
        }
        Applied::Newer(_) => {
            return Err(ClientError::Conflict(format!(
                "somebody else changed job {name} at the same time"
            )));
        }
        Applied::Past(at) => {
            return Err(ClientError::Invalid(format!(
                "job {name}: time {at} is past, wanted a future time"
            )));
        }
        Applied::Done(at) => {
            return Err(ClientError::Conflict(format!(
                "a job {name} already ran at {at}; use another name or another time"
            )));
        }
    })
}

/// Returns the existing job `name` with its planned run.
async fn pending(store: &Store, name: &JobName) -> Result<AddedJob, ClientError> {
    let next = store.read_job(name).await?.and_then(|job| job.pending);
    Ok(added_job(name, next.map(|run| run.due())))
}

/// Returns the request to add `job`.
fn request(job: &NamedJob, if_exists: IfExists) -> Result<Request, ClientError> {
    let (name, existing) = match &job.name {
        Some(name) if if_exists == IfExists::Replace => (name.clone(), Existing::Edit),
        Some(name) => (name.clone(), Existing::Refuse),
        None => {
            let drawn = draw_name().map_err(|error| ClientError::Failed(error.to_string()))?;
            (drawn, Existing::Refuse)
        }
    };
    Ok(Request {
        name,
        is_drawn: job.name.is_none(),
        spec: job.spec.clone(),
        start_in: job.start_in,
        kind: SourceKind::Api,
        source: String::new(),
        existing,
        seen: None,
    })
}

fn added_job(name: &JobName, due: Option<UnixMillis>) -> AddedJob {
    AddedJob {
        name: name.to_string(),
        due: due.map(system_time),
        run: due.map(|due| RunId::regular(name.clone(), due).to_string()),
    }
}

/// Returns the name or id in `text`.
pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    text: &str,
) -> Result<T, ClientError> {
    text.parse().map_err(|error: T::Err| ClientError::Invalid(error.to_string()))
}

fn no_such_job(name: &JobName) -> ClientError {
    ClientError::NotFound(format!("no job {name}"))
}

/// Returns the author that the audit logs of jobs name: the program and the host.
fn author() -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(std::path::Path::file_name);
    let program = program.map_or_else(|| "program".into(), |name| name.to_string_lossy());
    format!("{program}@{}", crate::program_host::name())
}
