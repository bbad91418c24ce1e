//! The records of nodes: which nodes are live, since when, and the errors in their configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use redis::Value;

use crate::Store;
use crate::server::record_fields::RecordFields;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::scripts::millis;
use crate::server::store_error::StoreError;
use schedd_core::domain::explain::GONE_AFTER;
use schedd_core::domain::job::process_limits::{LimitKind, kinds_in, listed};
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::lane_serving::{HandlerChoice, Serving};
use schedd_schedule::names::{HandlerName, Label, NodeName, QueueName};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The facts that a node reports with a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeatFacts {
    /// The node's state: `running`, `stopping` or `draining`.
    pub state: &'static str,
    /// The time the node started, by Redis' clock.
    pub started_at: UnixMillis,
    /// The error in the node's `jobs.toml`; empty if there is no error.
    pub config_error: String,
    /// The name of the node's host.
    pub host: String,
    /// The process id of the node on its host.
    pub pid: u32,
    /// The boot id of the node's host when the node started.
    pub boot_id: String,
    /// The version of schedd that the node runs.
    pub version: &'static str,
    /// The number of runs that the node executes now.
    pub running: usize,
    /// The time by which the host's clock was ahead of Redis' clock at the last heartbeat, in ms.
    /// None before the first heartbeat.
    pub clock_offset_ms: Option<i64>,
    /// The queues and labels that the node serves.
    pub serving: Serving,
    /// The queues, handlers and labels of the workers that ask this node for runs.
    pub workers: BTreeSet<Serving>,
    /// The reason why the node claims nothing, and since when. None unless the node exceeds a limit
    /// of its own.
    pub at_limit: Option<(String, UnixMillis)>,
    /// The limits of jobs that the node can enforce; None if the node does not know its limits yet.
    pub limits: Option<BTreeSet<LimitKind>>,
    /// The reason why the node cannot enforce the remaining limits; empty if the node enforces all
    /// limits.
    pub limits_why: String,
    /// The most files that a process of a job may have open on this node. None if there is no limit
    /// or the node does not know the limit yet.
    pub most_files: Option<u64>,
    /// True if each run on this node has a cgroup of its own; None if the node does not know yet.
    pub has_cgroups: Option<bool>,
    /// The users that jobs on this node may name, separated by commas. `*` means all users but
    /// root. Empty if jobs may name no user.
    pub users: String,
    /// The reason why jobs on this node may name no user; empty if jobs may name a user.
    pub users_why: String,
    /// The user of the node's own process, which every job may name.
    pub own_user: String,
}

/// The way in which a node claims its name at a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameClaim {
    /// The node gets the name only if no other live node has the name.
    Ask,
    /// The node takes the name, because the previous owner of the name is known to be dead.
    Take,
}

/// A heartbeat of a node.
#[derive(Debug, Clone)]
pub struct NodeBeat<'a> {
    /// The node's name.
    pub node: &'a NodeName,
    /// The incarnation of the node: a random word that differs at each start of the process.
    pub incarnation: &'a str,
    /// The time without a heartbeat after which another incarnation of the node counts as gone.
    pub gone_after: Duration,
    /// The way in which the node claims its name.
    pub claim: NameClaim,
    /// The facts that the node reports.
    pub facts: &'a BeatFacts,
}

/// The reply of Redis to a heartbeat of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeatReply {
    /// The heartbeat was recorded.
    Present {
        /// The time of the heartbeat, by Redis' clock.
        now: UnixMillis,
    },
    /// The heartbeat was refused, because another live node has the name.
    Taken {
        /// The incarnation of the node that has the name.
        incarnation: String,
        /// The host of the node that has the name.
        host: String,
        /// The process id of the node that has the name.
        pid: u32,
        /// The boot id of the host of the node that has the name.
        boot_id: String,
        /// The time since the last heartbeat of the node that has the name.
        seen_ago: Duration,
    },
}

/// A node as its last heartbeat described the node.
#[derive(Debug, Clone)]
pub struct NodeRecord {
    /// The node's name.
    pub name: String,
    /// The node's state as reported: `running`, `stopping` or `draining`.
    pub state: String,
    /// The time the node started.
    pub started_at: Option<UnixMillis>,
    /// The time of the node's last heartbeat.
    pub last_seen: Option<UnixMillis>,
    /// The error in the node's configuration; None if there is no error.
    pub config_error: Option<String>,
    /// The name of the node's host.
    pub host: String,
    /// The process id of the node on its host.
    pub pid: Option<u32>,
    /// The version of schedd that the node runs.
    pub version: String,
    /// The number of runs that the node executed at its last heartbeat; None if not reported.
    pub running: Option<u32>,
    /// The time by which the host's clock was ahead of Redis' clock at the last heartbeat, in ms.
    pub clock_offset_ms: Option<i64>,
    /// The queues and labels that the node serves.
    pub serving: Serving,
    /// The queues, handlers and labels of the workers that asked this node for runs.
    pub workers: BTreeSet<Serving>,
    /// The reason why the node claims nothing, and since when. None unless the node exceeds a limit
    /// of its own.
    pub at_limit: Option<(String, UnixMillis)>,
    /// The limits of jobs that the node can enforce; None if the node did not report its limits.
    pub limits: Option<BTreeSet<LimitKind>>,
    /// The reason why the node cannot enforce the remaining limits; empty if the node reported no
    /// reason.
    pub limits_why: String,
    /// The most files that a process of a job may have open on this node; None if the node reported
    /// no limit.
    pub most_files: Option<u64>,
    /// True if each run on this node has a cgroup of its own; None if the node did not report this.
    pub has_cgroups: Option<bool>,
    /// The users that jobs on this node may name, separated by commas. `*` means all users but
    /// root. Empty if jobs may name no user.
    pub users: String,
    /// The reason why jobs on this node may name no user; empty if jobs may name a user, or if not
    /// reported.
    pub users_why: String,
    /// The user of the node's own process, which every job may name; empty if the node did not
    /// report the user.
    pub own_user: String,
}

/// The first word of the reason in `at_limit` if the node executes as many runs as its file allows.
pub const FULL: &str = "running";
/// The stored word for a worker that takes runs of any handler.
const ANY: &str = "*";
/// The stored text for a node that serves no queue itself: the node of a worker within a program.
const NO_QUEUES: &str = "-";
/// The stored value of `has_cgroups` for a node with a cgroup for each run. A node without such
/// cgroups has the value `NO_CGROUPS`.
const OWN: &str = "own";
const NO_CGROUPS: &str = "none";

impl NodeRecord {
    /// Returns the queues and labels that the node serves, and those of the workers that ask it for
    /// runs.
    pub fn servings(&self) -> impl Iterator<Item = Serving> {
        std::iter::once(&self.serving).chain(&self.workers).cloned()
    }

    /// Returns the reason why the node claims nothing, and since when. Returns None if the node
    /// claims runs, or claims none because it runs as many runs as its file allows.
    pub fn hindrance(&self) -> Option<&(String, UnixMillis)> {
        self.at_limit.as_ref().filter(|(why, _)| !why.starts_with(FULL))
    }
}

/// Returns the workers that ask a node as text: for each `QUEUE|HANDLERS|LABELS`, with commas in the
/// lists and a space between two workers.
fn workers_text(workers: &BTreeSet<Serving>) -> String {
    let text = |worker: &Serving| {
        let queues = joined(worker.queues.iter().flatten().map(QueueName::as_str));
        let handlers = match &worker.handlers {
            Some(HandlerChoice::Only(handlers)) => joined(handlers.iter().map(HandlerName::as_str)),
            Some(HandlerChoice::Any) | None => ANY.to_owned(),
        };
        format!("{queues}|{handlers}|{}", joined(worker.labels.iter().map(Label::as_str)))
    };
    workers.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// Returns the workers in a text of `workers_text`. Leaves out what cannot be read.
pub(crate) fn workers_in(text: &str) -> BTreeSet<Serving> {
    let worker = |text: &str| {
        let mut parts = text.split('|');
        let (queues, handlers, labels) = (parts.next()?, parts.next()?, parts.next()?);
        let handlers = match handlers {
            ANY => HandlerChoice::Any,
            list => HandlerChoice::Only(names(list)),
        };
        let (queues, labels) = (Some(names(queues)), names(labels));
        Some(Serving { queues, labels, handlers: Some(handlers) })
    };
    text.split(' ').filter_map(worker).collect()
}

impl Store {
    /// Records that a node is alive at `now` by the clock of Redis. The facts of its last heartbeat
    /// stay as they are. Returns false if Redis lists no node of this name, or has this time
    /// already.
    pub async fn touch_node(&self, node: &NodeName, now: UnixMillis) -> Result<bool, StoreError> {
        let mut pipeline = redis::pipe();
        let add = pipeline.cmd("ZADD").arg(self.keys.nodes()).arg("XX").arg("CH");
        add.arg(now.as_i64()).arg(node.as_str());
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.first().and_then(number_of) == Some(1))
    }

    /// Records a heartbeat of a node, unless another live node has its name.
    pub async fn beat_node(&self, beat: &NodeBeat<'_>) -> Result<BeatReply, StoreError> {
        let facts = beat.facts;
        let mut call = self
            .call(&scripts::BEAT_NODE)
            .key("node", self.keys.node(beat.node))
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
            (
                "clock_offset_ms",
                facts.clock_offset_ms.map_or_else(String::new, |ms| ms.to_string()),
            ),
            ("queues", facts.serving.queues.as_ref().map_or_else(String::new, queues_text)),
            ("labels", joined(facts.serving.labels.iter().map(Label::as_str))),
            ("workers", workers_text(&facts.workers)),
            ("limits", facts.limits.as_ref().map_or_else(String::new, listed)),
            ("limits_why", facts.limits_why.clone()),
            ("most_files", facts.most_files.map_or_else(String::new, |most| most.to_string())),
            (
                "cgroups",
                facts.has_cgroups.map_or("", |has| if has { OWN } else { NO_CGROUPS }).to_owned(),
            ),
            ("users", facts.users.clone()),
            ("users_why", facts.users_why.clone()),
            ("own_user", facts.own_user.clone()),
            ("at_limit", facts.at_limit.as_ref().map_or_else(String::new, |(why, _)| why.clone())),
            (
                "at_limit_since",
                facts
                    .at_limit
                    .as_ref()
                    .map_or_else(String::new, |(_, since)| since.as_i64().to_string()),
            ),
        ];
        for (field, value) in fields {
            call = call.arg("field", field).arg("value", value);
        }
        let mut reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "present" => BeatReply::Present { now: reply.instant()? },
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

    /// Removes a node from the list of nodes at its ordinary stop. A node with instances of jobs
    /// stays in the list as `stopped`.
    pub async fn leave_node(&self, node: &NodeName, incarnation: &str) -> Result<(), StoreError> {
        let call = self
            .call(&scripts::LEAVE_NODE)
            .key("node", self.keys.node(node))
            .key("source", self.keys.source(&SourceName::instances_on(node)))
            .arg("node_name", node.as_str())
            .arg("incarnation", incarnation)
            .arg("gone_after_ms", millis(GONE_AFTER));
        let reply = self.link.invoke(&call).await?;
        if matches!(reply.word.as_str(), "left" | "another") {
            Ok(())
        } else {
            Err(reply.unknown())
        }
    }

    /// Lists the nodes by their last heartbeat, the latest first, at most 1,000. Also returns
    /// Redis' time.
    pub async fn list_nodes(&self) -> Result<(UnixMillis, Vec<NodeRecord>), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.nodes()).arg(0).arg(999).arg("REV").arg("WITHSCORES");
        let (now, answer) = tokio::try_join!(self.now(), self.link.query(&mut pipeline))?;
        let Some(Value::Array(flat)) = answer.first() else { return Ok((now, Vec::new())) };
        let seen: Vec<(NodeName, Option<UnixMillis>)> = flat
            .chunks_exact(2)
            .filter_map(|pair| {
                Some((
                    text_of(&pair[0])?.parse().ok()?,
                    number_of(&pair[1]).and_then(UnixMillis::new),
                ))
            })
            .collect();
        let mut pipeline = redis::pipe();
        for (name, _) in &seen {
            pipeline.cmd("HGETALL").arg(self.keys.node(name));
        }
        let records = self.link.ask(&mut pipeline).await?;
        // If the record of a node has the wrong type, the node is listed without its facts.
        let read = |((name, last_seen), fields): (
            (NodeName, Option<UnixMillis>),
            Result<Value, redis::RedisError>,
        )| {
            let fields = fields.as_ref().ok().and_then(RecordFields::of).unwrap_or_default();
            let text = |field: &str| fields.get(field).unwrap_or_default().to_owned();
            NodeRecord {
                name: name.as_str().to_owned(),
                state: text("state"),
                started_at: fields.instant("started_at"),
                last_seen,
                config_error: fields.filled("config_error").map(str::to_owned),
                host: text("host"),
                pid: fields.parsed("pid"),
                version: text("version"),
                running: fields.parsed("running"),
                clock_offset_ms: fields.parsed("clock_offset_ms"),
                serving: Serving {
                    // A node of an older version reports no queues and serves all.
                    queues: Some(names(&text("queues"))).filter(|queues: &BTreeSet<_>| {
                        !queues.is_empty() || text("queues") == NO_QUEUES
                    }),
                    labels: names(&text("labels")),
                    handlers: None,
                },
                workers: workers_in(&text("workers")),
                limits: Some(kinds_in(&text("limits"))).filter(|kinds| !kinds.is_empty()),
                limits_why: text("limits_why"),
                most_files: fields.parsed("most_files"),
                has_cgroups: [(OWN, true), (NO_CGROUPS, false)]
                    .into_iter()
                    .find_map(|(word, has)| (text("cgroups") == word).then_some(has)),
                users: text("users"),
                users_why: text("users_why"),
                own_user: text("own_user"),
                at_limit: fields
                    .filled("at_limit")
                    .map(str::to_owned)
                    .zip(fields.instant("at_limit_since")),
            }
        };
        Ok((now, seen.into_iter().zip(records).map(read).collect()))
    }

    /// Returns the declared queues, each with the concurrency that was declared last.
    pub async fn read_queues(&self) -> Result<BTreeMap<QueueName, u32>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGETALL").arg(self.keys.queues());
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(flat)) = answer.first() else { return Ok(BTreeMap::new()) };
        let read = |pair: &[Value]| {
            Some((
                text_of(&pair[0])?.parse().ok()?,
                number_of(&pair[1]).and_then(|n| u32::try_from(n).ok())?,
            ))
        };
        Ok(flat.chunks_exact(2).filter_map(read).collect())
    }
}

fn queues_text(queues: &BTreeSet<QueueName>) -> String {
    if queues.is_empty() {
        return NO_QUEUES.to_owned();
    }
    joined(queues.iter().map(QueueName::as_str))
}

fn joined<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.collect::<Vec<_>>().join(",")
}

/// Returns the names in a comma-separated list. Malformed names are skipped.
pub(crate) fn names<T: FromStr + Ord>(text: &str) -> BTreeSet<T> {
    text.split(',').filter_map(|name| name.parse().ok()).collect()
}
