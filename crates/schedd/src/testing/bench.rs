//! The bench of a test: a private Redis, and time that the test can advance.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use schedd_schedule::time::zone::Zone;
use schedd_store::{Address, DEFAULT_NAMESPACE, Keys, Store, TestClock};

use super::test_server::TestServer;
use crate::client::{Add, Client};
use crate::worker::{Run, Worker};

/// A private Redis, and time that the test can advance.
///
/// The server ends when the bench is dropped. It needs a `redis-server` or `valkey-server` in
/// `PATH`. A bench is independent of all others, so tests may run at the same time.
///
/// ```
/// use std::time::Duration;
///
/// use schedd::testing::Bench;
/// use schedd::{Add, Run, Worker};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let bench = Bench::start().await.unwrap();
/// let client = bench.client();
/// let worker = Worker::on(client.clone())
///     .handle("remind", async |(): (), _: Run| Ok(()))
///     .start()
///     .await
///     .unwrap();
///
/// let tomorrow = Add::to("remind", &()).in_(Duration::from_secs(86_400));
/// let added = client.add(tomorrow).await.unwrap();
/// bench.advance(Duration::from_secs(86_400)).await.unwrap();
/// let run = added.job().run.as_deref().unwrap();
/// let end = client.wait(run, Duration::from_secs(30)).await.unwrap().unwrap();
/// assert!(end.is_success());
/// worker.stop().await;
/// # });
/// ```
#[derive(Debug)]
pub struct Bench {
    redis: TestServer,
    store: Store,
    clock: TestClock,
}

/// The error of a bench: its Redis did not start, or its time could not be advanced.
///
/// ```
/// # use schedd::testing::{Bench, BenchError};
/// async fn started() -> Option<Bench> {
///     Bench::start().await.inspect_err(|error: &BenchError| eprintln!("{error}")).ok()
/// }
/// # let _ = started;
/// ```
#[derive(Debug)]
pub struct BenchError(String);

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BenchError {}

fn failed(error: impl fmt::Display) -> BenchError {
    BenchError(error.to_string())
}

impl Bench {
    /// Starts a Redis of its own.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let bench = schedd::testing::Bench::start().await.unwrap();
    /// assert!(!bench.url().is_empty());
    /// # });
    /// ```
    pub async fn start() -> Result<Self, BenchError> {
        let redis = tokio::task::spawn_blocking(TestServer::start).await.map_err(failed)?;
        let redis = redis.map_err(failed)?;
        let address = Address::parse(&redis.url()).map_err(failed)?;
        let keys = Keys::new(DEFAULT_NAMESPACE).map_err(failed)?;
        let clock = TestClock::default();
        let store = Store::new(&address, keys).map_err(failed)?.by_clock(&clock);
        store.findings().await.map_err(failed)?;
        Ok(Self { redis, store, clock })
    }

    /// Returns a client whose time the bench advances. So is the time of its workers. Schedules
    /// without a zone are in UTC.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// assert!(bench.client().cancel("no-such-job").await.is_err());
    /// # Ok(())
    /// # });
    /// ```
    pub fn client(&self) -> Client {
        Client::on(self.store.clone(), Zone::utc())
    }

    /// Returns the URL of the Redis, for a program of its own. Its time is not advanced.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// let other = schedd::Client::connect(&bench.url()).await?;
    /// assert!(other.cancel("no-such-job").await.is_err());
    /// # Ok(())
    /// # });
    /// ```
    pub fn url(&self) -> String {
        self.redis.url()
    }

    /// Advances the time of the clients and workers. What is due by then starts at once.
    ///
    /// Leases and the timeouts of attempts are measured by another clock, and do not change.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Add, Run, Worker};
    /// # use std::time::Duration;
    /// let worker = Worker::on(client.clone()).handle("remind", async |(): (), _: Run| Ok(())).start().await?;
    /// let added = client.add(Add::to("remind", &()).in_(Duration::from_secs(3600))).await?;
    /// bench.advance(Duration::from_secs(3600)).await?;
    /// let run = added.job().run.as_deref().unwrap();
    /// assert!(client.wait(run, Duration::from_secs(30)).await?.is_some());
    /// worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub async fn advance(&self, time: Duration) -> Result<(), BenchError> {
        self.clock.advance(time);
        self.store.wake_nodes().await.map_err(failed)
    }
}

/// Runs `test` with a bench, in a runtime of its own, for examples.
///
/// # Panics
///
/// Panics if the bench cannot be started, or `test` returns an error.
#[doc(hidden)]
pub fn block_on(test: impl AsyncFnOnce(&Bench) -> Result<(), Box<dyn Error>>) {
    let ended =
        tokio::runtime::Runtime::new().map_err(Box::<dyn Error>::from).and_then(|runtime| {
            runtime.block_on(async {
                let bench = Bench::start().await?;
                test(&bench).await
            })
        });
    if let Err(error) = ended {
        panic!("{error}");
    }
}

/// Runs `handler` as the handler of one run, for examples.
///
/// # Panics
///
/// Panics if the bench cannot be started, or the run does not succeed.
#[doc(hidden)]
pub fn in_run<F, W>(handler: F)
where
    F: Fn(Run) -> W + Send + Sync + 'static,
    W: Future<Output = crate::Result<()>> + Send + 'static,
{
    block_on(async |bench| {
        let client = bench.client();
        let worker = Worker::on(client.clone()).handle("example", move |(): (), run| handler(run));
        let worker = worker.start().await?;
        let added = client.add(Add::to("example", &())).await?;
        let run = added.job().run.as_deref().unwrap_or_default();
        let end = client.wait(run, Duration::from_secs(30)).await?;
        worker.stop().await;
        match end {
            Some(end) if end.is_success() => Ok(()),
            end => Err(format!("{end:?}").into()),
        }
    });
}
