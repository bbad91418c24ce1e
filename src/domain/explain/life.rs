//! Whether a node was there while a run was to start, and what kept it from claiming.
//!
//! Invariant: a node of which nothing is known for that time is said to be so; it is not taken for running.

use std::time::Duration;

use super::facts::{Facts, NodeFacts, RunFacts, Subject};
use crate::domain::lane::Lane;
use crate::domain::node_event::{Befell, NodeEvent};
use crate::domain::time::UnixMillis;

/// A node unseen for so long is not there.
const GONE_AFTER: Duration = Duration::from_secs(15);

/// As long as what befell a node is kept after it noted something last.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The time in which a run was to start: from being ready to its first claim, or until now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) from: UnixMillis,
    pub(super) to: UnixMillis,
}

impl Window {
    /// The time in which the nodes could have started what is asked about; none if they had nothing to start.
    pub(super) fn of(facts: &Facts) -> Option<Self> {
        match &facts.subject {
            Subject::Run(run) => Self::of_run(run, facts.now),
            Subject::Stretch { run, .. } if run.reason.as_deref().is_some_and(|reason| reason != "missed") => None,
            Subject::Stretch { at, run } => Some(Self { from: *at, to: run.finished_at.unwrap_or(facts.now) }),
            Subject::Behind { run, .. } => Some(Self { from: run.run.due(), to: facts.now }),
            Subject::Job { open, .. } => {
                open.iter().filter(|run| run.is_owed(facts.now)).find_map(|run| Self::of_run(run, facts.now))
            }
            _ => None,
        }
    }

    /// The time in which what the nodes did matters: of a run that waited for another of its job from when it was due, for what held
    /// that one up held it up, too.
    pub(super) fn told_of(facts: &Facts) -> Option<Self> {
        let window = Self::of(facts)?;
        Some(match &facts.subject {
            Subject::Run(run) if run.first_start.is_some() && run.behind.is_some() && run.gate.is_none() => {
                Self { from: run.run.due().min(window.from), ..window }
            }
            _ => window,
        })
    }

    fn of_run(run: &RunFacts, now: UnixMillis) -> Option<Self> {
        let due = run.run.due();
        let is_skipped_missed = run.first_start.is_none() && run.reason.as_deref() == Some("missed") && run.state.is_final();
        match run.first_start {
            // A node had claimed it and started nothing: what kept it from then on is what matters.
            Some(start) if run.is_back(now) => Some(Self { from: run.ready.unwrap_or(start).max(due), to: now }),
            Some(start) => Some(Self { from: run.ready_at.max(due).min(start), to: start }),
            None if is_skipped_missed => Some(Self { from: due, to: run.finished_at.unwrap_or(now) }),
            None if run.is_owed(now) => Some(Self { from: run.ready.unwrap_or(due).max(due), to: now }),
            None => None,
        }
    }

    fn meets(self, event: &NodeEvent) -> bool {
        event.from <= self.to && event.to.is_none_or(|to| to >= self.from)
    }
}

/// Whether a node was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// It ran, as far as is known.
    Up,
    /// It was down for a while: since when, if that is known, and when it started again.
    Down(Option<UnixMillis>, Option<UnixMillis>),
    /// That is not known.
    Unknown,
}

/// Whether `node` ran throughout `window`. What was noted of it before Redis lost data may be of an older state, or gone.
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

/// The last sign of life of a node that is not there any more and did not say that it goes.
fn gone_since(node: &NodeFacts, now: UnixMillis) -> Option<UnixMillis> {
    node.last_seen.filter(|seen| now.since(*seen) > GONE_AFTER)
}

fn is_start(event: &NodeEvent) -> bool {
    matches!(event.what, Befell::Started { .. })
}

fn is_life(event: &NodeEvent) -> bool {
    is_start(event) || event.what == Befell::Stopped
}

/// Whether `node` ran at `at`.
fn life_at(node: &NodeFacts, at: UnixMillis, now: UnixMillis) -> Life {
    let before = node.events.iter().rev().find(|event| event.from <= at && is_life(event));
    let next = node.events.iter().find(|event| event.from > at && is_start(event));
    let seen_before_next = next.and_then(|event| match event.what {
        Befell::Started { seen_before } => seen_before,
        _ => None,
    });
    let gone = gone_since(node, now).filter(|seen| at > *seen);
    match before.map(|event| &event.what) {
        Some(Befell::Stopped) => Life::Down(before.map(|event| event.from), next.map(|event| event.from)),
        Some(_) => match (next, seen_before_next) {
            // It died without a word, and the next of its name found when it had last been seen.
            (Some(next), Some(seen)) if at > seen => Life::Down(Some(seen), Some(next.from)),
            (None, _) if node.last_seen.is_none() || gone.is_some() => Life::Down(gone, None),
            _ => Life::Up,
        },
        None => out_of_reach(node, at, gone, next.map(|event| (event.from, seen_before_next))),
    }
}

/// Whether `node` ran at `at`, where no start and no stop up to then is known; `next` is its next start, and when it had last been
/// seen before that.
fn out_of_reach(
    node: &NodeFacts,
    at: UnixMillis,
    gone: Option<UnixMillis>,
    next: Option<(UnixMillis, Option<UnixMillis>)>,
) -> Life {
    let first = node.events.iter().find(|event| event.from > at && is_life(event));
    // Who stops was there, and what befell it after its start alone is out of reach.
    if first.is_some_and(|event| event.what == Befell::Stopped) {
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

/// Whether a node that ran at the beginning of `window` ended within it.
fn went_down(node: &NodeFacts, window: Window, now: UnixMillis) -> Life {
    let is_within = |at: UnixMillis| window.from < at && at < window.to;
    for event in &node.events {
        let back = || node.events.iter().find(|next| next.from > event.from && is_start(next)).map(|next| next.from);
        match event.what {
            Befell::Stopped if is_within(event.from) => return Life::Down(Some(event.from), back()),
            Befell::Started { seen_before: Some(seen) } if is_within(seen) => return Life::Down(Some(seen), Some(event.from)),
            _ => {}
        }
    }
    // It may have lived for a while after its last sign.
    match gone_since(node, now) {
        Some(seen) if window.from <= seen && seen.saturating_add(GONE_AFTER) < window.to => Life::Down(Some(seen), None),
        _ => Life::Up,
    }
}

/// What kept a node that was there from claiming a run of `lane`, within `window`; over at the latest when the node was.
pub(super) fn obstacles<'f>(
    node: &'f NodeFacts,
    window: Window,
    lane: &'f Lane,
    now: UnixMillis,
) -> impl Iterator<Item = NodeEvent> + 'f {
    let is_one = move |event: &&NodeEvent| match &event.what {
        Befell::RedisAway | Befell::ClaimsHeld | Befell::Held { .. } | Befell::Settling | Befell::NewServer => true,
        Befell::QueuePaused { .. } | Befell::QueueFull { .. } | Befell::QueueRated { .. } => {
            event.what.queue() == Some(lane.queue())
        }
        Befell::SlotsTaken { queue: taken } => taken == lane.queue(),
        Befell::Started { .. } | Befell::Stopped | Befell::ClockStepped { .. } | Befell::FileRefused { .. } => false,
    };
    let closed = move |event: &NodeEvent| NodeEvent { to: event.to.or_else(|| over_with(node, event, now)), ..event.clone() };
    node.events.iter().filter(is_one).map(closed).filter(move |event| window.meets(event))
}

/// When the process that noted an event and never said that it was over ended itself.
fn over_with(node: &NodeFacts, event: &NodeEvent, now: UnixMillis) -> Option<UnixMillis> {
    let end = node.events.iter().filter(|other| other.from > event.from).find_map(|other| match other.what {
        Befell::Started { seen_before } => Some(seen_before.unwrap_or(other.from)),
        Befell::Stopped => Some(other.from),
        _ => None,
    });
    end.or_else(|| gone_since(node, now)).map(|end| end.max(event.from))
}
