//! The load limits of a node: compares the host's load, the host's free memory and the number of
//! running jobs with the limits in the node's file.
//!
//! Invariant: a node above a limit claims nothing, but still renews leases, executes runs, recovers
//! and reports. The node claims again only when the load or memory is a tenth better than the
//! limit. Otherwise the node would switch back and forth.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::engine::settings::HostFacts;
use schedd_core::config::FlowLimits;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::FULL;

/// The shortest interval between two readings of the host's load and memory.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// The reason why a node claims no runs, and the time since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeLimit {
    /// The limit with the value found, as in `load 9.1 > 8`, or the reason why the node cannot
    /// start runs.
    pub(crate) why: String,
    /// The time by Redis' clock from which the node claimed no more runs.
    pub(crate) since: UnixMillis,
}

/// The load limits of this node, and the result of the last comparison with the host.
#[derive(Default)]
pub(crate) struct NodeLimits {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    limits: FlowLimits,
    looked: Option<BootInstant>,
    /// The limit of load or free memory that the host exceeds now. `None` if the host exceeds no
    /// limit.
    by_host: Option<NodeLimit>,
    /// The resource that this node lacks to start runs. `None` if it can start runs.
    short: Option<NodeLimit>,
    /// The limit of running jobs, if the node has reached it. `None` if fewer jobs run.
    full: Option<NodeLimit>,
}

/// The result of a comparison with the limits: whether other nodes should be informed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitLook {
    /// Nothing changed that other nodes should know. The number of running jobs may have reached or
    /// left its limit.
    Same,
    /// The node stopped or resumed claiming because of its host, or because it cannot start runs.
    News,
}

impl NodeLimits {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the limits, which the next call of `look` applies.
    pub(crate) fn set_limits(&self, limits: FlowLimits) {
        let mut state = self.lock();
        state.limits = limits;
        state.looked = None;
    }

    /// Compares the load and free memory of the host, and the number `running` of jobs, with the
    /// limits. The host is examined at most once a second. `short` is the reason why no run can be
    /// started, if any. `now` is Redis' time.
    pub(crate) fn look(
        &self,
        host: &HostFacts,
        running: usize,
        short: Option<String>,
        now: UnixMillis,
    ) -> LimitLook {
        let mut state = self.lock();
        let was_short = state.short.is_some();
        state.short = at_limit(short, state.short.take(), now);
        let look =
            if state.short.is_some() == was_short { LimitLook::Same } else { LimitLook::News };
        let FlowLimits { max_running, .. } = state.limits;
        let full = max_running
            .filter(|most| running >= *most as usize)
            .map(|most| format!("{FULL} {running} of {most} runs"));
        state.full = at_limit(full, state.full.take(), now);
        let at = BootInstant::now();
        if state.looked.is_some_and(|looked| at.since(looked) < LOOK_EVERY) {
            return look;
        }
        state.looked = Some(at);
        let was_at_limit = state.by_host.is_some();
        let why = past(&state.limits, was_at_limit, host);
        state.by_host = at_limit(why, state.by_host.take(), now);
        if state.by_host.is_some() == was_at_limit { look } else { LimitLook::News }
    }

    /// Returns the reason why this node claims no runs now, if any.
    pub(crate) fn at_limit(&self) -> Option<NodeLimit> {
        let state = self.lock();
        [&state.short, &state.by_host, &state.full].into_iter().find_map(Clone::clone)
    }

    /// Returns the reason why this node cannot start any process, if any.
    pub(crate) fn shortage(&self) -> Option<String> {
        self.lock().short.as_ref().map(|limit| limit.why.clone())
    }

    /// Returns true if the host's load or free memory exceeds a limit, so that this node claims no
    /// runs.
    pub(crate) fn is_limited_by_host(&self) -> bool {
        self.lock().by_host.is_some()
    }
}

fn at_limit(why: Option<String>, before: Option<NodeLimit>, now: UnixMillis) -> Option<NodeLimit> {
    why.map(|why| NodeLimit { why, since: before.map_or(now, |at_limit| at_limit.since) })
}

/// Returns the limit that the host exceeds, as text, or `None`. If the host exceeded a limit before
/// (`was_at_limit`), a value counts as good only if it is a tenth better than the limit. A value
/// that the host does not report counts as good.
fn past(limits: &FlowLimits, was_at_limit: bool, host: &HostFacts) -> Option<String> {
    if let (Some(max), Some(load)) = (limits.max_load, limits.max_load.and_then(|_| (host.load)()))
    {
        let bound = if was_at_limit && load <= max { max * 0.9 } else { max };
        if load > bound {
            return Some(format!("load {} > {}", rounded(load), rounded(bound)));
        }
    }
    if let (Some(min), Some(free)) =
        (limits.min_free_memory, limits.min_free_memory.and_then(|_| (host.free_memory)()))
    {
        let bound = if was_at_limit && free >= min { min.saturating_add(min / 10) } else { min };
        if free < bound {
            return Some(format!("free memory {} MiB < {} MiB", free / MIB, bound.div_ceil(MIB)));
        }
    }
    None
}

/// Formats a number with at most two decimals and without trailing zeros.
fn rounded(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static LOAD: Cell<f64> = const { Cell::new(0.0) };
        static FREE: Cell<u64> = const { Cell::new(0) };
    }

    fn host() -> HostFacts {
        HostFacts {
            host: "h".to_owned(),
            boot_id: "b".to_owned(),
            is_alive: |_| false,
            clock: || UnixMillis::EPOCH,
            load: || Some(LOAD.get()),
            free_memory: || Some(FREE.get()),
        }
    }

    fn at(ms: i64) -> UnixMillis {
        UnixMillis::new(ms).unwrap()
    }

    fn looked(flow: &NodeLimits, now: i64) -> Option<(String, i64)> {
        flow.lock().looked = None;
        flow.look(&host(), 0, None, at(now));
        flow.at_limit().map(|at_limit| (at_limit.why, at_limit.since.as_i64()))
    }

    #[test]
    fn a_node_past_its_load_is_held_until_it_is_a_tenth_below() {
        let flow = NodeLimits::default();
        flow.set_limits(FlowLimits { max_load: Some(8.0), ..FlowLimits::default() });
        let mut said = Vec::new();
        for (now, load) in [(1, 8.0), (2, 9.1), (3, 7.5), (4, 7.2), (5, 8.0)] {
            LOAD.set(load);
            said.push(looked(&flow, now));
        }
        let at_limit = |why: &str| Some((why.to_owned(), 2));
        assert_eq!(said, [None, at_limit("load 9.1 > 8"), at_limit("load 7.5 > 7.2"), None, None]);
    }

    #[test]
    fn a_node_short_of_memory_is_held_until_a_tenth_more_is_free() {
        let flow = NodeLimits::default();
        flow.set_limits(FlowLimits { min_free_memory: Some(100 * MIB), ..FlowLimits::default() });
        let mut said = Vec::new();
        for (now, free) in [(1, 100), (2, 99), (3, 109), (4, 110)] {
            FREE.set(free * MIB);
            said.push(looked(&flow, now));
        }
        let at_limit = |why: &str| Some((why.to_owned(), 2));
        assert_eq!(
            said,
            [
                None,
                at_limit("free memory 99 MiB < 100 MiB"),
                at_limit("free memory 109 MiB < 110 MiB"),
                None
            ]
        );
    }

    #[test]
    fn a_node_that_runs_as_much_as_it_may_says_so_and_the_host_comes_first() {
        let flow = NodeLimits::default();
        flow.set_limits(FlowLimits {
            max_running: Some(2),
            max_load: Some(1.0),
            ..FlowLimits::default()
        });
        LOAD.set(0.5);
        flow.look(&host(), 2, None, at(5));
        assert_eq!(
            flow.at_limit(),
            Some(NodeLimit { why: "running 2 of 2 runs".to_owned(), since: at(5) })
        );
        flow.look(&host(), 1, None, at(6));
        assert_eq!(flow.at_limit(), None);
        LOAD.set(3.0);
        flow.look(&host(), 2, None, at(7));
        assert_eq!(
            flow.at_limit().map(|at_limit| at_limit.why),
            Some("running 2 of 2 runs".to_owned()),
            "it looks once a second"
        );
        flow.set_limits(FlowLimits {
            max_running: Some(2),
            max_load: Some(1.0),
            ..FlowLimits::default()
        });
        assert_eq!(flow.look(&host(), 2, None, at(8)), LimitLook::News);
        assert_eq!(flow.at_limit().map(|at_limit| at_limit.why), Some("load 3 > 1".to_owned()));
    }
    #[test]
    fn a_node_that_can_start_nothing_says_so_at_once_and_before_all_else() {
        let flow = NodeLimits::default();
        flow.set_limits(FlowLimits { max_running: Some(2), ..FlowLimits::default() });
        flow.look(&host(), 2, None, at(5));
        assert_eq!(
            flow.look(&host(), 2, Some("no descriptors".to_owned()), at(6)),
            LimitLook::News
        );
        assert_eq!(
            flow.at_limit(),
            Some(NodeLimit { why: "no descriptors".to_owned(), since: at(6) })
        );
        assert_eq!(flow.look(&host(), 2, None, at(7)), LimitLook::News);
        assert_eq!(
            flow.at_limit().map(|at_limit| at_limit.why),
            Some("running 2 of 2 runs".to_owned())
        );
    }
}
