//! The price of `durability = "replicated"`: the same adds on one Redis with a replica, in turns with
//! and without it. The replica runs on this host, so a network adds its round trip.

use std::time::{Duration, Instant};

use schedd::{Add, Client};

use super::handlers::{add_one_by_one, per_second};
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
                rates[1].push(add_one_by_one(&client, 1, SINGLE).await);
                rates[2].push(add_one_by_one(&client, CALLERS, SHARED).await);
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

async fn grouped(client: &Client) -> f64 {
    let started = Instant::now();
    let adds = (0..GROUPED).map(|_| Add::to("noop", &1).in_(Duration::from_secs(86_400)));
    let added = client.add_all(adds).await.unwrap();
    assert!(added.iter().all(Result::is_ok));
    per_second(GROUPED, started.elapsed())
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
