//! The signals that wake the loops of a node before their next interval is over.

use std::sync::Arc;

use tokio::sync::Notify;

/// The signals that wake the loops of a node. Each signal is named after the loop that it wakes.
#[derive(Default)]
pub(crate) struct Wakeups {
    /// Sent when an earlier run was added to the due set, or a slot was freed.
    pub(crate) ticker: Arc<Notify>,
    /// Sent when a notice waits.
    pub(crate) notice_planter: Notify,
    /// Sent when a run was asked to stop.
    pub(crate) lease_keeper: Notify,
    /// Sent when the jobs file or the data in Redis has changed.
    pub(crate) reconciler: Notify,
    /// Sent to the boot planner when this node's jobs file has been applied to Redis.
    pub(crate) boot_planner: Notify,
    /// Sent when the zone data was read again, so planned runs are compared with the zone data.
    pub(crate) zone_check: Notify,
    /// Sent when the phase or the state of the configuration changed.
    pub(crate) presence: Notify,
}
