//! The state of a node while a run should have started, and the obstacles that kept the node from
//! claiming runs.
//!
//! Invariant: a node without any known facts for that time counts as unknown, never as running.

use std::time::Duration;

use crate::domain::explain::facts::{Facts, GONE_AFTER, NodeFacts, RunFacts, Subject};
use crate::domain::queue::lane::Lane;
use crate::domain::run::node_event::{NodeEvent, NodeEventKind};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The time for which Redis keeps the events of a node after the last event of that node.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The kinds of obstacles that concern all nodes at the same time.
pub(super) const SHARED: [&str; 5] =
    ["new_server", "restoring", "queue_paused", "queue_full", "queue_rated"];

/// The period in which nodes could start a run: from its ready time to its first claim, or to the
/// present time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) from: UnixMillis,
    pub(super) to: UnixMillis,
}

impl Window {
    /// Returns the period in which nodes could start the run that the user asks about. Returns
    /// `None` if the run was never ready.
    pub(super) fn of(facts: &Facts) -> Option<Self> {
        match &facts.subject {
            Subject::Run(run) => Self::of_run(run, facts.now),
            Subject::InRange { run, .. }
                if run.reason.as_deref().is_some_and(|reason| reason != "missed") =>
            {
                None
            }
            Subject::InRange { at, run } => {
                Some(Self { from: *at, to: run.finished_at.unwrap_or(facts.now) })
            }
            Subject::Behind { run, .. } => Some(Self { from: run.run.due(), to: facts.now }),
            Subject::Job { open, .. } => open
                .iter()
                .filter(|run| run.is_owed(facts.now))
                .find_map(|run| Self::of_run(run, facts.now)),
            _ => None,
        }
    }

    /// Returns the period for which `explain` reports the state of the nodes. This is the period in
    /// which nodes could start the run. If the run waited for another run of its job, the period
    /// begins at the due time. The reason is that a delay of the other run also delayed this run.
    pub(super) fn of_nodes(facts: &Facts) -> Option<Self> {
        let window = Self::of(facts)?;
        Some(match &facts.subject {
            Subject::Run(run)
                if run.first_start.is_some() && run.behind.is_some() && run.gate.is_none() =>
            {
                Self { from: run.run.due().min(window.from), ..window }
            }
            _ => window,
        })
    }

    fn of_run(run: &RunFacts, now: UnixMillis) -> Option<Self> {
        let due = run.run.due();
        let is_skipped_missed = run.first_start.is_none()
            && run.reason.as_deref() == Some("missed")
            && run.state.is_final();
        match run.first_start {
            // A node claimed the run but handed it back, so the period begins when the run was
            // ready again.
            Some(start) if run.is_back(now) => {
                Some(Self { from: run.ready.unwrap_or(start).max(due), to: now })
            }
            Some(start) => Some(Self { from: run.ready_at.max(due).min(start), to: start }),
            None if is_skipped_missed => {
                Some(Self { from: due, to: run.finished_at.unwrap_or(now) })
            }
            None if run.is_owed(now) => {
                Some(Self { from: run.ready.unwrap_or(due).max(due), to: now })
            }
            None => None,
        }
    }

    fn meets(self, event: &NodeEvent) -> bool {
        event.from <= self.to && event.to.is_none_or(|to| to >= self.from)
    }
}

/// The state of a node during a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// The node was running, as far as is known.
    Up,
    /// The node was not running. The values are the times when the node ended and when it started
    /// again, each `None` if not known.
    Down(Option<UnixMillis>, Option<UnixMillis>),
    /// No facts about the node are known for the window.
    Unknown,
}

/// Returns the state of `node` in `window`. The state is unknown if Redis may have lost events of
/// that time.
pub(super) fn life(facts: &Facts, node: &NodeFacts, window: Window) -> Life {
    let now = facts.now;
    if facts.losses.iter().any(|loss| loss.concerns(window.from)) {
        return Life::Unknown;
    }
    match life_at(node, window.from, now) {
        Life::Up => went_down(node, window, now),
        other => other,
    }
}

/// Returns the time of the last heartbeat of a node that is gone and recorded no stop. Returns
/// `None` for any other node.
fn gone_since(node: &NodeFacts, now: UnixMillis) -> Option<UnixMillis> {
    node.last_seen.filter(|seen| now.since(*seen) > GONE_AFTER)
}

fn is_start(event: &NodeEvent) -> bool {
    matches!(event.what, NodeEventKind::Started { .. })
}

fn is_life(event: &NodeEvent) -> bool {
    is_start(event) || event.what == NodeEventKind::Stopped
}

/// Returns the state of `node` at the time `at`.
fn life_at(node: &NodeFacts, at: UnixMillis, now: UnixMillis) -> Life {
    let before = node.events.iter().rev().find(|event| event.from <= at && is_life(event));
    let next = node.events.iter().find(|event| event.from > at && is_start(event));
    let seen_before_next = next.and_then(|event| match event.what {
        NodeEventKind::Started { seen_before } => seen_before,
        _ => None,
    });
    let gone = gone_since(node, now).filter(|seen| at > *seen);
    match before.map(|event| &event.what) {
        Some(NodeEventKind::Stopped) => {
            Life::Down(before.map(|event| event.from), next.map(|event| event.from))
        }
        Some(_) => match (next, seen_before_next) {
            // The node died, and its next process recorded the last heartbeat before the start.
            (Some(next), Some(seen)) if at > seen => Life::Down(Some(seen), Some(next.from)),
            (None, _) if node.last_seen.is_none() || gone.is_some() => Life::Down(gone, None),
            _ => Life::Up,
        },
        None => before_events(node, at, gone, next.map(|event| (event.from, seen_before_next))),
    }
}

/// Returns the state of `node` at `at` if no start or stop before `at` is known. `next` has the
/// node's next start and the last heartbeat before this start.
fn before_events(
    node: &NodeFacts,
    at: UnixMillis,
    gone: Option<UnixMillis>,
    next: Option<(UnixMillis, Option<UnixMillis>)>,
) -> Life {
    let first = node.events.iter().find(|event| event.from > at && is_life(event));
    // A node that stopped was running before, even if the record of its start is deleted.
    if first.is_some_and(|event| event.what == NodeEventKind::Stopped) {
        return Life::Up;
    }
    let was_there = node.events.iter().any(|event| event.from <= at);
    let is_known = |start: UnixMillis| !was_there && !node.is_cut && start.since(at) < KEPT;
    match (node.started_at, next) {
        (Some(started), None) if started <= at && gone.is_some() => Life::Down(gone, None),
        (Some(started), _) if started <= at => Life::Up,
        (_, Some((next, Some(seen)))) if at > seen => Life::Down(Some(seen), Some(next)),
        (_, Some((_, Some(_)))) if was_there => Life::Up,
        (_, Some((next, None))) if is_known(next) => Life::Down(None, Some(next)),
        (_, None) if first.is_none() && node.events.iter().any(|event| event.from > at) => Life::Up,
        (Some(started), None) if is_known(started) => Life::Down(None, Some(started)),
        _ => Life::Unknown,
    }
}

/// Returns the state during `window` of a node that was running when the window began.
fn went_down(node: &NodeFacts, window: Window, now: UnixMillis) -> Life {
    let is_within = |at: UnixMillis| window.from < at && at < window.to;
    for event in &node.events {
        let back = || {
            node.events
                .iter()
                .find(|next| next.from > event.from && is_start(next))
                .map(|next| next.from)
        };
        match event.what {
            NodeEventKind::Stopped if is_within(event.from) => {
                return Life::Down(Some(event.from), back());
            }
            NodeEventKind::Started { seen_before: Some(seen) } if is_within(seen) => {
                return Life::Down(Some(seen), Some(event.from));
            }
            _ => {}
        }
    }
    // The node may have run for a while after its last heartbeat.
    match gone_since(node, now) {
        Some(seen) if window.from <= seen && seen.saturating_add(GONE_AFTER) < window.to => {
            Life::Down(Some(seen), None)
        }
        _ => Life::Up,
    }
}

/// Returns the events that kept a node from claiming a run of `lane` within `window`. An event
/// without a recorded end gets the end of the node's process as its end. The obstacles that concern
/// all nodes end with `window`, because the run was claimed then.
pub(super) fn obstacles_of<'f>(
    node: &'f NodeFacts,
    window: Window,
    lane: &'f Lane,
    now: UnixMillis,
) -> impl Iterator<Item = NodeEvent> + 'f {
    let is_obstacle = move |event: &&NodeEvent| match &event.what {
        NodeEventKind::RedisAway
        | NodeEventKind::ClaimsSuspended
        | NodeEventKind::AtLimit { .. }
        | NodeEventKind::Restoring
        | NodeEventKind::NewServer => true,
        NodeEventKind::QueuePaused { .. }
        | NodeEventKind::QueueFull { .. }
        | NodeEventKind::QueueRated { .. } => event.what.queue() == Some(lane.queue()),
        NodeEventKind::SlotsTaken { queue: taken } => taken == lane.queue(),
        NodeEventKind::Started { .. }
        | NodeEventKind::Stopped
        | NodeEventKind::ClockStepped { .. }
        | NodeEventKind::FileRefused { .. } => false,
    };
    let closed = move |event: &NodeEvent| {
        let to = event.to.or_else(|| process_end(node, event, now));
        let claimed = (window.to < now && SHARED.contains(&event.what.word())).then_some(window.to);
        let to = match (to, claimed) {
            (Some(to), Some(claimed)) => Some(to.min(claimed)),
            (to, claimed) => to.or(claimed),
        };
        NodeEvent { to: to.map(|to| to.max(event.from)), ..event.clone() }
    };
    node.events.iter().filter(is_obstacle).map(closed).filter(move |event| window.meets(event))
}

/// Returns the end of the process that recorded `event`. Returns `None` if the process may still
/// run.
fn process_end(node: &NodeFacts, event: &NodeEvent, now: UnixMillis) -> Option<UnixMillis> {
    let end = node.events.iter().filter(|other| other.from > event.from).find_map(|other| {
        match other.what {
            NodeEventKind::Started { seen_before } => Some(seen_before.unwrap_or(other.from)),
            NodeEventKind::Stopped => Some(other.from),
            _ => None,
        }
    });
    end.or_else(|| gone_since(node, now)).map(|end| end.max(event.from))
}
