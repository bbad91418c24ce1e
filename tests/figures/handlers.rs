//! The Rust library: handlers that do nothing within this program, all due at once, and adds one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use schedd::{Add, Client, Run, Worker};
use tokio::sync::Notify;

use super::support::redis::TestRedis;

const BURST: usize = 20_000;
const SLOTS: u32 = 1_000;
/// The time from the adding of the burst to its due time.
const AHEAD: Duration = Duration::from_secs(8);
const SINGLES: usize = 5_000;
/// The adds one by one that are under way at the same time.
const AT_ONCE: usize = 32;

/// The handlers that have run, and the notice that all have.
struct Count {
    done: AtomicUsize,
    all: Notify,
}

/// Prints the figures of the library.
pub(crate) fn handlers() {
    let redis = TestRedis::everysec();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = Client::connect(&redis.url()).await.unwrap();
        burst(&client).await;
        singles(&client).await;
    });
}

async fn burst(client: &Client) {
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
    let due = SystemTime::now() + AHEAD;
    let adds = (0..BURST).map(|number| Add::to("noop", &number).at(due));
    let started = Instant::now();
    let added = client.add_all(adds).await.unwrap();
    assert!(added.iter().all(Result::is_ok));
    let rate = per_second(BURST, started.elapsed());
    println!("{rate:.0} adds/s in calls of 500");
    count.all.notified().await;
    let took = SystemTime::now().duration_since(due).unwrap();
    println!("{:.0} handlers/s from the due moment of {BURST}", per_second(BURST, took));
    let ending = Instant::now();
    worker.stop().await;
    println!("all ends recorded {:.0} ms later", ending.elapsed().as_secs_f64() * 1e3);
}

async fn singles(client: &Client) {
    let started = Instant::now();
    for number in 0..SINGLES {
        let add = Add::to("noop", &number).in_(Duration::from_secs(3_600));
        client.add(add).await.unwrap();
    }
    println!("{:.0} adds/s one by one", per_second(SINGLES, started.elapsed()));
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..AT_ONCE {
        let client = client.clone();
        tasks.spawn(async move {
            for number in (task..SINGLES * 4).step_by(AT_ONCE) {
                let add = Add::to("noop", &number).in_(Duration::from_secs(3_600));
                client.add(add).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let rate = per_second(SINGLES * 4, started.elapsed());
    println!("{rate:.0} adds/s one by one, {AT_ONCE} callers at once");
}

#[expect(clippy::cast_precision_loss, reason = "a rate without digits")]
fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
