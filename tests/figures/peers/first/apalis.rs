//! The smallest worker of apalis.

use apalis_core::worker::builder::WorkerBuilder;
use apalis_redis::RedisStorage;

async fn greet(name: String) {
    println!("hello {name}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let connection = apalis_redis::connect(std::env::var("REDIS_URL")?).await?;
    WorkerBuilder::new("first").backend(RedisStorage::new(connection)).build(greet).run().await?;
    Ok(())
}
