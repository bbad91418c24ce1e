//! The price of `durability = "replicated"`: the same adds on one Redis with a replica, in turns with
//! and without it. The replica runs on this host, so a network adds its round trip.

use std::time::{Duration, Instant};

use schedd::{Add, Client};

use super::support::redis::TestRedis;
use super::support::replica::Replica;

/// The adds in calls of 500, one by one, and one by one of many callers.
const GROUPED: usize = 50_000;
const SINGLE: usize = 3_000;
const SHARED: usize = 20_000;
const CALLERS: usize = 32;
const ROUNDS: usize = 3;

/// Prints the adds a second with and without replicas, and the ratio.
pub(crate) fn durability() {
    let redis = TestRedis::everysec();
    let _replica = Replica::of(&redis);
    let urls = [redis.url(), format!("{}?durability=replicated", redis.url())];
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut rates = [(); 2].map(|()| [(); 3].map(|()| Vec::new()));
        for _ in 0..ROUNDS {
            for (url, rates) in urls.iter().zip(&mut rates) {
                let client = Client::connect(url).await.unwrap();
                rates[0].push(grouped(&client).await);
                rates[1].push(single(&client).await);
                rates[2].push(shared(&client).await);
            }
        }
        let names = ["in calls of 500", "one by one", "one by one of 32 callers"];
        for (at, name) in names.iter().enumerate() {
            let [without, with] = [0, 1].map(|kind| median(&mut rates[kind][at]));
            println!(
                "adds {name}: {without:.0}/s with durability none, {with:.0}/s with replicated, ratio {:.2}",
                with / without
            );
        }
    });
}

fn add() -> Add {
    Add::to("noop", &1).in_(Duration::from_secs(86_400))
}

async fn grouped(client: &Client) -> f64 {
    let started = Instant::now();
    let added = client.add_all((0..GROUPED).map(|_| add())).await.unwrap();
    assert!(added.iter().all(Result::is_ok));
    per_second(GROUPED, started.elapsed())
}

async fn single(client: &Client) -> f64 {
    let started = Instant::now();
    for _ in 0..SINGLE {
        client.add(add()).await.unwrap();
    }
    per_second(SINGLE, started.elapsed())
}

async fn shared(client: &Client) -> f64 {
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let client = client.clone();
        tasks.spawn(async move {
            for _ in 0..SHARED / CALLERS {
                client.add(add()).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    per_second(SHARED, started.elapsed())
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "a rate without digits")]
fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
