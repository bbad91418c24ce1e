//! The mutant `zrem-first`, a fault made on purpose to test the chaos checker. Its claim removes
//! runs from the due set in a separate call.

use std::time::Duration;

use crate::Store;
use crate::server::mutants::{Mutant, is};
use crate::server::reply::text_of;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::RunId;

/// The time between the removal of a run from the due set and its claim. In this time no set has
/// the run.
const NOWHERE_FOR: Duration = Duration::from_millis(200);

impl Store {
    /// Removes runs from the due set, and adds them again just before their claim. A node that dies
    /// between these steps loses the runs. Does nothing unless the mutant is active.
    pub(crate) async fn zrem_first(&self, lane: &Lane, runs: impl Iterator<Item = &RunId>) {
        if !is(Mutant::ZremFirst) {
            return;
        }
        let due = self.keys.due(lane);
        let mut taken = Vec::new();
        for run in runs {
            let run = run.to_string();
            let mut pipeline = redis::pipe();
            pipeline.cmd("ZSCORE").arg(&due).arg(&run).cmd("ZREM").arg(&due).arg(&run);
            if let Ok([score, redis::Value::Int(1)]) =
                self.link.query(&mut pipeline).await.as_deref()
            {
                taken.extend(text_of(score).map(|score| (score, run)));
            }
        }
        tokio::time::sleep(NOWHERE_FOR).await;
        for (score, run) in taken {
            let _ = self.link.query(redis::pipe().cmd("ZADD").arg(&due).arg(score).arg(run)).await;
        }
    }
}
