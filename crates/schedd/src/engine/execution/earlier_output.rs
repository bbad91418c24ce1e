//! Restores the output of an earlier start of the same attempt that was cut short, so that the new
//! output continues it.
//!
//! Invariant: an attempt has one output, which contains the outputs of all its starts in order. The
//! limits of one output apply to the whole.

use std::time::Duration;

use tracing::debug;

use crate::attempts::OutputBuffer;
use crate::engine::node_context::NodeContext;
use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_store::{Claim, OutputMark, OutputStream};

/// The longest time for which a start waits for the earlier output. After this time the attempt
/// starts without the earlier output.
const WITHIN: Duration = Duration::from_secs(1);

/// Copies the stored output of earlier starts of this attempt into the empty `output`.
pub(crate) async fn put_back(node: &NodeContext, claim: &Claim, output: &OutputBuffer) {
    // After an unclear `done_check`, the stored output is the output of the check.
    if !claim.claimed_before || claim.unclear > 0 {
        return;
    }
    let since = OutputMark::default();
    // In a box, because it is rare and would make the future of each run large.
    let reading = Box::pin(node.store.read_output_since(&claim.run, claim.attempt, since));
    let earlier = match tokio::time::timeout(WITHIN, reading).await {
        Ok(Ok(Some(earlier))) => earlier,
        Ok(Ok(None)) => return,
        Ok(Err(error)) => return debug!("The output of an earlier start cannot be read: {error}."),
        Err(_) => {
            return debug!(
                "The output of an earlier start cannot be read: Redis did not answer in time."
            );
        }
    };
    let stream = |stream| match stream {
        OutputStream::Stdout => ExcerptStream::Stdout,
        OutputStream::Stderr => ExcerptStream::Stderr,
    };
    earlier.head.iter().for_each(|(from, bytes)| output.put_back(stream(*from), bytes));
    output.put_back_dropped(earlier.dropped_bytes);
    earlier.tail.iter().for_each(|(from, bytes)| output.put_back(stream(*from), bytes));
}
