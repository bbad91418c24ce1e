//! The Rust library: handlers that do nothing within this program, all due at once, and adds one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use schedd::{Add, Client, Run, RunningWorker, Worker};
use tokio::sync::Notify;

use super::support::redis::TestRedis;

/// The handlers of a burst.
pub(crate) const BURST: usize = 20_000;
const SLOTS: u32 = 1_000;
/// The time from the adding of the burst to its due time.
const AHEAD: Duration = Duration::from_secs(8);
/// The jobs that one caller adds one by one, and those of many callers together.
pub(crate) const SINGLES: [(usize, usize); 2] = [(1, 5_000), (32, 20_000)];

/// The handlers that have run, and the notice that all have.
struct Count {
    done: AtomicUsize,
    all: Notify,
}

/// A worker within this program, whose handler does nothing but count.
pub(crate) struct Counter {
    count: Arc<Count>,
    worker: RunningWorker,
}

impl Counter {
    pub(crate) async fn start(client: &Client) -> Self {
        let count = Arc::new(Count { done: AtomicUsize::new(0), all: Notify::new() });
        let worker = Worker::on(client.clone())
            .queue("default", SLOTS)
            .state(count.clone())
            .handle("noop", async |_: u32, run: Run<Arc<Count>>| {
                let count = run.state();
                if count.done.fetch_add(1, Ordering::Relaxed) + 1 == BURST {
                    count.all.notify_one();
                }
                Ok(())
            })
            .start()
            .await
            .unwrap();
        Self { count, worker }
    }

    /// Waits for the last handler of the burst. Returns the time of its call.
    pub(crate) async fn last(&self) -> SystemTime {
        self.count.all.notified().await;
        SystemTime::now()
    }
}

/// Adds the jobs of a burst.
pub(crate) async fn add_burst(client: &Client, due: SystemTime) {
    let adds = (0..BURST).map(|number| Add::to("noop", &number).at(due));
    let added = client.add_all(adds).await.unwrap();
    assert!(added.iter().all(Result::is_ok));
}

/// Adds jobs far in the future. Each caller waits for each of its adds. Returns the adds a second.
pub(crate) async fn add_one_by_one(client: &Client, callers: usize, count: usize) -> f64 {
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let client = client.clone();
        tasks.spawn(async move {
            for number in (caller..count).step_by(callers) {
                let add = Add::to("noop", &number).in_(Duration::from_secs(86_400));
                client.add(add).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    per_second(count, started.elapsed())
}

/// Prints the figures of the library.
pub(crate) fn handlers() {
    let redis = TestRedis::everysec();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = Client::connect(&redis.url()).await.unwrap();
        burst(&client).await;
        for (callers, count) in SINGLES {
            let rate = add_one_by_one(&client, callers, count).await;
            println!("{rate:.0} adds/s one by one, callers at once: {callers}");
        }
    });
}

async fn burst(client: &Client) {
    let counter = Counter::start(client).await;
    let due = SystemTime::now() + AHEAD;
    let started = Instant::now();
    add_burst(client, due).await;
    println!("{:.0} adds/s in calls of 500", per_second(BURST, started.elapsed()));
    let took = counter.last().await.duration_since(due).unwrap();
    println!("{:.0} handlers/s from the due moment of {BURST}", per_second(BURST, took));
    let ending = Instant::now();
    counter.worker.stop().await;
    println!("all ends recorded {:.0} ms later", ending.elapsed().as_secs_f64() * 1e3);
}

#[expect(clippy::cast_precision_loss, reason = "a rate without digits")]
pub(crate) fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
