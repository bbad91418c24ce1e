//! The smallest worker of schedd in Rust.

use schedd::{Client, Run, Worker};

async fn greet(name: String, _: Run) -> schedd::Result<()> {
    println!("hello {name}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(&std::env::var("REDIS_URL")?).await?;
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    Worker::on(client).handle("greet", greet).run_until(stop).await?;
    Ok(())
}
