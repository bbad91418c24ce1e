//! Brings what befell this node to Redis.
//!
//! Invariant: what Redis did not take is kept, and offered again.

use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use crate::engine::shared::Shared;
use crate::keeper::BootInstant;

const EVERY: Duration = Duration::from_secs(1);
/// How often a node says that what is kept of it is still wanted, which is for 30 days.
const STILL_HERE: Duration = Duration::from_secs(6 * 3600);

/// Writes notes down, for ever.
pub(in crate::engine) async fn run(shared: Arc<Shared>) {
    let mut last = BootInstant::now();
    loop {
        tokio::time::sleep(EVERY).await;
        look_at_full(&shared).await;
        let nothing = if BootInstant::now().since(last) >= STILL_HERE { Nothing::IsSaid } else { Nothing::IsNot };
        if write(&shared, nothing).await {
            last = BootInstant::now();
        }
    }
}

/// Looks what waits for a slot of the queues that have none free: their lanes are not polled.
async fn look_at_full(shared: &Shared) {
    let full = shared.notes.full();
    if full.is_empty() {
        return;
    }
    for offer in shared.slots.offers() {
        let Some(since) = full.get(&offer.queue) else { continue };
        let found = shared.store.count_ripe(&offer.lanes, shared.notes.now()).await;
        // That Redis is away is said by whoever has work for it.
        let Ok((_, ready)) = found else { return };
        if shared.notes.full().get(&offer.queue) != Some(since) {
            continue;
        }
        match ready {
            Some(ready) => shared.notes.waits_for_slot(&offer.queue, ready),
            None => shared.notes.none_waits(&offer.queue),
        }
    }
}

/// Whether a call is made though there is nothing to note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Nothing {
    /// Yes: that this node is there keeps what is known of it.
    IsSaid,
    /// No.
    IsNot,
}

/// Writes what there is. Whether a call was made and answered.
pub(in crate::engine) async fn write(shared: &Shared, nothing: Nothing) -> bool {
    let notes = shared.notes.take();
    if notes.is_empty() && nothing == Nothing::IsNot {
        return false;
    }
    match shared.store.note_events(&shared.settings.node, &notes).await {
        Ok(()) => true,
        Err(error) => {
            // That Redis is away is said by whoever has work for it.
            debug!("What befell this node is not noted yet: {error}.");
            shared.notes.put_back(notes);
            false
        }
    }
}
