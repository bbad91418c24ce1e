//! The nodes: who is there, since when, and what is wrong with its configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use redis::Value;

use super::Store;
use super::claims::{instant, millis};
use super::error::StoreError;
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::ids::{Label, NodeName, QueueName};
use crate::domain::limits::{LimitKind, kinds_in, listed};
use crate::domain::serving::Serving;
use crate::domain::time::UnixMillis;

/// What a node tells of itself at each beat.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    /// What it does: `running`, `stopping`, `draining`.
    pub state: &'static str,
    /// Redis' time when it started.
    pub started_at: UnixMillis,
    /// What is wrong with its `jobs.toml`; empty if nothing is.
    pub config_error: String,
    /// Its host's name.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
    /// The boot of that host it was started in.
    pub boot_id: String,
    /// The version of schedd.
    pub version: &'static str,
    /// How many runs it executes now.
    pub running: usize,
    /// How far its host's clock was ahead of Redis' at its last beat, ms; none before the first.
    pub clock_offset_ms: Option<i64>,
    /// What it serves.
    pub serving: Serving,
    /// Why it claims nothing, and since when, if it is past a limit of its own.
    pub held: Option<(String, UnixMillis)>,
    /// Which limits of jobs it can enforce; none = not said yet.
    pub limits: Option<BTreeSet<LimitKind>>,
    /// Why not the others; empty if all.
    pub limits_why: String,
    /// How many files a process of a job may have open there at most; none = any number, or not said yet.
    pub most_files: Option<u64>,
    /// Whether each run has a cgroup of its own; none = not said yet.
    pub has_cgroups: Option<bool>,
    /// The users jobs may name there, by commas, or `*` for all but root; empty = nobody.
    pub users: String,
    /// Why nobody; empty if some.
    pub users_why: String,
    /// The user it runs as itself, whom every job may name.
    pub own_user: String,
}

/// How sure a node is of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameClaim {
    /// Another live node may have it.
    Ask,
    /// Whoever has it is known to be dead.
    Take,
}

/// One sign of life.
#[derive(Debug, Clone)]
pub struct Beat<'a> {
    /// The node.
    pub node: &'a NodeName,
    /// Its incarnation.
    pub incarnation: &'a str,
    /// Another incarnation unseen for so long has left.
    pub gone_after: Duration,
    /// How sure the node is of its name.
    pub claim: NameClaim,
    /// What it tells.
    pub facts: &'a NodeFacts,
}

/// What a beat was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeatReply {
    /// Written down.
    Present {
        /// Redis' time.
        now: UnixMillis,
    },
    /// The name is another live node's.
    Taken {
        /// Its incarnation.
        incarnation: String,
        /// Its host.
        host: String,
        /// Its process id there.
        pid: u32,
        /// The boot of its host.
        boot_id: String,
        /// How long ago it was seen.
        seen_ago: Duration,
    },
}

/// A node as it was last seen.
#[derive(Debug, Clone)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// What it said it does.
    pub state: String,
    /// When it started.
    pub started_at: Option<UnixMillis>,
    /// When it was last seen.
    pub last_seen: Option<UnixMillis>,
    /// What is wrong with its configuration.
    pub config_error: Option<String>,
    /// Its host.
    pub host: String,
    /// Its process id.
    pub pid: Option<u32>,
    /// Its version.
    pub version: String,
    /// How many runs it executed then.
    pub running: Option<u32>,
    /// How far its host's clock was ahead of Redis', ms.
    pub clock_offset_ms: Option<i64>,
    /// What it serves.
    pub serving: Serving,
    /// Why it claims nothing, and since when, if it is past a limit of its own.
    pub held: Option<(String, UnixMillis)>,
    /// Which limits of jobs it can enforce; none if it does not say.
    pub limits: Option<BTreeSet<LimitKind>>,
    /// Why not the others, if it says so.
    pub limits_why: String,
    /// How many files a process of a job may have open there at most; none if it does not say.
    pub most_files: Option<u64>,
    /// Whether each run has a cgroup of its own; none if it does not say.
    pub has_cgroups: Option<bool>,
    /// The users jobs may name there, by commas, or `*` for all but root; empty = nobody.
    pub users: String,
    /// Why nobody; empty if some, or if it does not say.
    pub users_why: String,
    /// The user it runs as itself, whom every job may name; empty if it does not say.
    pub own_user: String,
}

/// The first word of the reason why a node claims nothing that runs as many as its file allows.
pub const FULL: &str = "running";
/// The words for whether each run has a cgroup of its own.
const OWN: &str = "own";
const NO_CGROUPS: &str = "none";

impl NodeRecord {
    /// Why it claims nothing though it does not run as much as it may, and since when.
    pub fn hindrance(&self) -> Option<&(String, UnixMillis)> {
        self.held.as_ref().filter(|(why, _)| !why.starts_with(FULL))
    }
}

impl Store {
    /// Writes a sign of life.
    pub async fn beat_node(&self, beat: &Beat<'_>) -> Result<BeatReply, StoreError> {
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

    /// Takes a node that stops in order off the list.
    pub async fn leave_node(&self, node: &NodeName, incarnation: &str) -> Result<(), StoreError> {
        let call = Invocation::new(&scripts::LEAVE_NODE)
            .key("nodes", self.keys.nodes())
            .key("node", self.keys.node(node))
            .arg("node_name", node.as_str())
            .arg("incarnation", incarnation);
        let reply = self.link.invoke(&call).await?;
        if matches!(reply.word.as_str(), "left" | "another") { Ok(()) } else { Err(reply.unknown()) }
    }

    /// The nodes, the one last seen first, at most 1,000, and Redis' time.
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
        // A key that holds something else hides no other node: what it told is not known.
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
                    // One of an older schedd does not say, and serves all.
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

    /// The queues any file has declared, with the concurrency last said.
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

/// The names in a list with commas; what is no name is passed over.
pub(super) fn names<T: FromStr + Ord>(text: &str) -> BTreeSet<T> {
    text.split(',').filter_map(|name| name.parse().ok()).collect()
}
