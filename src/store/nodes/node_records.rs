//! The nodes: which are live, since when, and the errors in their configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use redis::Value;

use crate::domain::job::process_limits::{LimitKind, kinds_in, listed};
use crate::domain::name::names::{Label, NodeName, QueueName};
use crate::domain::queue::lane_serving::Serving;
use crate::domain::time::unix_millis::UnixMillis;
use crate::store::Store;
use crate::store::runs::claims::{instant, millis};
use crate::store::server::reply::{number_of, text_of};
use crate::store::server::scripts;
use crate::store::server::scripts::Invocation;
use crate::store::server::store_error::StoreError;

/// The facts that a node reports with each heartbeat.
#[derive(Debug, Clone)]
pub struct BeatFacts {
    /// The node's state: `running`, `stopping`, `draining`.
    pub state: &'static str,
    /// Redis' time when the node started.
    pub started_at: UnixMillis,
    /// The error in the node's `jobs.toml`; empty without an error.
    pub config_error: String,
    /// The host name.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// The boot id of the host when the node started.
    pub boot_id: String,
    /// The version of schedd.
    pub version: &'static str,
    /// The number of runs the node executes now.
    pub running: usize,
    /// The time by which the host's clock was ahead of Redis' at the last heartbeat, ms. None
    /// before the first.
    pub clock_offset_ms: Option<i64>,
    /// The queues and labels the node serves.
    pub serving: Serving,
    /// The reason why the node claims nothing, and since when, if it exceeds a limit of its own.
    pub held: Option<(String, UnixMillis)>,
    /// The limits of jobs that the node can enforce; None until known.
    pub limits: Option<BTreeSet<LimitKind>>,
    /// The reason why it cannot enforce the remaining limits; empty if it enforces all.
    pub limits_why: String,
    /// The most files a process of a job may have open there; None if unlimited or not known yet.
    pub most_files: Option<u64>,
    /// True if each run has a cgroup of its own; None until known.
    pub has_cgroups: Option<bool>,
    /// The users that jobs may name there, separated by commas, or `*` for all but root. Empty if
    /// none.
    pub users: String,
    /// The reason why jobs may name no user; empty if they may.
    pub users_why: String,
    /// The user of the node's own process, which every job may name.
    pub own_user: String,
}

/// The way a node claims its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameClaim {
    /// Another live node may have the name.
    Ask,
    /// The previous owner of the name is known to be dead.
    Take,
}

/// A heartbeat of a node.
#[derive(Debug, Clone)]
pub struct NodeBeat<'a> {
    /// The node's name.
    pub node: &'a NodeName,
    /// The node's incarnation.
    pub incarnation: &'a str,
    /// The time without a heartbeat after which another incarnation counts as gone.
    pub gone_after: Duration,
    /// The way the node claims its name.
    pub claim: NameClaim,
    /// The facts to report.
    pub facts: &'a BeatFacts,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeatReply {
    /// The heartbeat was recorded.
    Present {
        /// Redis' time.
        now: UnixMillis,
    },
    /// Another live node has the name.
    Taken {
        /// The incarnation of that node.
        incarnation: String,
        /// The host of that node.
        host: String,
        /// The process id of that node.
        pid: u32,
        /// The boot id of its host.
        boot_id: String,
        /// The time since its last heartbeat.
        seen_ago: Duration,
    },
}

/// A node as its last heartbeat described it.
#[derive(Debug, Clone)]
pub struct NodeRecord {
    /// The node's name.
    pub name: String,
    /// The node's state as reported.
    pub state: String,
    /// The time the node started.
    pub started_at: Option<UnixMillis>,
    /// The time of the last heartbeat.
    pub last_seen: Option<UnixMillis>,
    /// The error in the node's configuration.
    pub config_error: Option<String>,
    /// The host name.
    pub host: String,
    /// The process id.
    pub pid: Option<u32>,
    /// The version of schedd.
    pub version: String,
    /// The number of runs it executed at the last heartbeat.
    pub running: Option<u32>,
    /// The time by which the host's clock was ahead of Redis', ms.
    pub clock_offset_ms: Option<i64>,
    /// The queues and labels the node serves.
    pub serving: Serving,
    /// The reason why the node claims nothing, and since when, if it exceeds a limit of its own.
    pub held: Option<(String, UnixMillis)>,
    /// The limits of jobs that the node can enforce; None if not reported.
    pub limits: Option<BTreeSet<LimitKind>>,
    /// The reason why it cannot enforce the remaining limits, if reported.
    pub limits_why: String,
    /// The most files a process of a job may have open there; None if not reported.
    pub most_files: Option<u64>,
    /// True if each run has a cgroup of its own; None if not reported.
    pub has_cgroups: Option<bool>,
    /// The users that jobs may name there, separated by commas, or `*` for all but root. Empty if
    /// none.
    pub users: String,
    /// The reason why jobs may name no user; empty if they may, or if not reported.
    pub users_why: String,
    /// The user of the node's own process, which every job may name; empty if not reported.
    pub own_user: String,
}

/// The start of the reason why a node claims nothing when it already runs as many runs as its file
/// allows.
pub const FULL: &str = "running";
/// The field values for a node with and without a cgroup for each run.
const OWN: &str = "own";
const NO_CGROUPS: &str = "none";

impl NodeRecord {
    /// Returns why the node claims nothing, and since when, unless it already runs as many runs as
    /// its file allows.
    pub fn hindrance(&self) -> Option<&(String, UnixMillis)> {
        self.held.as_ref().filter(|(why, _)| !why.starts_with(FULL))
    }
}

impl Store {
    /// Records a heartbeat.
    pub async fn beat_node(&self, beat: &NodeBeat<'_>) -> Result<BeatReply, StoreError> {
        let facts = beat.facts;
        let mut call = Invocation::new(&scripts::BEAT_NODE)
            .key("nodes", self.keys.nodes())
            .key("node", self.keys.node(beat.node))
            .arg("now", self.now_arg())
            .arg("node_name", beat.node.as_str())
            .arg("incarnation", beat.incarnation)
            .arg("gone_after_ms", millis(beat.gone_after))
            .arg("claim_name", if beat.claim == NameClaim::Take { "take" } else { "ask" });
        let fields = [
            ("state", facts.state.to_owned()),
            ("started_at", facts.started_at.as_i64().to_string()),
            ("config_error", facts.config_error.clone()),
            ("host", facts.host.clone()),
            ("pid", facts.pid.to_string()),
            ("boot_id", facts.boot_id.clone()),
            ("version", facts.version.to_owned()),
            ("running", facts.running.to_string()),
            ("clock_offset_ms", facts.clock_offset_ms.map_or_else(String::new, |ms| ms.to_string())),
            ("queues", facts.serving.queues.as_ref().map_or_else(String::new, |all| joined(all.iter().map(QueueName::as_str)))),
            ("labels", joined(facts.serving.labels.iter().map(Label::as_str))),
            ("limits", facts.limits.as_ref().map_or_else(String::new, listed)),
            ("limits_why", facts.limits_why.clone()),
            ("most_files", facts.most_files.map_or_else(String::new, |most| most.to_string())),
            ("cgroups", facts.has_cgroups.map_or("", |has| if has { OWN } else { NO_CGROUPS }).to_owned()),
            ("users", facts.users.clone()),
            ("users_why", facts.users_why.clone()),
            ("own_user", facts.own_user.clone()),
            ("held", facts.held.as_ref().map_or_else(String::new, |(why, _)| why.clone())),
            ("held_since", facts.held.as_ref().map_or_else(String::new, |(_, since)| since.as_i64().to_string())),
        ];
        for (field, value) in fields {
            call = call.arg("field", field).arg("value", value);
        }
        let mut reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "present" => BeatReply::Present { now: instant(&mut reply)? },
            "taken" => BeatReply::Taken {
                incarnation: reply.text()?,
                host: reply.text()?,
                pid: reply.text()?.parse().unwrap_or(0),
                boot_id: reply.text()?,
                seen_ago: Duration::from_millis(u64::try_from(reply.number()?).unwrap_or(0)),
            },
            _ => return Err(reply.unknown()),
        })
    }

    /// Removes a node that stops in order from the list.
    pub async fn leave_node(&self, node: &NodeName, incarnation: &str) -> Result<(), StoreError> {
        let call = Invocation::new(&scripts::LEAVE_NODE)
            .key("nodes", self.keys.nodes())
            .key("node", self.keys.node(node))
            .arg("node_name", node.as_str())
            .arg("incarnation", incarnation);
        let reply = self.link.invoke(&call).await?;
        if matches!(reply.word.as_str(), "left" | "another") { Ok(()) } else { Err(reply.unknown()) }
    }

    /// Lists the nodes, the last seen first, at most 1,000. Also returns Redis' time.
    pub async fn list_nodes(&self) -> Result<(UnixMillis, Vec<NodeRecord>), StoreError> {
        let now = self.now().await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.nodes()).arg(0).arg(999).arg("REV").arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(flat)) = answer.first() else { return Ok((now, Vec::new())) };
        let seen: Vec<(NodeName, Option<UnixMillis>)> = flat
            .chunks_exact(2)
            .filter_map(|pair| Some((text_of(&pair[0])?.parse().ok()?, number_of(&pair[1]).and_then(UnixMillis::new))))
            .collect();
        if seen.is_empty() {
            return Ok((now, Vec::new()));
        }
        let mut pipeline = redis::pipe();
        for (name, _) in &seen {
            pipeline.cmd("HGETALL").arg(self.keys.node(name));
        }
        let records = self.link.ask(&mut pipeline).await?;
        // A key of the wrong type hides no other node. The facts of its node are unknown.
        let read = |((name, last_seen), fields): ((NodeName, Option<UnixMillis>), Result<Value, redis::RedisError>)| {
            let map: BTreeMap<String, String> = match fields {
                Ok(Value::Array(flat)) => {
                    flat.chunks_exact(2).filter_map(|pair| Some((text_of(&pair[0])?, text_of(&pair[1])?))).collect()
                }
                _ => BTreeMap::new(),
            };
            let text = |field: &str| map.get(field).cloned().unwrap_or_default();
            let instant = |field: &str| text(field).parse().ok().and_then(UnixMillis::new);
            NodeRecord {
                name: name.as_str().to_owned(),
                state: text("state"),
                started_at: instant("started_at"),
                last_seen,
                config_error: map.get("config_error").filter(|error| !error.is_empty()).cloned(),
                host: text("host"),
                pid: text("pid").parse().ok(),
                version: text("version"),
                running: text("running").parse().ok(),
                clock_offset_ms: text("clock_offset_ms").parse().ok(),
                serving: Serving {
                    // A node of an older version reports no queues and serves all.
                    queues: Some(names(&text("queues"))).filter(|queues: &BTreeSet<_>| !queues.is_empty()),
                    labels: names(&text("labels")),
                },
                limits: Some(kinds_in(&text("limits"))).filter(|kinds| !kinds.is_empty()),
                limits_why: text("limits_why"),
                most_files: text("most_files").parse().ok(),
                has_cgroups: [(OWN, true), (NO_CGROUPS, false)]
                    .into_iter()
                    .find_map(|(word, has)| (text("cgroups") == word).then_some(has)),
                users: text("users"),
                users_why: text("users_why"),
                own_user: text("own_user"),
                held: Some(text("held")).filter(|why| !why.is_empty()).zip(instant("held_since")),
            }
        };
        Ok((now, seen.into_iter().zip(records).map(read).collect()))
    }

    /// Returns the declared queues with the concurrency last declared.
    pub async fn read_queues(&self) -> Result<BTreeMap<QueueName, u32>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGETALL").arg(self.keys.queues());
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(flat)) = answer.first() else { return Ok(BTreeMap::new()) };
        let read =
            |pair: &[Value]| Some((text_of(&pair[0])?.parse().ok()?, number_of(&pair[1]).and_then(|n| u32::try_from(n).ok())?));
        Ok(flat.chunks_exact(2).filter_map(read).collect())
    }
}

fn joined<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.collect::<Vec<_>>().join(",")
}

/// Returns the names in a comma-separated list. Malformed names are skipped.
pub(crate) fn names<T: FromStr + Ord>(text: &str) -> BTreeSet<T> {
    text.split(',').filter_map(|name| name.parse().ok()).collect()
}
