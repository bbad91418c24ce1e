//! A program that only adds jobs: it executes nothing, and needs no worker of its own.
//!
//! `cargo run --example enqueue_only -- redis://127.0.0.1:6379`

use std::error::Error;
use std::time::Duration;

use schedd::{Add, Client};
use serde::Serialize;

#[derive(Serialize)]
struct Mail {
    to: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: enqueue_only REDIS_URL")?;
    run(Client::connect(&url).await?).await
}

pub(crate) async fn run(client: Client) -> Result<(), Box<dyn Error>> {
    let mail = Mail { to: "ann@example.org".to_owned() };
    // One mail is due at once, one in ten minutes, and a digest is due each morning.
    client.add(Add::to("send-mail", &mail)).await?;
    client.add(Add::to("send-mail", &mail).in_(Duration::from_secs(600)).retries(5)).await?;
    let digest = Add::to("send-digest", &()).name("digest").cron("0 7 * * *").zone("Europe/Berlin");
    // The same program may start again, or on another host: there is one job.
    client.add(digest.replace()).await?;
    // Many jobs in few calls.
    let mails = (1..=1_000).map(|number| Mail { to: format!("user{number}@example.org") });
    let added = client.add_all(mails.map(|mail| Add::to("send-mail", &mail))).await?;
    let failed = added.iter().filter(|added| added.is_err()).count();
    println!("{} jobs added, {failed} refused", added.len() - failed);
    Ok(())
}
