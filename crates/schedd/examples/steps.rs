//! A long run in steps: it reports its progress, stops when it is told to, and goes on after a
//! failure where it was.
//!
//! `cargo run --example steps -- redis://127.0.0.1:6379`

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use schedd::{Add, Again, Client, Run, Worker};
use serde::{Deserialize, Serialize};

/// The place where the program remembers how far each run is. A real program uses its database, in
/// the transaction that has the effect of the step.
#[derive(Default)]
pub(crate) struct Places(Mutex<BTreeMap<String, u32>>);

impl Places {
    pub(crate) fn of(&self, run: &str) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(run).copied().unwrap_or(0)
    }

    fn note(&self, run: &str, step: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(run.to_owned(), step);
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Import {
    pub(crate) pages: u32,
    /// The page at which the first attempt fails, to show where the next attempt goes on.
    pub(crate) fails_at: Option<u32>,
}

async fn import(import: Import, run: Run<Places>) -> schedd::Result<()> {
    // All attempts of a run have the same id.
    for page in run.state().of(run.id())..import.pages {
        if run.is_cancelled() {
            // The program stops: another one goes on from here, and no attempt is counted.
            return Err(Again::after(Duration::ZERO));
        }
        if import.fails_at == Some(page) && run.attempt() == 1 {
            return Err(format!("page {page} cannot be read").into());
        }
        run.state().note(run.id(), page + 1);
        let percent = u8::try_from((page + 1) * 100 / import.pages).unwrap_or(100);
        run.progress(percent, format_args!("page {} of {}", page + 1, import.pages));
    }
    Ok(())
}

pub(crate) fn worker(client: Client) -> Worker<Places> {
    Worker::on(client).state(Places::default()).handle("import", import)
}

pub(crate) fn add(pages: u32, fails_at: Option<u32>) -> Add {
    let rules = Add::to("import", &Import { pages, fails_at }).timeout(Duration::from_secs(3_600));
    rules.retries(3).retry_delay(Duration::from_secs(1))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: steps REDIS_URL")?;
    let client = Client::connect(&url).await?;
    let worker = worker(client.clone()).start().await?;
    let added = client.add(add(10, Some(4))).await?;
    let run = added.job().run.clone().ok_or("no run is planned")?;
    let end = client.wait(&run, Duration::from_secs(60)).await?;
    println!(
        "{run}: {}",
        end.map_or_else(|| "still running".to_owned(), |end| end.outcome.to_string())
    );
    worker.stop().await;
    Ok(())
}
