//! Reports this node to other nodes, under a name that no other live node has.
//!
//! A heartbeat writes the facts of the node only if they changed, or at longer intervals. Such a
//! heartbeat also checks that this node still has its name. All other heartbeats are a single
//! command. The node reads the queues and lanes after a poll has found that they changed, and
//! rarely without a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info, warn};

use crate::attempts::{Execute, ExecutorAbilities};
use crate::engine::dispatch::node_limits::NodeLimits;
use crate::engine::dispatch::slots::Slots;
use crate::engine::execution::running_leases::RunningLeases;
use crate::engine::node_context::NodeContext;
use crate::engine::settings::{EngineSettings, HostFacts, WorkerServing};
use crate::engine::status::node_health::NodeHealth;
use crate::engine::status::redis_clock::STEADY_FOR;
use schedd_core::domain::queue::lane_serving::Serving;
use schedd_core::domain::run::node_event::{NodeEvent, NodeEventKind};
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::{NodeName, QueueName};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    BeatFacts, BeatReply, EventNote, NameClaim, NodeBeat, QueueRecord, Store, StoreError,
};

const EVERY: Duration = Duration::from_secs(5);
/// The longest interval between heartbeats with all facts.
const FACTS_EVERY: Duration = Duration::from_secs(60);
/// The longest interval between readings of the queues and lanes.
const LEARN_EVERY: Duration = Duration::from_secs(600);
/// The smallest change, in ms, of the difference between the clocks of this host and of Redis that
/// the next heartbeat reports.
const CLOCK_CHANGE_MS: u64 = 1_000;
/// The interval at which a node reports the lanes that it uses.
const KEEP_EVERY: Duration = Duration::from_secs(3600);
/// The time after which an unseen node counts as gone.
pub use schedd_core::domain::explain::GONE_AFTER;
/// The highest number that is appended to the host name to find a free node name, as in `host-99`.
const NAMES_TRIED: u32 = 99;

/// The handles of the loop that reports this node to Redis and reads the queues and lanes from
/// Redis.
pub(crate) struct Presence {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) slots: Slots,
    pub(crate) limits: Arc<NodeLimits>,
    pub(crate) leases: Arc<RunningLeases>,
    pub(crate) executors: Arc<dyn Execute>,
    pub(crate) health: Arc<NodeHealth>,
}

/// The reason why a node could not take its name.
#[derive(Debug, thiserror::Error)]
pub enum PresenceError {
    /// Another node has the requested name.
    #[error(
        "node name {name} is in use by the schedd with process id {pid} on host {host}; choose another name with --node"
    )]
    Taken {
        /// The requested name.
        name: NodeName,
        /// The process id of the node that has the name.
        pid: u32,
        /// The host of the node that has the name.
        host: String,
    },
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The origin of a node's name: requested by the operator, or made from the name of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// The node takes exactly the requested name.
    Asked,
    /// The node takes the host's name, or the host's name with a number appended.
    FromHost,
}

/// Takes a name for this node: the given name, or for [`Naming::FromHost`] the next free variant. A
/// node that has the name is replaced if it is dead, or was not seen for [`GONE_AFTER`]. Also
/// returns the start time of this node, which its later events refer to.
pub async fn announce(
    store: &Store,
    wanted: &NodeName,
    naming: Naming,
    incarnation: &str,
    host: &HostFacts,
    serving: &Serving,
) -> Result<(NodeName, UnixMillis), PresenceError> {
    let started_at = store.now().await?;
    let facts = BeatFacts {
        state: "running",
        started_at,
        config_error: String::new(),
        host: host.host.clone(),
        pid: std::process::id(),
        boot_id: host.boot_id.clone(),
        version: env!("CARGO_PKG_VERSION"),
        running: 0,
        clock_offset_ms: None,
        serving: serving.clone(),
        workers: BTreeSet::new(),
        at_limit: None,
        limits: None,
        limits_why: String::new(),
        most_files: None,
        has_cgroups: None,
        users: String::new(),
        users_why: String::new(),
        own_user: String::new(),
    };
    let mut name = wanted.clone();
    let mut number = 1;
    loop {
        let seen_before = match store.last_seen(&name).await? {
            // No earlier node had this name. The last node of any name shows how long all nodes
            // were away.
            None => store.last_of_all().await?.filter(|seen| started_at.since(*seen) >= STEADY_FOR),
            seen => seen,
        };
        match try_name(store, &name, incarnation, &facts, host).await? {
            Try::Ours => {
                let event = NodeEvent {
                    what: NodeEventKind::Started { seen_before },
                    from: started_at,
                    to: None,
                };
                if let Err(error) =
                    store.note_events(&name, &[EventNote { event, replaces: None }]).await
                {
                    debug!("The start of this node was not recorded: {error}.");
                }
                return Ok((name, started_at));
            }
            Try::Alive { pid, host } if naming == Naming::Asked || number >= NAMES_TRIED => {
                return Err(PresenceError::Taken { name, pid, host });
            }
            Try::Alive { .. } => {
                number += 1;
                name = numbered(wanted, number);
            }
        }
    }
}

enum Try {
    Ours,
    Alive { pid: u32, host: String },
}

async fn try_name(
    store: &Store,
    name: &NodeName,
    incarnation: &str,
    facts: &BeatFacts,
    host: &HostFacts,
) -> Result<Try, StoreError> {
    let mut claim = NameClaim::Ask;
    let mut first_seen_ago = None;
    // The instant at which this node found that the record of the other node lies in the future.
    // Redis' clock was ahead when the other node wrote it. A live node would write its record again
    // within a moment.
    let mut seen_later: Option<BootInstant> = None;
    loop {
        let beat = NodeBeat { node: name, incarnation, gone_after: GONE_AFTER, claim, facts };
        match store.beat_node(&beat).await? {
            BeatReply::Present { .. } => return Ok(Try::Ours),
            BeatReply::Taken { pid, boot_id, host: holder, seen_ago, .. } => {
                if boot_id == host.boot_id {
                    // In a container the first process has the same id at each start, so an equal
                    // id proves nothing.
                    if pid != std::process::id() && (host.is_alive)(pid) {
                        return Ok(Try::Alive { pid, host: holder });
                    }
                    claim = NameClaim::Take;
                } else if holder == host.host {
                    // The other node ran on this host before its last boot, so it is dead.
                    claim = NameClaim::Take;
                } else {
                    seen_later = seen_later
                        .filter(|_| seen_ago.is_zero())
                        .or_else(|| Some(BootInstant::now()));
                    let later_for =
                        seen_later.map_or(Duration::ZERO, |since| BootInstant::now().since(since));
                    match first_seen_ago {
                        // The other node reported itself during the wait, so it is alive.
                        Some(before) if seen_ago < before => {
                            return Ok(Try::Alive { pid, host: holder });
                        }
                        _ if seen_ago >= GONE_AFTER || later_for >= GONE_AFTER => {
                            claim = NameClaim::Take;
                        }
                        _ => {
                            if first_seen_ago.is_none() {
                                info!(node = %name, host = holder, "A node of this name was active on another host a moment ago. schedd now waits to find out whether that node is alive.");
                            }
                            first_seen_ago = Some(seen_ago);
                            tokio::time::sleep(Duration::from_secs(1)).await;
                        }
                    }
                }
            }
        }
    }
}

fn numbered(name: &NodeName, number: u32) -> NodeName {
    let suffix = format!("-{number}");
    let base: String =
        name.as_str().chars().take(schedd_schedule::names::MAX_NAME_LEN - suffix.len()).collect();
    NodeName::from_host_name(&format!("{base}{suffix}"))
}

/// Returns the facts that this node reports about itself. `clock_offset_ms` is by how many ms its
/// host's clock is ahead of Redis' clock.
fn facts(presence: &Presence, clock_offset_ms: Option<i64>) -> BeatFacts {
    let EngineSettings { host, started_at, worker, .. } = &presence.node.settings;
    // For other nodes, a worker within a program is a node that serves no lane itself, and the
    // worker that asks this node for runs.
    let (serving, workers) = match worker {
        Some(worker) => (WorkerServing::of_node(), BTreeSet::from([worker.serving()])),
        None => (presence.slots.serving(), presence.node.asking.workers(BootInstant::now())),
    };
    let ExecutorAbilities { limits, most_files, has_cgroups, users, users_why, own_user } =
        presence.executors.abilities();
    BeatFacts {
        state: presence.node.phase().word(),
        started_at: *started_at,
        config_error: presence.health.problems.text(),
        host: host.host.clone(),
        pid: std::process::id(),
        boot_id: host.boot_id.clone(),
        version: env!("CARGO_PKG_VERSION"),
        running: presence.leases.all().len(),
        clock_offset_ms,
        serving,
        workers,
        at_limit: presence.limits.at_limit().map(|at_limit| (at_limit.why, at_limit.since)),
        limits: Some(limits),
        limits_why: presence.node.settings.no_cgroups.clone().unwrap_or_default(),
        most_files,
        has_cgroups: Some(has_cgroups),
        users,
        users_why,
        own_user,
    }
}

/// Reads the present queues and lanes from Redis. Also registers lanes in use that Redis does not
/// list, so that all nodes poll these lanes.
async fn learn(presence: &Presence) -> Result<(), StoreError> {
    let store = &presence.node.store;
    let known = known_queues(store).await?;
    presence.node.counters.declare(known.keys());
    presence.slots.set_known(known);
    for queue in presence.slots.undeclared() {
        if presence.node.outage_log.is_new(&format!("undeclared {queue}")) {
            warn!(queue = %queue, "This node serves a queue that no jobs file declares. Add the section [queues.{queue}] to jobs.toml.");
        }
    }
    let mut lanes = store.read_lanes().await?;
    let unknown = presence.slots.in_use_beside(&lanes);
    store.note_lanes(&unknown).await?;
    lanes.extend(unknown);
    presence.slots.set_lanes(lanes);
    presence.node.wakeups.note_worker_news();
    Ok(())
}

/// Reports the lanes that this node uses, so that Redis keeps these lanes listed.
async fn keep_lanes(presence: &Presence) -> Result<(), StoreError> {
    presence.node.store.note_lanes(&presence.slots.in_use_beside(&BTreeSet::new())).await
}

/// Reads the queues and lanes, and returns true if they could be read. At longer intervals, also
/// reports the lanes in use. `kept` is the instant of the last such report.
async fn look_around(presence: &Presence, kept: &mut BootInstant) -> bool {
    let learnt = learn(presence).await;
    let is_learnt = learnt.is_ok();
    match learnt {
        Err(error) if error.is_passing() => debug!("Queues and lanes cannot be read: {error}."),
        learnt => {
            if let Err(error) = learnt {
                presence.node.outage_log.failed(&error, "queues and lanes cannot be read");
            }
            presence.slots.note_learnt();
        }
    }
    if BootInstant::now().since(*kept) >= KEEP_EVERY && keep_lanes(presence).await.is_ok() {
        *kept = BootInstant::now();
    }
    is_learnt
}

/// Returns by how many ms this host's clock is ahead of Redis' clock. The host's clock showed
/// `before` and `after` a call, and Redis' clock showed `now` during the call. Returns 0 if a slow
/// answer explains the difference.
fn ahead_of(before: UnixMillis, now: UnixMillis, after: UnixMillis) -> i64 {
    let (before, now, after) = (before.as_i64(), now.as_i64(), after.as_i64());
    if now < before { before - now } else { (after - now).min(0) }
}

/// Returns the settings of each queue that any file has declared, by name.
async fn known_queues(store: &Store) -> Result<BTreeMap<QueueName, QueueRecord>, StoreError> {
    let names: Vec<QueueName> = store.read_queues().await?.into_keys().collect();
    let records = store.read_queue_settings(&names).await?;
    Ok(names.into_iter().zip(records).collect())
}

/// Records that this node is alive, without writing its facts. Returns false if a heartbeat with
/// all facts is needed. This is the case if the facts have changed since the last such heartbeat
/// (`reported`), or if that heartbeat is old.
async fn touch(
    presence: &Presence,
    facts: &BeatFacts,
    reported: Option<&(BeatFacts, BootInstant)>,
) -> bool {
    let Some((known, at)) = reported else { return false };
    let now = presence.health.notes.now();
    let offset_ms = (presence.node.settings.host.clock)().as_i64() - now.as_i64();
    let is_off =
        facts.clock_offset_ms.is_none_or(|known| known.abs_diff(offset_ms) >= CLOCK_CHANGE_MS);
    if facts != known || is_off || BootInstant::now().since(*at) >= FACTS_EVERY {
        return false;
    }
    // The heartbeat with all facts that follows an error reports the error.
    presence.node.store.touch_node(&presence.node.settings.node, now).await.unwrap_or(false)
}

/// Reports this node at intervals, and at once when its facts change. Never returns.
pub(crate) async fn run(presence: Arc<Presence>) {
    let settings = &presence.node.settings;
    let (mut clock_offset_ms, mut kept) = (None, BootInstant::now());
    // The facts of the last heartbeat that had all of them, and the instant of the last reading of
    // queues and lanes.
    let (mut reported, mut learnt) = (None, None::<BootInstant>);
    loop {
        let beat_facts = facts(&presence, clock_offset_ms);
        if touch(&presence, &beat_facts, reported.as_ref()).await {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = presence.node.wakeups.presence.notified() => (reported, learnt) = (None, None),
            }
            continue;
        }
        let beat = NodeBeat {
            node: &settings.node,
            incarnation: &settings.incarnation,
            gone_after: GONE_AFTER,
            claim: NameClaim::Ask,
            facts: &beat_facts,
        };
        let before = (settings.host.clock)();
        reported = None;
        let answer = presence.node.store.beat_node(&beat).await;
        let is_answered = answer.is_ok();
        match answer {
            Ok(BeatReply::Present { now }) => {
                let is_first = clock_offset_ms.is_none();
                clock_offset_ms = Some(ahead_of(before, now, (settings.host.clock)()));
                reported =
                    Some((BeatFacts { clock_offset_ms, ..beat_facts.clone() }, BootInstant::now()));
                if is_first {
                    presence.node.wakeups.presence.notify_one();
                }
            }
            Ok(BeatReply::Taken { host, pid, .. })
                if presence.node.outage_log.is_new("node name") =>
            {
                warn!(node = %settings.node, host, pid, "Another node uses the name of this node. Give each node its own name with --node.");
            }
            Ok(BeatReply::Taken { .. }) => {}
            Err(error) => {
                presence.node.outage_log.failed(&error, "this node cannot report that it is alive");
            }
        }
        let is_old = |at: BootInstant| BootInstant::now().since(at) >= LEARN_EVERY;
        if is_answered && learnt.is_none_or(is_old) {
            learnt = look_around(&presence, &mut kept).await.then(BootInstant::now);
            if learnt.is_none() {
                reported = None;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = presence.node.wakeups.presence.notified() => (reported, learnt) = (None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_off_only_by_what_a_slow_answer_does_not_explain() {
        let at = |ms: i64| UnixMillis::new(1_790_000_000_000 + ms).unwrap();
        assert_eq!(ahead_of(at(5_000), at(0), at(5_010)), 5_000);
        assert_eq!(ahead_of(at(0), at(5_000), at(10)), -4_990);
        assert_eq!(ahead_of(at(0), at(700), at(1_000)), 0);
    }
}
