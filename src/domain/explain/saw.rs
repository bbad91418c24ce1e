//! What each node saw while a run was to start: whether it was there, reached Redis, had a slot.
//!
//! Invariant: a node of which nothing is known for that time is said to be so; it is not taken for running.

use std::time::Duration;

use super::ON_TIME;
use super::facts::{Facts, NodeFacts, RunFacts, Subject};
use super::sentences::{findings, stretch_words};
use crate::domain::ids::QueueName;
use crate::domain::node_event::{Befell, NodeEvent};
use crate::domain::time::UnixMillis;
use crate::domain::wording::shown;
use crate::domain::zone::Zone;

/// A node unseen for so long is not there.
const GONE_AFTER: Duration = Duration::from_secs(15);
/// How long before the time asked about a refused file is still told.
const REFUSED_LATELY: Duration = Duration::from_secs(3600);

findings! {
    /// What a node saw.
    Saw {
        /// It claimed the run.
        "claimed" Claimed {
            /// The node.
            node: String,
        },
        /// It was not running.
        "not_running" NotRunning {
            /// The node.
            node: String,
            /// Since when, if that is known.
            from: Option<UnixMillis>,
            /// When it was back.
            to: Option<UnixMillis>,
        },
        /// It did not reach Redis.
        "redis_away" RedisAway {
            /// The node.
            node: String,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// It had no slot.
        "slots_taken" SlotsTaken {
            /// The node.
            node: String,
            /// The queue.
            queue: QueueName,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// It found the queue paused.
        "queue_paused" QueuePaused {
            /// The node.
            node: String,
            /// The queue.
            queue: QueueName,
            /// By whom, if that is known.
            by: String,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// It found the queue at its limit.
        "queue_full" QueueFull {
            /// The node.
            node: String,
            /// The queue.
            queue: QueueName,
            /// How many may run at once; 0 if that is not known.
            limit: u32,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// It found the queue at its rate.
        "queue_rated" QueueRated {
            /// The node.
            node: String,
            /// The queue.
            queue: QueueName,
            /// The rate, if that is known.
            rate: String,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// It could not start processes.
        "claims_held" ClaimsHeld {
            /// The node.
            node: String,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// Nothing was ripe, for data that was lost settled.
        "settling" Settling {
            /// The node.
            node: String,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// It did not take its file.
        "file_refused" FileRefused {
            /// The node.
            node: String,
            /// When.
            at: UnixMillis,
            /// Why.
            why: String,
        },
        /// Nothing kept it from claiming.
        "free" Free {
            /// The node.
            node: String,
        },
        /// What it did then is not known.
        "not_known" NotKnown {
            /// The node.
            node: String,
        },
        /// There was none.
        "no_nodes" NoNodes,
    }
}

impl Saw {
    /// In plain words.
    pub fn sentence(&self, zone: &Zone) -> String {
        match self {
            Self::Claimed { node } => format!("{node} claimed it."),
            Self::NotRunning { node, from, to } => {
                let from = from.map_or_else(String::new, |at| format!(" since {}", shown(at, zone)));
                let to = to.map_or_else(String::new, |at| format!("; it started on {}", shown(at, zone)));
                format!("{node} was not running{from}{to}.")
            }
            Self::RedisAway { node, from, to } => format!("{node} did not reach Redis{}.", stretch_words(*from, *to, zone)),
            Self::SlotsTaken { node, queue, from, to } => {
                format!("{node} had all its slots of queue {queue} taken{}.", stretch_words(*from, *to, zone))
            }
            Self::QueuePaused { node, queue, by, from, to } => {
                let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
                format!("{node} found queue {queue} paused{by}{}.", stretch_words(*from, *to, zone))
            }
            Self::QueueFull { node, queue, limit, from, to } => {
                let limit = if *limit == 0 { String::new() } else { format!(" ({limit} at once on all nodes)") };
                format!("{node} found queue {queue} at its limit{limit}{}.", stretch_words(*from, *to, zone))
            }
            Self::QueueRated { node, queue, rate, from, to } => {
                let rate = if rate.is_empty() { String::new() } else { format!(" ({rate})") };
                format!("{node} found queue {queue} held by its rate{rate}{}.", stretch_words(*from, *to, zone))
            }
            Self::ClaimsHeld { node, from, to } => {
                format!("{node} took no runs{}, because its keeper was not ready.", stretch_words(*from, *to, zone))
            }
            Self::Settling { node, from, to } => format!(
                "{node} started nothing{}: Redis had lost data, and nodes gave back what they knew.",
                stretch_words(*from, *to, zone)
            ),
            Self::FileRefused { node, at, why } => {
                format!("{node} refused its jobs file as it was on {}: {why}.", shown(*at, zone))
            }
            Self::Free { node } => format!("{node} was running, and nothing that is noted kept it from claiming."),
            Self::NotKnown { node } => format!("What {node} did then is not known, or no longer."),
            Self::NoNodes => "No node is known to have been there.".to_owned(),
        }
    }
}

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
            Subject::Stretch { at, run } => Some(Self { from: *at, to: run.finished_at.unwrap_or(facts.now) }),
            Subject::Behind { run, .. } => Some(Self { from: run.run.due(), to: facts.now }),
            Subject::Job { open, .. } => {
                open.iter().filter(|run| run.is_owed(facts.now)).find_map(|run| Self::of_run(run, facts.now))
            }
            _ => None,
        }
    }

    fn of_run(run: &RunFacts, now: UnixMillis) -> Option<Self> {
        let due = run.run.due();
        let is_skipped_missed = run.first_start.is_none() && run.reason.as_deref() == Some("missed") && run.state.is_final();
        match run.first_start {
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

/// Whether `node` ran throughout `window`, as it is known at `now`.
pub(super) fn life(node: &NodeFacts, window: Window, now: UnixMillis) -> Life {
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

/// Whether `node` ran at `at`.
fn life_at(node: &NodeFacts, at: UnixMillis, now: UnixMillis) -> Life {
    let is_life = |event: &&NodeEvent| matches!(event.what, Befell::Started { .. } | Befell::Stopped);
    let before = node.events.iter().rev().filter(is_life).find(|event| event.from <= at);
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
        None => match (node.started_at, next) {
            (Some(started), None) if started <= at && gone.is_some() => Life::Down(gone, None),
            (Some(started), _) if started <= at => Life::Up,
            (_, Some(next)) if seen_before_next.is_none_or(|seen| at > seen) => Life::Down(seen_before_next, Some(next.from)),
            (Some(started), None) => Life::Down(None, Some(started)),
            _ => Life::Unknown,
        },
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

/// What kept a node that was there from claiming a run of `queue`, within `window`; over at the latest when the node was.
pub(super) fn obstacles<'f>(
    node: &'f NodeFacts,
    window: Window,
    queue: &'f QueueName,
    now: UnixMillis,
) -> impl Iterator<Item = NodeEvent> + 'f {
    let is_one = move |event: &&NodeEvent| match &event.what {
        Befell::RedisAway | Befell::ClaimsHeld | Befell::Settling => true,
        Befell::SlotsTaken { .. } | Befell::QueuePaused { .. } | Befell::QueueFull { .. } | Befell::QueueRated { .. } => {
            event.what.queue() == Some(queue)
        }
        Befell::Started { .. } | Befell::Stopped | Befell::FileRefused { .. } => false,
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

/// What each node saw.
pub(super) fn saw(facts: &Facts) -> Vec<Saw> {
    let mut found = Vec::new();
    let run = facts.run().or(match &facts.subject {
        Subject::Job { open, .. } => open.iter().find(|run| run.is_owed(facts.now)),
        _ => None,
    });
    let claimers: Vec<&String> = run.iter().flat_map(|run| &run.attempts).filter_map(|attempt| attempt.node.as_ref()).collect();
    let is_on_time = run.and_then(RunFacts::late).is_some_and(|late| late <= ON_TIME);
    if let (Some(window), Some(run)) = (Window::of(facts), run) {
        let mut nodes = 0;
        for node in &facts.nodes {
            let has_claimed = claimers.contains(&&node.name);
            let told = of_node(node, window, &run.queue, facts.now);
            nodes += usize::from(has_claimed || !matches!(told.as_slice(), [Saw::NotKnown { .. }]));
            if !is_on_time {
                // Its last sign of life may be older than its claim.
                let is_plain =
                    matches!(told.as_slice(), [Saw::Free { .. } | Saw::NotKnown { .. } | Saw::NotRunning { to: None, .. }]);
                found.extend(if has_claimed && is_plain { Vec::new() } else { told });
            }
        }
        if nodes == 0 && claimers.is_empty() {
            found.push(Saw::NoNodes);
        }
    }
    let mut named: Vec<&String> = Vec::new();
    for node in claimers {
        if !named.contains(&node) {
            named.push(node);
            found.push(Saw::Claimed { node: node.clone() });
        }
    }
    found.extend(refused_files(facts));
    found
}

fn of_node(node: &NodeFacts, window: Window, queue: &QueueName, now: UnixMillis) -> Vec<Saw> {
    let name = || node.name.clone();
    let mut found = Vec::new();
    match life(node, window, now) {
        Life::Unknown => return vec![Saw::NotKnown { node: name() }],
        Life::Down(from, to) => {
            let to = to.filter(|to| *to <= window.to);
            found.push(Saw::NotRunning { node: name(), from, to });
            if to.is_none() && from.is_none_or(|from| from <= window.from) {
                return found;
            }
        }
        Life::Up => {}
    }
    for event in obstacles(node, window, queue, now) {
        let (node, from, to) = (name(), event.from, event.to);
        found.push(match &event.what {
            Befell::SlotsTaken { queue } => Saw::SlotsTaken { node, queue: queue.clone(), from, to },
            Befell::QueuePaused { queue, by } => Saw::QueuePaused { node, queue: queue.clone(), by: by.clone(), from, to },
            Befell::QueueFull { queue, limit } => Saw::QueueFull { node, queue: queue.clone(), limit: *limit, from, to },
            Befell::QueueRated { queue, rate } => Saw::QueueRated { node, queue: queue.clone(), rate: rate.clone(), from, to },
            Befell::Settling => Saw::Settling { node, from, to },
            Befell::ClaimsHeld => Saw::ClaimsHeld { node, from, to },
            _ => Saw::RedisAway { node, from, to },
        });
    }
    if found.is_empty() {
        found.push(Saw::Free { node: name() });
    }
    found
}

/// Files refused a while before the time asked about: what should have been planned may not have been.
fn refused_files(facts: &Facts) -> Vec<Saw> {
    let until = match Window::of(facts) {
        Some(window) => window.to,
        None => facts.at().unwrap_or(facts.now),
    };
    let from = facts.at().unwrap_or(facts.now).saturating_sub(REFUSED_LATELY);
    let of_node = |node: &NodeFacts| {
        let refused = node
            .events
            .iter()
            .rev()
            .find(|event| matches!(event.what, Befell::FileRefused { .. }) && event.from >= from && event.from <= until)?;
        match &refused.what {
            Befell::FileRefused { why } => Some(Saw::FileRefused { node: node.name.clone(), at: refused.from, why: why.clone() }),
            _ => None,
        }
    };
    facts.nodes.iter().filter_map(of_node).collect()
}
