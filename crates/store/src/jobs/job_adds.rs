//! Adds new jobs that come from the command line, many jobs in one call.
//!
//! Invariant: these calls have the effects that `apply_jobs` would have. If the name of a job or
//! its planned run already has a record, the script changes nothing for that job. The caller then
//! passes the job to `apply_jobs`.

use std::collections::{BTreeMap, BTreeSet};

use super::job_edits::ApplyOrder;
use super::job_records::SourceKind;
use crate::Store;
use crate::runs::successor::Successor;
use crate::server::scripts;
use crate::server::scripts::{Invocation, millis};
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::JobName;

/// The most jobs that one call adds. Redis serves no other client during the call.
const MOST: usize = 250;

impl ApplyOrder {
    /// Returns the first run of the job if the order may be a plain add. A plain add is of a new
    /// job from the command line, without gates, `not_while` or a unique key. Returns None for any
    /// other order.
    fn plainly_planted(&self) -> Option<&Successor> {
        let is_plain = self.kind == SourceKind::Api
            && self.read.is_none()
            && self.not_while.is_empty()
            && self.after.is_empty()
            && self.unique.is_none()
            && self.old_key.is_none()
            && self.old_gates.is_empty()
            && self.gated.is_none();
        self.planted.as_ref().filter(|_| is_plain)
    }
}

impl Store {
    /// Adds the jobs of `orders` that are plain and have free names. Returns one value for each
    /// order: true if its job was added, false if the order needs `apply_job`.
    ///
    /// Adds nothing if two orders name the same job. Then the sequence of the orders decides which
    /// definition the job gets.
    pub async fn add_jobs(&self, orders: &[ApplyOrder]) -> Result<Vec<bool>, StoreError> {
        let mut added = vec![false; orders.len()];
        let names: BTreeSet<&JobName> = orders.iter().map(|order| &order.name).collect();
        if names.len() < orders.len() {
            return Ok(added);
        }
        let mut plain: BTreeMap<&Lane, Vec<(usize, &ApplyOrder, &Successor)>> = BTreeMap::new();
        for (at, order) in orders.iter().enumerate() {
            if let Some(planted) = order.plainly_planted() {
                plain.entry(&order.lane).or_default().push((at, order, planted));
            }
        }
        let batches: Vec<_> = plain
            .iter()
            .flat_map(|(lane, adds)| adds.chunks(MOST).map(move |batch| (*lane, batch)))
            .collect();
        let calls: Vec<_> =
            batches.iter().map(|(lane, batch)| self.add_call(lane, batch)).collect();
        for ((_, batch), reply) in batches.iter().zip(self.link.invoke_all(&calls).await?) {
            let mut reply = match reply {
                Ok(reply) => reply,
                // These refusals change nothing, and `apply_job` reports the error of each job.
                Err(StoreError::WrongType { .. } | StoreError::OutOfMemory { .. }) => continue,
                // An ACL may stop the script in the middle. `apply_job` would take such a job for
                // the result of an earlier call with its token.
                Err(error) => return Err(error),
            };
            if reply.word != "added" {
                return Err(reply.unknown());
            }
            for (at, ..) in *batch {
                added[*at] = reply.number()? == 1;
            }
        }
        Ok(added)
    }

    fn add_call(&self, lane: &Lane, batch: &[(usize, &ApplyOrder, &Successor)]) -> Invocation {
        let call = self
            .call(&scripts::ADD_JOBS)
            .of_job_lane(lane)
            .arg("lane", lane.as_str())
            .arg("by", &*self.by);
        batch.iter().fold(call, |call, (_, order, planted)| {
            call.item()
                .of_run(&planted.run)
                .arg("ready", planted.ready.as_i64())
                .arg("definition", &order.definition)
                .arg("once", u8::from(order.is_once))
                .arg("facts", facts_of(order, &self.by))
        })
    }
}

/// Returns the fields of a job's record that the script does not compute, as a JSON list of field and
/// value. A field with an empty value is absent. `by` is the user who adds the job.
fn facts_of(order: &ApplyOrder, by: &str) -> String {
    let anchor = (!order.is_once).then(|| order.anchor.as_i64().to_string());
    let delay = order.delay.map(|delay| millis(delay).to_string());
    let max_runs = order.max_runs.map(|most| most.to_string());
    let facts: [(&str, &str); 8] = [
        ("token", &order.token),
        ("tz", &order.tz),
        ("anchor", anchor.as_deref().unwrap_or_default()),
        ("source", &order.source),
        ("created_by", by),
        ("delay", delay.as_deref().unwrap_or_default()),
        ("max_runs", max_runs.as_deref().unwrap_or_default()),
        ("notify", &order.notify),
    ];
    let filled = facts.into_iter().filter(|(_, value)| !value.is_empty());
    let list: Vec<&str> = filled.flat_map(|(field, value)| [field, value]).collect();
    // A list of texts always serializes.
    serde_json::to_string(&list).unwrap_or_default()
}
