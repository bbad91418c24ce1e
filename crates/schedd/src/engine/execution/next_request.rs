//! The request of an attempt for the time of its job's next run.

use std::time::Duration;

use tracing::warn;

use crate::engine::dispatch::definition::Definition;
use crate::engine::node_context::NodeContext;
use crate::engine::planning::next_time;
use crate::engine::planning::operation_error::OperationError;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Claim, NextReply, REFUSED};

/// The wait before the request is sent again after Redis did not answer.
const AGAIN: Duration = Duration::from_millis(200);

/// Sets the time of the job's next run, as the attempt of `claim` asks for in `text`, and repeats
/// this until Redis answers. Returns the time, or the reason why it was refused, for the record of
/// the run. The end of the run is recorded afterwards, so no crash of the node loses the request.
pub(super) async fn set_next(
    node: &NodeContext,
    definition: &Definition,
    claim: &Claim,
    text: &str,
    now: UnixMillis,
) -> String {
    let refused = |why: String| {
        warn!("The time that the run set for the next run is refused: {why}.");
        format!("{REFUSED}{why}")
    };
    let within = definition.spec.next_within;
    let at = match next_time::read_next(text, now, definition.timetable.zone(), within) {
        Ok(at) => at,
        Err(why) => return refused(why),
    };
    loop {
        match next_time::set_next(&node.store, claim.run.job(), at, Some((&claim.run, claim.fence)))
            .await
        {
            Ok(NextReply::Paused) => return refused("the job is paused".to_owned()),
            Ok(NextReply::Unknown | NextReply::Stale) => {
                return refused("the job has no more runs".to_owned());
            }
            Ok(NextReply::Lost) => return refused("the run has lost its lease".to_owned()),
            Ok(_) => return at.to_string(),
            Err(OperationError::Store(error)) if error.is_passing() => {
                node.outage_log.failed(&error, "the time of the next run is not set");
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return refused(error.to_string()),
        }
    }
}
