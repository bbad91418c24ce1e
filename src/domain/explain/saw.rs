//! What each node saw while a run was to start: whether it was there, reached Redis, had a slot.
//!
//! Invariant: a node of which nothing is known for that time is said to be so; it is not taken for running.

use std::time::Duration;

use super::ON_TIME;
use super::facts::{Facts, NodeFacts, RunFacts, Subject};
use super::life::{Life, Window, life, obstacles};
use super::loss::hidden;
use super::sentences::{findings, stretch_words};
use crate::domain::deed::Deed;
use crate::domain::ids::{Label, QueueName, RunKind};
use crate::domain::lane::Lane;
use crate::domain::node_event::{Befell, step_text};
use crate::domain::serving::Serving;
use crate::domain::time::UnixMillis;
use crate::domain::wording::shown;
use crate::domain::zone::Zone;

/// How long before the time asked about a refused file is still told.
const REFUSED_LATELY: Duration = Duration::from_secs(3600);

/// How near the time asked about a step of Redis' clock is told.
const STEPPED_LATELY: Duration = Duration::from_secs(3600);

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
        /// It was past a limit of its own.
        "held" Held {
            /// The node.
            node: String,
            /// Which limit, with what was found.
            why: String,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// It does not serve the lane.
        "not_serving" NotServing {
            /// The node.
            node: String,
            /// What it does not: the queue, or the labels it does not carry.
            what: String,
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
        /// Nothing was ripe, for Redis was restarted or replaced, and nodes had a look at it.
        "new_server" NewServer {
            /// The node.
            node: String,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// It saw Redis' clock jump.
        "clock_stepped" ClockStepped {
            /// The node.
            node: String,
            /// When, by the new time.
            at: UnixMillis,
            /// By how many ms; below zero it was set back.
            by_ms: i64,
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
        /// Nothing was seen of it since, which is too short a while for it to be gone.
        "unseen" Unseen {
            /// The node.
            node: String,
            /// When it was last seen.
            seen: UnixMillis,
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
            Self::Held { node, why, from, to } => {
                format!("{node} took no runs{}: {why}.", stretch_words(*from, *to, zone))
            }
            Self::NotServing { node, what } => format!("{node} does not take it: {what}."),
            Self::Settling { node, from, to } => format!(
                "{node} started nothing{}: Redis had lost data, and nodes gave back what they knew.",
                stretch_words(*from, *to, zone)
            ),
            Self::NewServer { node, from, to } => format!(
                "{node} started nothing{}: Redis had been restarted or replaced, and nodes looked whether data was missing.",
                stretch_words(*from, *to, zone)
            ),
            Self::ClockStepped { node, at, by_ms } => {
                format!(
                    "{node} saw Redis' clock set {}, to {}: runs may have been early or late by that.",
                    step_text(*by_ms),
                    shown(*at, zone)
                )
            }
            Self::FileRefused { node, at, why } => {
                format!("{node} refused its jobs file as it was on {}: {why}.", shown(*at, zone))
            }
            Self::Free { node } => format!("{node} was running, and nothing that is noted kept it from claiming."),
            Self::Unseen { node, seen } => {
                format!("{node} was running when it was last seen, on {}, a moment before that.", shown(*seen, zone))
            }
            Self::NotKnown { node } => format!("What {node} did then is not known, or no longer."),
            Self::NoNodes => "No node is known to have been there.".to_owned(),
        }
    }
}

/// What each node saw.
pub(super) fn saw(facts: &Facts) -> Vec<Saw> {
    let mut found = Vec::new();
    let run = facts.run().or(match &facts.subject {
        Subject::Job { open, .. } => open.iter().find(|run| run.is_owed(facts.now)),
        _ => None,
    });
    let claimers: Vec<&String> = run.iter().flat_map(|run| &run.attempts).filter_map(|attempt| attempt.node.as_ref()).collect();
    // What is made up for, or done anew, was to start when it was ready.
    let is_of_another_day = |run: &RunFacts| matches!(run.run.kind(), RunKind::Backfill | RunKind::Rerun);
    let waited = |run: &RunFacts| match run.first_start {
        Some(start) if is_of_another_day(run) => Some(start.since(run.ready_at.max(run.run.due()))),
        _ => run.late(),
    };
    let is_on_time = run.filter(|run| !run.is_back(facts.now)).and_then(waited).is_some_and(|waited| waited <= ON_TIME);
    // What nodes did then went with the data, and what kept them from starting it again is no reason.
    let window = Window::told_of(facts).filter(|_| hidden(facts).is_none());
    if let (Some(window), Some(run)) = (window, run) {
        let mut nodes = 0;
        for node in &facts.nodes {
            let has_claimed = claimers.contains(&&node.name);
            let told = of_node(facts, node, window, &run.lane);
            nodes += usize::from(has_claimed || !matches!(told.as_slice(), [Saw::NotKnown { .. }]));
            if !is_on_time {
                // Its last sign of life may be older than its claim.
                let is_plain = matches!(
                    told.as_slice(),
                    [Saw::Free { .. }
                        | Saw::Unseen { .. }
                        | Saw::NotKnown { .. }
                        | Saw::NotServing { .. }
                        | Saw::NotRunning { to: None, .. }]
                );
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
    found.extend(clock_steps(facts));
    found.extend(refused_files(facts));
    found
}

fn of_node(facts: &Facts, node: &NodeFacts, window: Window, lane: &Lane) -> Vec<Saw> {
    let (name, now) = (|| node.name.clone(), facts.now);
    let mut found = Vec::new();
    match life(facts, node, window) {
        Life::Unknown if obstacles(node, window, lane, now).next().is_none() => return vec![Saw::NotKnown { node: name() }],
        Life::Unknown | Life::Up => {}
        Life::Down(from, to) => {
            let to = to.filter(|to| *to <= window.to);
            found.push(Saw::NotRunning { node: name(), from, to });
            if to.is_none() && from.is_none_or(|from| from <= window.from) {
                return found;
            }
        }
    }
    if let Some(what) = node.serving.as_ref().and_then(|serving| not_served(serving, lane)) {
        found.push(Saw::NotServing { node: name(), what });
        return found;
    }
    for event in obstacles(node, window, lane, now) {
        let (node, from, to) = (name(), event.from, event.to);
        found.push(match &event.what {
            Befell::SlotsTaken { queue } => Saw::SlotsTaken { node, queue: queue.clone(), from, to },
            Befell::QueuePaused { queue, by } => Saw::QueuePaused { node, queue: queue.clone(), by: by.clone(), from, to },
            Befell::QueueFull { queue, limit } => Saw::QueueFull { node, queue: queue.clone(), limit: *limit, from, to },
            Befell::QueueRated { queue, rate } => Saw::QueueRated { node, queue: queue.clone(), rate: rate.clone(), from, to },
            Befell::Settling => Saw::Settling { node, from, to },
            Befell::NewServer => Saw::NewServer { node, from, to },
            Befell::Held { why } => Saw::Held { node, why: why.clone(), from, to },
            Befell::ClaimsHeld => Saw::ClaimsHeld { node, from, to },
            _ => Saw::RedisAway { node, from, to },
        });
    }
    if found.is_empty() {
        // What is still waited for came after its last sign of life; were that old, it would be down.
        let unseen = node.last_seen.filter(|seen| *seen < window.from && window.to >= now);
        found.push(unseen.map_or_else(|| Saw::Free { node: name() }, |seen| Saw::Unseen { node: name(), seen }));
    }
    found
}

/// What of a lane a node does not serve, in words.
fn not_served(serving: &Serving, lane: &Lane) -> Option<String> {
    if !serving.takes_queue(lane.queue()) {
        return Some(format!("it does not serve queue {}", lane.queue()));
    }
    let missing: Vec<&str> = lane.requires().difference(&serving.labels).map(Label::as_str).collect();
    (!missing.is_empty()).then(|| format!("it does not carry {}", missing.join(", ")))
}

/// The steps of Redis' clock a while before or after the time asked about, as the first node noted them that noted any.
fn clock_steps(facts: &Facts) -> Vec<Saw> {
    let at = facts.at().unwrap_or(facts.now);
    let steps = |node: &NodeFacts| {
        let of_node = node.events.iter().filter_map(|event| match event.what {
            Befell::ClockStepped { by_ms } => {
                // What was planned then may have been meant for the time before the step or for that after it.
                let before = UnixMillis::new(event.from.as_i64().saturating_sub(by_ms)).unwrap_or(event.from);
                let is_near = |to: UnixMillis| to.since(at) <= STEPPED_LATELY && at.since(to) <= STEPPED_LATELY;
                let is_between = before.min(event.from) <= at && at <= before.max(event.from);
                (is_near(event.from) || is_near(before) || is_between).then(|| Saw::ClockStepped {
                    node: node.name.clone(),
                    at: event.from,
                    by_ms,
                })
            }
            _ => None,
        });
        of_node.collect::<Vec<_>>()
    };
    facts.nodes.iter().map(steps).find(|steps| !steps.is_empty()).unwrap_or_default()
}

/// Files refused a while before the time asked about: what should have been planned may not have been. None that mattered no more: the
/// job was changed since, or what is asked about is now, and the node has taken its file since.
fn refused_files(facts: &Facts) -> Vec<Saw> {
    let until = match Window::of(facts) {
        Some(window) => window.to,
        None => facts.at().unwrap_or(facts.now),
    };
    let from = facts.at().unwrap_or(facts.now).saturating_sub(REFUSED_LATELY);
    let is_change = |deed: &&Deed| matches!(deed.what.as_str(), Deed::ADDED | Deed::EDITED) && deed.at <= until;
    let live_since = facts.deeds.iter().rev().find(is_change).map(|deed| deed.at);
    let is_now = facts.at().is_none();
    let of_node = |node: &NodeFacts| {
        if is_now && node.refuses_file == Some(false) {
            return None;
        }
        let refused = node
            .events
            .iter()
            .rev()
            .find(|event| matches!(event.what, Befell::FileRefused { .. }) && event.from >= from && event.from <= until)
            .filter(|event| live_since.is_none_or(|since| since < event.from))?;
        match &refused.what {
            Befell::FileRefused { why } => Some(Saw::FileRefused { node: node.name.clone(), at: refused.from, why: why.clone() }),
            _ => None,
        }
    };
    facts.nodes.iter().filter_map(of_node).collect()
}
