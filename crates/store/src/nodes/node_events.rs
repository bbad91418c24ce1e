//! Node events. Each node writes its own events. `explain` reads the events to find why a run was
//! late or did not start.
//!
//! Invariant: the same event always gives the same JSON text, whichever node writes the event. An
//! event that is written twice is stored once.

use redis::Value;
use serde_json::json;

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::run::node_event::{NodeEvent, NodeEventKind};
use schedd_schedule::names::{NodeName, QueueName};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The most nodes whose events are read. They are chosen by name from two lists of this length: the
/// nodes with the latest events, and the nodes with the latest heartbeats.
const NODES: usize = 50;
/// The most events kept of one node. The number must equal the limit in `note_events.lua`.
const KEPT: i64 = 1000;
/// The most events of one node that `read_events` returns before the given time, and after it.
const EVENTS: usize = 100;

/// An order to write an event of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventNote {
    /// The event to write.
    pub event: NodeEvent,
    /// The event that `event` replaces, as written when the event began; None if nothing is
    /// replaced.
    pub replaces: Option<NodeEvent>,
}

/// A node, and its events before and after the time given to `read_events`.
#[derive(Debug, Clone)]
pub struct NodeEvents {
    /// The node's name.
    pub node: NodeName,
    /// The time of the node's last heartbeat. None if Redis no longer lists the node, as after an
    /// ordinary stop.
    pub last_seen: Option<UnixMillis>,
    /// The start time of the node's process; None if the node is not in the list of nodes.
    pub started_at: Option<UnixMillis>,
    /// The events of the node before and after the time given to `read_events`, the oldest first.
    pub events: Vec<NodeEvent>,
    /// True if Redis has as many events of the node as it keeps, so older events are gone.
    pub is_cut: bool,
}

impl Store {
    /// Writes events of a node. An empty list writes nothing and only extends the retention of the
    /// node's events.
    pub async fn note_events(
        &self,
        node: &NodeName,
        notes: &[EventNote],
    ) -> Result<(), StoreError> {
        let mut call = self
            .call(&scripts::NOTE_EVENTS)
            .key("events", self.keys.events(node))
            .arg("node_name", node.as_str());
        for note in notes {
            call = call
                .arg("at", note.event.from.as_i64())
                .arg("event", written(&note.event))
                .arg("replaced", note.replaces.as_ref().map_or_else(String::new, written));
        }
        let reply = self.link.invoke(&call).await?;
        if reply.word == "noted" { Ok(()) } else { Err(reply.unknown()) }
    }

    /// Returns the time of a node's last heartbeat. If Redis no longer lists the node, as after an
    /// ordinary stop, returns the time at which its events were last written. Returns None for a
    /// node without a heartbeat and without kept events.
    pub async fn last_seen(&self, node: &NodeName) -> Result<Option<UnixMillis>, StoreError> {
        let mut pipeline = redis::pipe();
        for index in [self.keys.nodes(), self.keys.event_nodes()] {
            pipeline.cmd("ZSCORE").arg(index).arg(node.as_str());
        }
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.iter().find_map(number_of).and_then(UnixMillis::new))
    }

    /// Returns the latest time at which any node was seen or wrote events. Returns None if Redis
    /// lists no node and no events.
    pub async fn last_of_all(&self) -> Result<Option<UnixMillis>, StoreError> {
        let mut pipeline = redis::pipe();
        for index in [self.keys.nodes(), self.keys.event_nodes()] {
            pipeline.cmd("ZRANGE").arg(index).arg(0).arg(0).arg("REV").arg("WITHSCORES");
        }
        let answer = self.link.query(&mut pipeline).await?;
        let score = |newest: &Value| match newest {
            Value::Array(pair) => pair.get(1).and_then(number_of).and_then(UnixMillis::new),
            _ => None,
        };
        Ok(answer.iter().filter_map(score).max())
    }

    /// Lists up to 50 nodes in the order of their names: live nodes and nodes with recent events.
    pub async fn list_event_nodes(&self) -> Result<Vec<NodeName>, StoreError> {
        let mut pipeline = redis::pipe();
        for index in [self.keys.event_nodes(), self.keys.nodes()] {
            pipeline.cmd("ZRANGE").arg(index).arg(0).arg(NODES - 1).arg("REV");
        }
        let mut names: Vec<NodeName> = Vec::new();
        for index in self.link.query(&mut pipeline).await? {
            let Value::Array(found) = index else { continue };
            names.extend(found.iter().filter_map(text_of).filter_map(|name| name.parse().ok()));
        }
        names.sort_unstable();
        names.dedup();
        names.truncate(NODES);
        Ok(names)
    }

    /// Returns the events of these nodes before and after `at`. Each node has at most 100 events
    /// that began at `at` or before, and at most 100 later events.
    pub async fn read_events(
        &self,
        nodes: &[NodeName],
        at: UnixMillis,
    ) -> Result<Vec<NodeEvents>, StoreError> {
        let mut pipeline = redis::pipe();
        for name in nodes {
            let events = self.keys.events(name);
            pipeline.cmd("ZSCORE").arg(self.keys.nodes()).arg(name.as_str());
            pipeline.cmd("HGET").arg(self.keys.node(name)).arg("started_at");
            let until = pipeline
                .cmd("ZRANGE")
                .arg(&events)
                .arg(at.as_i64())
                .arg("-inf")
                .arg("BYSCORE")
                .arg("REV");
            until.arg("LIMIT").arg(0).arg(EVENTS);
            let after = pipeline
                .cmd("ZRANGE")
                .arg(&events)
                .arg(format!("({}", at.as_i64()))
                .arg("+inf")
                .arg("BYSCORE");
            after.arg("LIMIT").arg(0).arg(EVENTS);
            pipeline.cmd("ZCARD").arg(&events);
        }
        let answers = self.link.query(&mut pipeline).await?;
        let instant = |value: &Value| number_of(value).and_then(UnixMillis::new);
        let read = |(node, parts): (&NodeName, &[Value])| {
            let listed = |value: &Value| match value {
                Value::Array(members) => {
                    members.iter().filter_map(text_of).filter_map(|member| event(&member)).collect()
                }
                _ => Vec::new(),
            };
            let mut events: Vec<NodeEvent> = listed(&parts[2]);
            events.reverse();
            events.extend(listed(&parts[3]));
            let is_cut = number_of(&parts[4]).is_some_and(|count| count >= KEPT);
            NodeEvents {
                node: node.clone(),
                last_seen: instant(&parts[0]),
                started_at: instant(&parts[1]),
                events,
                is_cut,
            }
        };
        Ok(nodes.iter().zip(answers.chunks_exact(5)).map(read).collect())
    }
}

fn written(event: &NodeEvent) -> String {
    let mut fields = json!({"what": event.what.word(), "from": event.from.as_i64()});
    if let Some(to) = event.to {
        fields["to"] = json!(to.as_i64());
    }
    match &event.what {
        NodeEventKind::Started { seen_before: Some(at) } => {
            fields["seen_before"] = json!(at.as_i64());
        }
        NodeEventKind::SlotsTaken { queue } => fields["queue"] = json!(queue.as_str()),
        NodeEventKind::QueuePaused { queue, by } => {
            (fields["queue"], fields["by"]) = (json!(queue.as_str()), json!(by));
        }
        NodeEventKind::QueueFull { queue, limit } => {
            (fields["queue"], fields["limit"]) = (json!(queue.as_str()), json!(limit));
        }
        NodeEventKind::QueueRated { queue, rate } => {
            (fields["queue"], fields["rate"]) = (json!(queue.as_str()), json!(rate));
        }
        NodeEventKind::ClockStepped { by_ms } => fields["by_ms"] = json!(by_ms),
        NodeEventKind::FileRefused { why } | NodeEventKind::AtLimit { why } => {
            fields["why"] = json!(why);
        }
        NodeEventKind::Started { seen_before: None }
        | NodeEventKind::Stopped
        | NodeEventKind::RedisAway
        | NodeEventKind::ClaimsSuspended
        | NodeEventKind::Restoring
        | NodeEventKind::NewServer => {}
    }
    fields.to_string()
}

/// Parses a node event. Returns None if a newer schedd wrote the event or the event is malformed.
fn event(member: &str) -> Option<NodeEvent> {
    let fields: serde_json::Value = serde_json::from_str(member).ok()?;
    let instant = |field: &str| fields[field].as_i64().and_then(UnixMillis::new);
    let text = |field: &str| fields[field].as_str();
    let queue = || text("queue")?.parse::<QueueName>().ok();
    let what = match text("what")? {
        "started" => NodeEventKind::Started { seen_before: instant("seen_before") },
        "stopped" => NodeEventKind::Stopped,
        "redis_away" => NodeEventKind::RedisAway,
        "slots_taken" => NodeEventKind::SlotsTaken { queue: queue()? },
        "queue_paused" => NodeEventKind::QueuePaused {
            queue: queue()?,
            by: text("by").unwrap_or_default().to_owned(),
        },
        "queue_full" => {
            let limit =
                fields["limit"].as_u64().and_then(|limit| u32::try_from(limit).ok()).unwrap_or(0);
            NodeEventKind::QueueFull { queue: queue()?, limit }
        }
        "queue_rated" => NodeEventKind::QueueRated {
            queue: queue()?,
            rate: text("rate").unwrap_or_default().to_owned(),
        },
        "claims_suspended" => NodeEventKind::ClaimsSuspended,
        NodeEventKind::AT_LIMIT => NodeEventKind::AtLimit { why: text("why")?.to_owned() },
        "restoring" => NodeEventKind::Restoring,
        "new_server" => NodeEventKind::NewServer,
        "clock_stepped" => NodeEventKind::ClockStepped { by_ms: fields["by_ms"].as_i64()? },
        "file_refused" => NodeEventKind::FileRefused { why: text("why")?.to_owned() },
        _ => return None,
    };
    Some(NodeEvent { what, from: instant("from")?, to: instant("to") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_reads_back_from_its_text() {
        let at = |ms| UnixMillis::new(ms).unwrap();
        for what in [
            NodeEventKind::Started { seen_before: Some(at(1)) },
            NodeEventKind::Started { seen_before: None },
            NodeEventKind::Stopped,
            NodeEventKind::RedisAway,
            NodeEventKind::SlotsTaken { queue: "q".parse().unwrap() },
            NodeEventKind::QueuePaused { queue: "q".parse().unwrap(), by: "ana@h".to_owned() },
            NodeEventKind::QueueFull { queue: "q".parse().unwrap(), limit: 5 },
            NodeEventKind::QueueRated { queue: "q".parse().unwrap(), rate: "1/1s".to_owned() },
            NodeEventKind::ClaimsSuspended,
            NodeEventKind::Restoring,
            NodeEventKind::NewServer,
            NodeEventKind::ClockStepped { by_ms: -3_600_000 },
            NodeEventKind::AtLimit { why: "load 9 > 8".to_owned() },
            NodeEventKind::FileRefused { why: "no \"end\"".to_owned() },
        ] {
            for to in [None, Some(at(9))] {
                let noted = NodeEvent { what: what.clone(), from: at(5), to };
                assert_eq!(event(&written(&noted)), Some(noted));
            }
        }
        for bad in ["", "[]", r#"{"what":"hummed","from":5}"#, r#"{"what":"stopped"}"#] {
            assert_eq!(event(bad), None, "{bad}");
        }
    }
}
