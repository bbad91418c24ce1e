//! The lanes in which runs wait at a gate, as whoever explains them reads them.

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::reply::text_of;
use crate::domain::gate::Gate;
use crate::domain::ids::RunId;
use crate::domain::lane::Lane;

/// Lanes read of one gate.
const LANES: usize = 1_000;
/// Gates of one call.
const GATES: usize = 500;

impl Store {
    /// The gates at which runs wait.
    pub async fn list_waited_at(&self) -> Result<Vec<Gate>, StoreError> {
        let keys = self.scan_keys("queued_lanes:*").await?;
        Ok(keys.iter().filter_map(|key| Gate::from_name(key.rest.strip_prefix("queued_lanes:")?)).collect())
    }

    /// The lanes in which runs wait at each of these gates, at most 1,000 of a gate, each with the first of those runs.
    pub async fn read_waiting_lanes(&self, gates: &[Gate]) -> Result<Vec<Vec<(Lane, RunId)>>, StoreError> {
        let mut found = Vec::with_capacity(gates.len());
        for some in gates.chunks(GATES) {
            let mut pipeline = redis::pipe();
            for gate in some {
                pipeline.cmd("ZRANGE").arg(self.keys.queued_lanes(gate)).arg(0).arg(LANES - 1);
            }
            // A key that holds something else is a finding of the doctor.
            found.extend(self.link.ask(&mut pipeline).await?.iter().map(|answer| lanes(answer.as_ref().ok())));
        }
        Ok(found)
    }
}

fn lanes(answer: Option<&Value>) -> Vec<(Lane, RunId)> {
    let Some(Value::Array(entries)) = answer else { return Vec::new() };
    let read = |entry: String| {
        let (run, lane) = entry.split_once(' ')?;
        Some((lane.parse().ok()?, run.parse().ok()?))
    };
    entries.iter().filter_map(text_of).filter_map(read).collect()
}
