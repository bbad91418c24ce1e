//! Forgets what is past its time or its bound, in bounded steps: history, output, ended jobs.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tracing::debug;

use super::runner::HISTORY_A_JOB;
use super::shared::Shared;
use crate::store::StoreError;

const EVERY: Duration = Duration::from_secs(30);
const HISTORY_IN_ALL: usize = 100_000;
const DEAD_A_JOB: usize = 1_000;
const DEAD_IN_ALL: usize = 10_000;
pub(super) const HISTORY_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
const OUTPUT_BYTES: u64 = 256 * 1024 * 1024;
const OUTPUT_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
const ENDED_JOBS: usize = 10_000;
/// Steps of one kind in one round; what is left waits for the next.
const STEPS: usize = 100;

/// Tidies up, for ever.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        // Spread, so that many nodes do not tidy up the same things at the same moment.
        let pause = EVERY.mul_f64(0.75 + fastrand::f64() / 2.0);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.tidy_now.notified() => {}
        }
        match round(&shared).await {
            Ok(0) => {}
            Ok(forgotten) => debug!(forgotten, "Tidied up."),
            Err(error) => shared.weather.failed(&error, "old records are not forgotten"),
        }
    }
}

async fn round(shared: &Shared) -> Result<usize, StoreError> {
    let store = &shared.store;
    let now = store.now().await?;
    let mut total = 0;
    let long = std::mem::take(&mut *shared.long_histories.lock().unwrap_or_else(PoisonError::into_inner));
    let before = now.saturating_sub(HISTORY_AGE);
    for job in &long {
        for _ in 0..STEPS {
            let forgotten = match store.forget_runs(Some(job), before, HISTORY_A_JOB).await {
                Ok(runs) => store.forget_dead(Some(job), before, DEAD_A_JOB).await.map(|dead| runs + dead),
                Err(error) => Err(error),
            };
            match forgotten {
                Ok(0) => break,
                Ok(forgotten) => total += forgotten,
                Err(error) if error.is_passing() => return Err(error),
                // The others are not to grow for it.
                Err(error) => {
                    shared.weather.failed(&error, &format!("old runs of {job} are not forgotten"));
                    break;
                }
            }
        }
    }
    for _ in 0..STEPS {
        let forgotten = store.forget_runs(None, before, HISTORY_IN_ALL).await?
            + store.forget_dead(None, before, DEAD_IN_ALL).await?
            + store.forget_outputs(now.saturating_sub(OUTPUT_AGE), OUTPUT_BYTES).await?
            + store.forget_jobs(before, ENDED_JOBS).await?;
        total += forgotten;
        if forgotten == 0 {
            break;
        }
    }
    Ok(total)
}
