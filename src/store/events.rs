//! What befell the nodes: written by each of itself, read to tell why a run was late or did not start.
//!
//! Invariant: an event is one JSON text whatever node writes it, so that noting it twice notes it once.

use redis::Value;
use serde_json::json;

use super::Store;
use super::error::StoreError;
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::ids::{NodeName, QueueName};
use crate::domain::node_event::{Befell, NodeEvent};
use crate::domain::time::UnixMillis;

/// Nodes looked at, those that noted something last.
const NODES: usize = 50;
/// Events of one node that are kept, as `note_events.lua` has it.
const KEPT: i64 = 1000;
/// Events of one node looked at, on each side of an instant.
const EVENTS: usize = 100;

/// One event to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventNote {
    /// The event.
    pub event: NodeEvent,
    /// The same as it was written when it began.
    pub replaces: Option<NodeEvent>,
}

/// A node and what befell it around an instant.
#[derive(Debug, Clone)]
pub struct NodeEvents {
    /// Its name.
    pub node: NodeName,
    /// When it was last seen; none if it has left in order.
    pub last_seen: Option<UnixMillis>,
    /// When its present process started, if it is there.
    pub started_at: Option<UnixMillis>,
    /// What befell it, oldest first.
    pub events: Vec<NodeEvent>,
    /// Whether as many are kept as may be, so that older ones are gone.
    pub is_cut: bool,
}

impl Store {
    /// Writes down what befell a node. With no notes it says that what is kept of the node is still wanted.
    pub async fn note_events(&self, node: &NodeName, notes: &[EventNote]) -> Result<(), StoreError> {
        let mut call = Invocation::new(&scripts::NOTE_EVENTS)
            .key("events", self.keys.events(node))
            .key("noted_nodes", self.keys.noted_nodes())
            .arg("now", self.now_arg())
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

    /// When a node was last seen; none if it is not on the list.
    pub async fn last_seen(&self, node: &NodeName) -> Result<Option<UnixMillis>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZSCORE").arg(self.keys.nodes()).arg(node.as_str());
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.first().and_then(number_of).and_then(UnixMillis::new))
    }

    /// The nodes that noted something lately and those there are, at most 50, each with at most 100 events that began at `at`
    /// or before, and 100 after.
    pub async fn read_events(&self, at: UnixMillis) -> Result<Vec<NodeEvents>, StoreError> {
        let mut pipeline = redis::pipe();
        for index in [self.keys.noted_nodes(), self.keys.nodes()] {
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
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = redis::pipe();
        for name in &names {
            let events = self.keys.events(name);
            pipeline.cmd("ZSCORE").arg(self.keys.nodes()).arg(name.as_str());
            pipeline.cmd("HGET").arg(self.keys.node(name)).arg("started_at");
            let until = pipeline.cmd("ZRANGE").arg(&events).arg(at.as_i64()).arg("-inf").arg("BYSCORE").arg("REV");
            until.arg("LIMIT").arg(0).arg(EVENTS);
            let after = pipeline.cmd("ZRANGE").arg(&events).arg(format!("({}", at.as_i64())).arg("+inf").arg("BYSCORE");
            after.arg("LIMIT").arg(0).arg(EVENTS);
            pipeline.cmd("ZCARD").arg(&events);
        }
        let answers = self.link.query(&mut pipeline).await?;
        let instant = |value: &Value| number_of(value).and_then(UnixMillis::new);
        let read = |(node, parts): (NodeName, &[Value])| {
            let listed = |value: &Value| match value {
                Value::Array(members) => members.iter().filter_map(text_of).filter_map(|member| event(&member)).collect(),
                _ => Vec::new(),
            };
            let mut events: Vec<NodeEvent> = listed(&parts[2]);
            events.reverse();
            events.extend(listed(&parts[3]));
            let is_cut = number_of(&parts[4]).is_some_and(|count| count >= KEPT);
            NodeEvents { node, last_seen: instant(&parts[0]), started_at: instant(&parts[1]), events, is_cut }
        };
        Ok(names.into_iter().zip(answers.chunks_exact(5)).map(read).collect())
    }
}

fn written(event: &NodeEvent) -> String {
    let mut fields = json!({"what": event.what.word(), "from": event.from.as_i64()});
    if let Some(to) = event.to {
        fields["to"] = json!(to.as_i64());
    }
    match &event.what {
        Befell::Started { seen_before: Some(at) } => fields["seen_before"] = json!(at.as_i64()),
        Befell::SlotsTaken { queue } => fields["queue"] = json!(queue.as_str()),
        Befell::QueuePaused { queue, by } => (fields["queue"], fields["by"]) = (json!(queue.as_str()), json!(by)),
        Befell::QueueFull { queue, limit } => (fields["queue"], fields["limit"]) = (json!(queue.as_str()), json!(limit)),
        Befell::QueueRated { queue, rate } => (fields["queue"], fields["rate"]) = (json!(queue.as_str()), json!(rate)),
        Befell::ClockStepped { by_ms } => fields["by_ms"] = json!(by_ms),
        Befell::FileRefused { why } | Befell::Held { why } => fields["why"] = json!(why),
        Befell::Started { seen_before: None }
        | Befell::Stopped
        | Befell::RedisAway
        | Befell::ClaimsHeld
        | Befell::Settling
        | Befell::NewServer => {}
    }
    fields.to_string()
}

/// The event a text tells of; none for one a newer schedd has written, or a spoilt one.
fn event(member: &str) -> Option<NodeEvent> {
    let fields: serde_json::Value = serde_json::from_str(member).ok()?;
    let instant = |field: &str| fields[field].as_i64().and_then(UnixMillis::new);
    let text = |field: &str| fields[field].as_str();
    let queue = || text("queue")?.parse::<QueueName>().ok();
    let what = match text("what")? {
        "started" => Befell::Started { seen_before: instant("seen_before") },
        "stopped" => Befell::Stopped,
        "redis_away" => Befell::RedisAway,
        "slots_taken" => Befell::SlotsTaken { queue: queue()? },
        "queue_paused" => Befell::QueuePaused { queue: queue()?, by: text("by").unwrap_or_default().to_owned() },
        "queue_full" => {
            let limit = fields["limit"].as_u64().and_then(|limit| u32::try_from(limit).ok()).unwrap_or(0);
            Befell::QueueFull { queue: queue()?, limit }
        }
        "queue_rated" => Befell::QueueRated { queue: queue()?, rate: text("rate").unwrap_or_default().to_owned() },
        "claims_held" => Befell::ClaimsHeld,
        Befell::HELD => Befell::Held { why: text("why")?.to_owned() },
        "settling" => Befell::Settling,
        "new_server" => Befell::NewServer,
        "clock_stepped" => Befell::ClockStepped { by_ms: fields["by_ms"].as_i64()? },
        "file_refused" => Befell::FileRefused { why: text("why")?.to_owned() },
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
            Befell::Started { seen_before: Some(at(1)) },
            Befell::Started { seen_before: None },
            Befell::Stopped,
            Befell::RedisAway,
            Befell::SlotsTaken { queue: "q".parse().unwrap() },
            Befell::QueuePaused { queue: "q".parse().unwrap(), by: "ana@h".to_owned() },
            Befell::QueueFull { queue: "q".parse().unwrap(), limit: 5 },
            Befell::QueueRated { queue: "q".parse().unwrap(), rate: "1/1s".to_owned() },
            Befell::ClaimsHeld,
            Befell::Settling,
            Befell::NewServer,
            Befell::ClockStepped { by_ms: -3_600_000 },
            Befell::Held { why: "load 9 > 8".to_owned() },
            Befell::FileRefused { why: "no \"end\"".to_owned() },
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
