//! A queue, as `queues` has it.

use serde::Deserialize;

use super::run_document::millis;
use crate::dashboard::page_clock::DocumentTime;
use crate::dashboard::shown_text::ShownText;

/// The document `queue`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct QueueDocument {
    pub(in crate::dashboard) name: ShownText,
    pub(in crate::dashboard) state: ShownText,
    pub(in crate::dashboard) paused: bool,
    pub(in crate::dashboard) depth: u64,
    pub(in crate::dashboard) scheduled: u64,
    pub(in crate::dashboard) running: u64,
    pub(in crate::dashboard) oldest_ready: Option<DocumentTime>,
    pub(in crate::dashboard) next_ready: Option<DocumentTime>,
    pub(in crate::dashboard) limit: Option<u64>,
    pub(in crate::dashboard) capacity: u64,
    utilisation: Option<f64>,
    pub(in crate::dashboard) rate: Option<ShownText>,
    pub(in crate::dashboard) backlog: Option<ShownText>,
    wait_ms: PercentilesDocument,
    run_ms: PercentilesDocument,
    pub(in crate::dashboard) nodes: u64,
    pub(in crate::dashboard) at_limit: Vec<LimitDocument>,
    pub(in crate::dashboard) unserved: Vec<UnservedDocument>,
}

/// The median and the 95th percentile.
#[derive(Debug, Deserialize)]
struct PercentilesDocument {
    p50: Option<u64>,
    p95: Option<u64>,
}

/// The reason why a node starts no runs of a queue.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct LimitDocument {
    pub(in crate::dashboard) node: ShownText,
    pub(in crate::dashboard) reason: ShownText,
}

/// Runs that no node serves.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct UnservedDocument {
    pub(in crate::dashboard) runs: u64,
    pub(in crate::dashboard) reason: ShownText,
}

impl PercentilesDocument {
    fn words(&self) -> Option<String> {
        Some(format!("{} / {}", millis(self.p50?), millis(self.p95?)))
    }
}

impl QueueDocument {
    /// Returns the median and the 95th percentile of the waiting times, as text.
    pub(in crate::dashboard) fn waits(&self) -> Option<String> {
        self.wait_ms.words()
    }

    /// Returns the median and the 95th percentile of the durations, as text.
    pub(in crate::dashboard) fn takes(&self) -> Option<String> {
        self.run_ms.words()
    }

    /// Returns the part of its places that the queue uses, in percent.
    pub(in crate::dashboard) fn percent(&self) -> Option<String> {
        self.utilisation.map(|part| format!("{:.0}", (part * 100.0).clamp(0.0, 999.0)))
    }
}
