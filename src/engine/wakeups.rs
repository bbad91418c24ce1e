//! The signals that wake the loops of a node before their next interval ends.

use std::sync::Arc;

use tokio::sync::Notify;

/// The signals that wake the loops of a node. A signal has the name of the loop that it wakes.
#[derive(Default)]
pub(crate) struct Wakeups {
    /// Sent when a run was planned for an earlier time than the next known run, or when a slot was
    /// freed.
    pub(crate) ticker: Arc<Notify>,
    /// Sent when a notice waits to be added to the due set.
    pub(crate) notice_planter: Notify,
    /// Sent when the deadline of a run became the earliest deadline, or Redis' clock was set.
    pub(crate) deadline_watch: Notify,
    /// Sent when a user requested that a run stops.
    pub(crate) lease_keeper: Notify,
    /// Sent when the jobs file or the data in Redis has changed.
    pub(crate) reconciler: Notify,
    /// Sent to the boot planner when this node's jobs file has been applied to Redis.
    pub(crate) boot_planner: Notify,
    /// Sent when the time zone data was read again, so that planned runs are compared with it.
    pub(crate) zone_check: Notify,
    /// Sent when the phase of the node or the state of its configuration changed.
    pub(crate) presence: Notify,
}
