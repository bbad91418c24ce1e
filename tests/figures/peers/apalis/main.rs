//! apalis as a peer of `script/bench peers`: adds the jobs of standard input and prints the seconds.

use std::error::Error;
use std::time::Instant;

use apalis_core::backend::TaskSink as _;
use apalis_core::task::builder::TaskBuilder;
use apalis_redis::RedisStorage;
use futures_util::stream;
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let lines = std::io::read_to_string(std::io::stdin())?;
    let jobs: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let url = format!("unix://{}", std::env::var("PEER_SOCKET")?);
    let mut storage = RedisStorage::new(apalis_redis::connect(url).await?);
    let started = Instant::now();
    for some in jobs.chunks(1_000) {
        let tasks = some.iter().map(|job| {
            let at = job["at"].as_u64().unwrap_or_default() / 1_000;
            TaskBuilder::new(job["action"].clone()).run_at_timestamp(at).build()
        });
        storage.push_all(stream::iter(tasks)).await?;
    }
    println!("{}", started.elapsed().as_secs_f64());
    Ok(())
}
