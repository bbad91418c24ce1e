//! What a start printed that was cut short: the same attempt is made anew, and its output goes on from there.
//!
//! Invariant: an attempt has one output, of all its starts in their order, within the bounds of one.

use std::time::Duration;

use tracing::debug;

use super::shared::Shared;
use crate::executor::{OutputBuffer, Stream};
use crate::store::{self, Claim, OutputMark};

/// So long a start waits to learn of it; then it goes on without.
const WITHIN: Duration = Duration::from_secs(1);

/// Puts into `output`, which is empty, what earlier starts of this attempt printed.
pub(super) async fn put_back(shared: &Shared, claim: &Claim, output: &OutputBuffer) {
    // What is kept where its question was unclear is what that printed.
    if !claim.claimed_before || claim.unclear > 0 {
        return;
    }
    let reading = shared.store.read_output_since(&claim.run, claim.attempt, OutputMark::default());
    let earlier = match tokio::time::timeout(WITHIN, reading).await {
        Ok(Ok(Some(earlier))) => earlier,
        Ok(Ok(None)) => return,
        Ok(Err(error)) => return debug!("What an earlier start printed is not read: {error}."),
        Err(_) => return debug!("What an earlier start printed is not read: no answer in time."),
    };
    let stream = |stream| match stream {
        store::Stream::Stdout => Stream::Stdout,
        store::Stream::Stderr => Stream::Stderr,
    };
    earlier.head.iter().for_each(|(from, bytes)| output.put_back(stream(*from), bytes));
    output.put_back_dropped(earlier.dropped_bytes);
    earlier.tail.iter().for_each(|(from, bytes)| output.put_back(stream(*from), bytes));
}
