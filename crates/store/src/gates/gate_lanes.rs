//! The lanes in which runs wait at a gate, for `explain`.

use redis::Value;

use crate::Store;
use crate::server::reply::text_of;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::RunId;

/// The number of lanes read per gate.
const LANES: usize = 1_000;
/// The number of gates in one call.
const GATES: usize = 500;

impl Store {
    /// Lists the gates at which at least one run waits.
    pub async fn list_waited_at(&self) -> Result<Vec<Gate>, StoreError> {
        let keys = self.scan_keys("gate_waiter_lanes:*").await?;
        Ok(keys
            .iter()
            .filter_map(|key| Gate::from_name(key.rest.strip_prefix("gate_waiter_lanes:")?))
            .collect())
    }

    /// Returns the lanes in which runs wait at each of these gates, at most 1,000 lanes per gate.
    /// Each lane comes with its first waiting run.
    pub async fn read_waiting_lanes(
        &self,
        gates: &[Gate],
    ) -> Result<Vec<Vec<(Lane, RunId)>>, StoreError> {
        let mut found = Vec::with_capacity(gates.len());
        for some in gates.chunks(GATES) {
            let mut pipeline = redis::pipe();
            for gate in some {
                pipeline.cmd("ZRANGE").arg(self.keys.gate_waiter_lanes(gate)).arg(0).arg(LANES - 1);
            }
            // A key of the wrong type counts as missing. The consistency check reports the key.
            found.extend(
                self.link
                    .ask(&mut pipeline)
                    .await?
                    .iter()
                    .map(|answer| lanes(answer.as_ref().ok())),
            );
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
