//! A worker: the queues, slots and handlers of a program, and their node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use schedd_core::config::DaemonConfig;
use schedd_core::domain::queue::lane_serving::HandlerChoice;
use schedd_schedule::names::{HandlerName, QueueName};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

use super::handler_executor::HandlerExecutor;
use super::handler_failure::Failure;
use super::handlers::Handlers;
use super::run_handle::Run;
use super::worker_node::WorkerNode;
use crate::client::{Client, ClientError, parsed};
use crate::engine::{NodeEngines, PresenceError, WorkerServing};

/// The number of runs of the queue `default` at once, if a worker names no queue.
const SLOTS: u32 = 10;
/// The longest time that a handler has to return after it was told to stop. A stop of the engine
/// waits longer than this.
const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// The longest time for which a stop waits for handlers: a year.
const LONGEST_GRACE: Duration = Duration::from_secs(366 * 24 * 3_600);

/// A worker: executes runs by the handlers of this program.
///
/// Any number of workers in any number of programs share the runs. Each due run is executed once,
/// also if programs and hosts fail.
///
/// ```
/// # schedd::testing::block_on(async |bench| {
/// # let client = bench.client();
/// use std::time::Duration;
///
/// use schedd::{Add, Run, Worker};
///
/// struct App {
///     greeting: String,
/// }
///
/// async fn send_mail(to: String, run: Run<App>) -> schedd::Result<()> {
///     run.print(format_args!("{} {to}", run.state().greeting));
///     Ok(())
/// }
///
/// let worker = Worker::on(client.clone())
///     .queue("mail", 8)
///     .state(App { greeting: "Dear".to_owned() })
///     .handle("send-mail", send_mail)
///     .start()
///     .await?;
/// let added = client.add(Add::to("send-mail", &"Ann").queue("mail")).await?;
/// let run = added.job().run.as_deref().unwrap();
/// let end = client.wait(run, Duration::from_secs(30)).await?.unwrap();
/// assert!(end.is_success());
/// worker.stop().await;
/// # Ok(())
/// # });
/// ```
#[must_use = "a worker takes runs only after Worker::start or Worker::run_until"]
pub struct Worker<S = ()> {
    client: Client,
    queues: BTreeMap<String, u32>,
    handlers: Handlers<S>,
    state: Arc<S>,
    name: Option<String>,
    lease: Duration,
    grace: Duration,
    cancel_grace: Duration,
    /// The first name of a handler that is not valid.
    fault: Option<ClientError>,
}

impl Worker {
    /// Creates a worker for the jobs of `client`. Without a queue it serves the queue `default`,
    /// ten runs at once.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// let worker = Worker::on(client)
    ///     .handle("noop", async |(): (), _: Run| Ok(()))
    ///     .start()
    ///     .await?;
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub fn on(client: Client) -> Self {
        let DaemonConfig { lease, shutdown_grace: grace, .. } = DaemonConfig::default();
        Self {
            client,
            queues: BTreeMap::new(),
            handlers: Handlers::none(),
            state: Arc::new(()),
            name: None,
            lease,
            grace,
            cancel_grace: CANCEL_GRACE,
            fault: None,
        }
    }
}

impl<S: Send + Sync + 'static> Worker<S> {
    /// Serves `queue`, with at most `slots` runs at once. The queue is declared if it does not exist
    /// yet.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// let worker = Worker::on(client)
    ///     .queue("mail", 8)
    ///     .queue("reports", 1)
    ///     .handle("noop", async |(): (), _: Run| Ok(()))
    ///     .start()
    ///     .await?;
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub fn queue(mut self, queue: &str, slots: u32) -> Self {
        self.queues.insert(queue.to_owned(), slots);
        self
    }

    /// Sets the state that the handlers share, such as a pool of connections. Handlers that were
    /// added before keep the former state.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// async fn count((): (), run: Run<AtomicU64>) -> schedd::Result<()> {
    ///     run.state().fetch_add(1, Ordering::Relaxed);
    ///     Ok(())
    /// }
    ///
    /// let worker = Worker::on(client).state(AtomicU64::new(0)).handle("count", count).start().await?;
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub fn state<T: Send + Sync + 'static>(self, state: T) -> Worker<T> {
        Worker {
            client: self.client,
            queues: self.queues,
            handlers: self.handlers.with_state(&self.state),
            state: Arc::new(state),
            name: self.name,
            lease: self.lease,
            grace: self.grace,
            cancel_grace: self.cancel_grace,
            fault: self.fault,
        }
    }

    /// Adds the handler `name`: an async function of the payload and the [`Run`].
    ///
    /// - It returns `Ok`: the run has succeeded.
    /// - It returns an error: the attempt has failed, and the job's rules decide about a retry.
    /// - It returns [`Stop`](crate::Stop) or [`Again`](crate::Again): see there.
    /// - It panics, or the payload does not fit its type: the attempt has failed.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// async fn charge(cents: u64, run: Run) -> schedd::Result<()> {
    ///     run.print(format_args!("{cents} cents"));
    ///     Ok(())
    /// }
    ///
    /// let worker = Worker::on(client).handle("charge", charge).start().await?;
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub fn handle<P, F, W>(mut self, name: &str, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(P, Run<S>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        match parsed::<HandlerName>(name) {
            Ok(name) => self.handlers.add(name, handler),
            Err(error) => self.fault = self.fault.or(Some(error)),
        }
        self
    }

    /// Names the worker, for `schedctl nodes` and the records of runs. Workers of one name must not
    /// run at the same time. Without it, the name is that of the host with a random word.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// let worker = Worker::on(client)
    ///     .name("mailer-1")
    ///     .handle("noop", async |(): (), _: Run| Ok(()))
    ///     .start()
    ///     .await?;
    /// assert_eq!(worker.name(), "mailer-1");
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the time after which other workers take over the runs of this program if it dies. It is
    /// 10 s unless set, and at least 1 s. The lease is renewed meanwhile, so it does not bound runs.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// # use std::time::Duration;
    /// let worker = Worker::on(client)
    ///     .lease(Duration::from_secs(30))
    ///     .handle("noop", async |(): (), _: Run| Ok(()))
    ///     .start()
    ///     .await?;
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_secs(1));
        self
    }

    /// Sets the time for which a stop waits for running handlers. It is 30 s unless set. Then they
    /// are cancelled, and their runs are given back.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// # use std::time::Duration;
    /// let worker = Worker::on(client)
    ///     .grace(Duration::from_secs(5))
    ///     .handle("noop", async |(): (), _: Run| Ok(()))
    ///     .start()
    ///     .await?;
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace.min(LONGEST_GRACE);
        self
    }

    /// Sets the time that a handler has to return after [`Run::cancelled`] resolved. It is 10 s unless
    /// set, and at most 10 s. Then the handler is dropped at its next `await`.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// # use std::time::Duration;
    /// let worker = Worker::on(client)
    ///     .cancel_grace(Duration::from_secs(2))
    ///     .handle("noop", async |(): (), _: Run| Ok(()))
    ///     .start()
    ///     .await?;
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace.min(CANCEL_GRACE);
        self
    }

    /// Takes runs until `stop` resolves, and then stops like [`RunningWorker::stop`]. If the future is
    /// dropped first, the worker stops like [`RunningWorker::stop_now`].
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// # use std::time::Duration;
    /// let worker = Worker::on(client).handle("noop", async |(): (), _: Run| Ok(()));
    /// worker.run_until(tokio::time::sleep(Duration::from_millis(10))).await?;
    /// # Ok(())
    /// # });
    /// ```
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), ClientError> {
        let worker = self.start().await?;
        let mut guard = UntilDrop { worker: Some(worker), runtime: Handle::current() };
        stop.await;
        if let Some(worker) = guard.worker.take() {
            worker.stop().await;
        }
        Ok(())
    }

    /// Starts to take runs. Must be called inside a runtime of tokio with its timers and sockets.
    /// Fails if a name is not valid, or Redis does not answer.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// let unnamed = Worker::on(client).handle("no valid name!", async |(): (), _: Run| Ok(()));
    /// assert!(unnamed.start().await.is_err());
    /// # Ok(())
    /// # });
    /// ```
    pub async fn start(self) -> Result<RunningWorker, ClientError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let mut slots = BTreeMap::<QueueName, u32>::new();
        for (queue, most) in &self.queues {
            slots.insert(parsed(queue)?, *most);
        }
        if slots.is_empty() {
            slots.insert(QueueName::default_queue(), SLOTS);
        }
        for queue in slots.keys() {
            self.client.declare_queue(queue.as_str()).await?;
        }
        let handlers = HandlerChoice::Only(self.handlers.names().cloned().collect());
        let node = WorkerNode {
            store: self.client.store().clone(),
            zone: self.client.zone().clone(),
            serving: WorkerServing { slots, labels: BTreeSet::new(), handlers },
            name: self.name.as_deref().map(parsed).transpose()?,
            lease: self.lease,
            grace: self.grace,
        };
        let executor = HandlerExecutor {
            handlers: self.handlers,
            state: self.state,
            client: self.client,
            cancel_grace: self.cancel_grace,
        };
        let (node, name) = node.start(Arc::new(executor)).await.map_err(|error| match error {
            PresenceError::Store(error) => error.into(),
            error @ PresenceError::Taken { .. } => ClientError::Conflict(error.to_string()),
        })?;
        Ok(RunningWorker { node, name: name.to_string() })
    }
}

/// A worker that takes runs. It goes on if this value is dropped, until the runtime ends.
///
/// ```
/// # schedd::testing::block_on(async |bench| {
/// # let client = bench.client();
/// # use schedd::{Run, Worker};
/// let worker = Worker::on(client)
///     .handle("noop", async |(): (), _: Run| Ok(()))
///     .start()
///     .await?;
/// worker.stop().await;
/// # Ok(())
/// # });
/// ```
pub struct RunningWorker {
    node: NodeEngines,
    name: String,
}

impl RunningWorker {
    /// Returns the name of the worker, as the records of its runs have it.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// let worker = Worker::on(client)
    ///     .handle("noop", async |(): (), _: Run| Ok(()))
    ///     .start()
    ///     .await?;
    /// assert!(!worker.name().is_empty());
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes no more runs, waits for the running handlers, and ends. After the time of
    /// [`Worker::grace`] the handlers that still run are cancelled, and their runs are given back
    /// without a counted attempt.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// let worker = Worker::on(client)
    ///     .handle("noop", async |(): (), _: Run| Ok(()))
    ///     .start()
    ///     .await?;
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub async fn stop(self) {
        self.stop_in_task(std::future::pending()).await;
    }

    /// Stops the node in a task, so that a caller who waits no longer does not end the stop.
    async fn stop_in_task(self, urgent: impl Future<Output = ()> + Send + 'static) {
        let stopping = tokio::spawn(async move { self.node.stop(urgent).await });
        // The task panics only by a fault of schedd, and has then logged it.
        let _ = stopping.await;
    }

    /// Stops as [`RunningWorker::stop`] does, but cancels the running handlers at once.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Run, Worker};
    /// let worker = Worker::on(client).handle("noop", async |(): (), _: Run| Ok(())).start().await?;
    /// worker.stop_now().await;
    /// # Ok(())
    /// # });
    /// ```
    pub async fn stop_now(self) {
        self.stop_in_task(std::future::ready(())).await;
    }
}

/// A worker that stops when it is dropped.
struct UntilDrop {
    worker: Option<RunningWorker>,
    runtime: Handle,
}

impl Drop for UntilDrop {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.runtime.spawn(worker.stop_now());
        }
    }
}

impl<S> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl fmt::Debug for RunningWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunningWorker({})", self.name)
    }
}
