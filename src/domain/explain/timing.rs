//! What can be said of whether a run started on time ([`super::on_time`] finds it), each in one sentence.

use std::time::Duration;

use super::keeps::Executing;
use super::sentences::{findings, names, stretch_words};
use crate::domain::ids::QueueName;
use crate::domain::lane::Lane;
use crate::domain::queue::QueueHold;
use crate::domain::serving::Unserved;
use crate::domain::time::UnixMillis;
use crate::domain::wording::{shown, span};
use crate::domain::zone::Zone;

findings! {
    /// Whether a run was on time.
    Timing {
        /// It was.
        "on_time" OnTime {
            /// How long after its due time it started.
            late: Duration,
        },
        /// It was not.
        "late" Late {
            /// By how much.
            late: Duration,
        },
        /// It has not started.
        "not_started" NotStarted {
            /// For how long it has been due.
            late: Duration,
        },
        /// It waited for another run of its job.
        "late_behind" Behind {
            /// That one.
            run: Option<String>,
            /// Until when.
            until: UnixMillis,
        },
        /// It waited at a gate.
        "late_at_gate" AtGate {
            /// The gate.
            gate: String,
            /// A run that had a place there when it came.
            run: Option<String>,
            /// Until when.
            until: UnixMillis,
        },
        /// It was missed and spread.
        "late_spread" Spread {
            /// The time it was given.
            until: UnixMillis,
        },
        /// Its schedule's jitter and splay put it off.
        "late_shifted" Shifted {
            /// To when.
            until: UnixMillis,
        },
        /// It was put off for a reason that is not recorded.
        "late_ready" ReadyLater {
            /// When it was ready.
            at: UnixMillis,
        },
        /// No node was running.
        "late_no_node" NoNode {
            /// Since when, if one was when it was due.
            since: Option<UnixMillis>,
            /// When one was again.
            until: Option<UnixMillis>,
        },
        /// Nodes did not reach Redis.
        "late_redis" Redis {
            /// The nodes.
            nodes: Vec<String>,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// Nodes had no slot.
        "late_slots" Slots {
            /// The nodes.
            nodes: Vec<String>,
            /// The queue.
            queue: QueueName,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// Its queue let nothing begin.
        "late_queue" Queue {
            /// The queue.
            queue: QueueName,
            /// What kept it.
            hold: QueueHold,
            /// Who paused it, its limit or its rate, as far as that is known.
            detail: String,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// Nodes could not start processes.
        "late_keeper" Keeper {
            /// The nodes.
            nodes: Vec<String>,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// Nodes were past a limit of their own.
        "late_held" Held {
            /// The nodes.
            nodes: Vec<String>,
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// Its queue lets nothing begin now.
        "queue_now" QueueNow {
            /// The queue.
            queue: QueueName,
            /// What keeps it.
            hold: QueueHold,
            /// Who paused it, its limit or its rate, as far as that is known.
            detail: String,
            /// Of a paused one since when.
            since: Option<UnixMillis>,
            /// What executes in it.
            running: Executing,
        },
        /// A key of its queue holds something else now.
        "spoilt_now" SpoiltNow {
            /// The lane.
            lane: Lane,
            /// Which key, what it holds and how that is mended.
            why: String,
        },
        /// Nodes have no slot now.
        "slots_now" SlotsNow {
            /// The nodes.
            nodes: Vec<String>,
            /// The queue.
            queue: QueueName,
            /// What executes in it.
            running: Executing,
        },
        /// A node is past a limit of its own now.
        "held_now" HeldNow {
            /// The node.
            node: String,
            /// Which limit.
            why: String,
            /// Since when.
            since: UnixMillis,
        },
        /// No node runs now.
        "no_node_now" NoNodeNow,
        /// None of the nodes that run takes it.
        "late_unserved" Unserved {
            /// Why.
            why: Unserved,
        },
        /// Data that was lost settled.
        "late_settling" Settling {
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// Redis had been restarted or replaced.
        "late_new_server" NewServer {
            /// From when.
            from: UnixMillis,
            /// Until when.
            to: Option<UnixMillis>,
        },
        /// Whether it started then was lost with the data.
        "timing_lost" LostWithData,
        /// It counted as missed, and ran all the same.
        "caught_up" CaughtUp {
            /// The mode of `catch_up`.
            mode: &'static str,
        },
        /// Nothing says why.
        "late_unexplained" Unexplained,
    }
}

impl Timing {
    /// In plain words.
    pub fn sentence(&self, zone: &Zone) -> String {
        match self {
            Self::OnTime { late } => format!("It started on time, {} after it was due.", span(*late)),
            Self::Late { late } => format!("It started {} late.", span(*late)),
            Self::NotStarted { late } => format!("It has been due for {} and has not started.", span(*late)),
            Self::Behind { run: Some(run), until } => {
                format!("It waited until {} for the run {run} to end.", shown(*until, zone))
            }
            Self::Behind { run: None, until } => {
                format!("It waited until {} for an open run of its job to end.", shown(*until, zone))
            }
            Self::AtGate { gate, run, until } => {
                let behind = run.as_ref().map_or_else(String::new, |run| format!(", behind {run} when it came"));
                format!("It waited until {} for its place at {gate}{behind}.", shown(*until, zone))
            }
            Self::Spread { until } => {
                format!("It was missed, and catch_up's spread gave it {} to start.", shown(*until, zone))
            }
            Self::Shifted { until } => format!("Its jitter and splay moved its start to {}.", shown(*until, zone)),
            Self::ReadyLater { at } => format!("It was not ready before {}.", shown(*at, zone)),
            Self::NoNode { since: Some(since), until: Some(until) } => {
                format!("No node was running{}.", stretch_words(*since, Some(*until), zone))
            }
            Self::NoNode { since: Some(since), until: None } => format!("No node was running since {}.", shown(*since, zone)),
            Self::NoNode { since: None, until: Some(until) } => format!("No node was running until {}.", shown(*until, zone)),
            Self::NoNode { since: None, until: None } => "No node was running.".to_owned(),
            Self::Redis { nodes, from, to } => {
                format!("Redis was out of reach of {}{}.", names(nodes), stretch_words(*from, *to, zone))
            }
            Self::Slots { nodes, queue, from, to } => {
                format!("All slots of queue {queue} were taken on {}{}.", names(nodes), stretch_words(*from, *to, zone))
            }
            Self::Queue { queue, hold, detail, from, to } => {
                let (how, before) = match hold {
                    QueueHold::Paused => ("paused", " by "),
                    QueueHold::Full => ("full", ", at its limit of "),
                    QueueHold::Rate => ("held by its rate", " of "),
                };
                let detail = if detail.is_empty() { String::new() } else { format!("{before}{detail}") };
                format!("Queue {queue} was {how}{detail}{}.", stretch_words(*from, *to, zone))
            }
            Self::Keeper { nodes, from, to } => {
                format!("The keeper was not ready on {}{}.", names(nodes), stretch_words(*from, *to, zone))
            }
            Self::Held { nodes, from, to } => {
                format!("A limit of its own held {}{}.", names(nodes), stretch_words(*from, *to, zone))
            }
            Self::QueueNow { queue, hold, detail, since, running } => {
                let known = |before: &str| if detail.is_empty() { String::new() } else { format!("{before}{detail}") };
                match hold {
                    QueueHold::Paused => {
                        let since = since.map_or_else(String::new, |at| format!(" since {}", shown(at, zone)));
                        format!("Queue {queue} is paused{}{since}; schedctl queue resume {queue} lets it go on.", known(" by "))
                    }
                    QueueHold::Full => {
                        let running = running.words().map_or_else(String::new, |words| format!(": {words}"));
                        format!("Queue {queue} is full{}{running}.", known(", at its limit of "))
                    }
                    QueueHold::Rate => format!("Queue {queue} is held by its rate{}.", known(" of ")),
                }
            }
            Self::SpoiltNow { lane, why } => format!("Nothing of lane {lane} starts: {why}."),
            Self::SlotsNow { nodes, queue, running } => {
                let running = running.words().map_or_else(String::new, |words| format!(": {words}"));
                format!("All slots of queue {queue} are taken on {}{running}.", names(nodes))
            }
            Self::HeldNow { node, why, since } => {
                format!("A limit of its own holds {node} since {}: {why}.", shown(*since, zone))
            }
            Self::NoNodeNow => "No node is running.".to_owned(),
            Self::Unserved { why } => format!("Nobody takes it: {why}."),
            Self::Settling { from, to } => {
                format!("Redis had lost data, and nothing was started{}.", stretch_words(*from, *to, zone))
            }
            Self::NewServer { from, to } => format!(
                "Redis had been restarted or replaced, and nothing was started{} while nodes looked whether data was missing.",
                stretch_words(*from, *to, zone)
            ),
            Self::LostWithData => "Whether it started when it was due was lost with the data.".to_owned(),
            Self::CaughtUp { mode } => format!("So late it counted as missed; it ran because catch_up is {mode}."),
            Self::Unexplained => "Nothing that is noted says why.".to_owned(),
        }
    }
}
