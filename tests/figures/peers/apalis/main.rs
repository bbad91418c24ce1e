//! apalis as a peer of `script/bench peers`: `add` adds the jobs of standard input, in bulk or by so many callers one by one, and
//! prints the seconds; `greet` adds a job for the first worker.

use std::error::Error;
use std::time::Instant;

use apalis_core::backend::TaskSink as _;
use apalis_core::task::Task;
use apalis_core::task::builder::TaskBuilder;
use apalis_redis::RedisStorage;
use futures_util::{future, stream};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (mode, callers) = (words.next(), words.next());
    let connection =
        apalis_redis::connect(format!("unix://{}", std::env::var("PEER_SOCKET")?)).await?;
    if mode.as_deref() == Some("greet") {
        return Ok(RedisStorage::new(connection).push("ann".to_owned()).await?);
    }
    let lines = std::io::read_to_string(std::io::stdin())?;
    let jobs: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let mut storage = RedisStorage::new(connection);
    let started = Instant::now();
    match callers {
        Some(callers) => {
            let shares = jobs.chunks(jobs.len() / callers.parse::<usize>()?);
            let callers = shares.map(|share| {
                let (share, storage) = (share.to_vec(), storage.clone());
                tokio::spawn(add_one_by_one(storage, share))
            });
            future::try_join_all(callers).await?;
        }
        None => {
            for some in jobs.chunks(1_000) {
                storage.push_all(stream::iter(some.iter().map(task))).await?;
            }
        }
    }
    println!("{}", started.elapsed().as_secs_f64());
    Ok(())
}

async fn add_one_by_one(mut storage: RedisStorage<Value>, jobs: Vec<Value>) {
    for job in &jobs {
        storage.push_task(task(job)).await.expect("Redis takes the job");
    }
}

fn task(job: &Value) -> Task<Value> {
    let at = job["at"].as_u64().unwrap_or_default() / 1_000;
    TaskBuilder::new(job["action"].clone()).run_at_timestamp(at).build()
}
