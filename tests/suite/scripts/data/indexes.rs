//! Every index compared with the records: an entry of a run that is over, or of a job that is gone, is told as stale.
//!
//! Each key of a namespace is judged here or named as one that leads to no run, so that a new index is not forgotten.

use std::collections::{BTreeMap, BTreeSet};

use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use serde_json::Value;

use crate::scripts::world::World;

/// Keys that lead to no run and to no job which may be gone.
const OTHERS: [&str; 35] = [
    "consistency_check",
    "boot_runs",
    "boots",
    "declared",
    "audit_log",
    "answer",
    "used_link",
    "discarded",
    "epoch",
    "schedule_versions",
    "events",
    "fence",
    "gate_rate",
    "gate_timers",
    "group",
    "groups",
    "lanes",
    "ledger",
    "ledger_before",
    "data_losses",
    "node",
    "nodes",
    "event_nodes",
    "output",
    "output_bytes",
    "output_sizes",
    "quarantine",
    "quarantined",
    "queue",
    "queue_state",
    "queues",
    "known_servers",
    "restoring_until",
    "nudge",
    "counters",
];

/// The keys of a namespace at one moment.
struct KeySnapshot {
    /// The members of each sorted set.
    sets: BTreeMap<String, BTreeSet<String>>,
    /// The fields of each hash.
    hashes: BTreeMap<String, BTreeMap<String, String>>,
}

impl World {
    /// What stands in an index although the records say otherwise: a line for each.
    #[expect(clippy::too_many_lines, reason = "one step for each index")]
    pub(crate) fn stale_entries(&self) -> Vec<String> {
        let (snapshot, keys) = self.read_snapshot();
        let mut stale = Vec::new();
        for key in &keys {
            let (family, of) = key.split_once(':').unwrap_or((key.as_str(), ""));
            if OTHERS.contains(&family) {
                continue;
            }
            let judge: fn(&KeySnapshot, &str, &str) -> bool = match family {
                "run" | "job" | "source" | "unique" => continue,
                "due" => |snapshot, _, run| {
                    snapshot.is_in(run, &[RunState::Scheduled]) || snapshot.is_planned(run)
                },
                "leases" => |snapshot, _, lease| {
                    let (run, fence) = lease.split_once('#').unwrap();
                    snapshot.is_in(run, &[RunState::Running])
                        && snapshot.run(run, "fence") == Some(fence)
                },
                "running" => |snapshot, queue, run| {
                    let lane = snapshot.run(run, "queue").unwrap_or_default();
                    snapshot.is_in(run, &[RunState::Running])
                        && lane.split(['!', '~', '+']).next() == Some(queue)
                },
                "stop_requests" => {
                    |snapshot, _, run| snapshot.is_going_on(run) || snapshot.is_planned(run)
                }
                "history" => |snapshot, _, run| snapshot.state(run).is_some_and(RunState::is_final),
                "dead" => |snapshot, _, run| snapshot.state(run).is_some_and(RunState::is_dead),
                "open" => |snapshot, job, run| {
                    snapshot.is_going_on(run)
                        && !run.contains('~')
                        && run.starts_with(&format!("{job}@"))
                },
                "manual" => |snapshot, job, run| {
                    snapshot.is_going_on(run)
                        && run.contains('~')
                        && run.starts_with(&format!("{job}@"))
                },
                "waiting" | "catch_up" => |snapshot, job, run| {
                    snapshot.is_in(run, &[RunState::Scheduled])
                        && run.starts_with(&format!("{job}@"))
                },
                "backfill" => {
                    |snapshot, _, run| snapshot.state(run).is_none_or(|state| !state.is_final())
                }
                "backfills" => {
                    |snapshot, _, job| snapshot.sets.contains_key(&format!("backfill:{job}"))
                }
                "gate_holders" => |snapshot, gate, run| {
                    snapshot.is_going_on(run) && snapshot.known_places(run).contains(&gate)
                },
                "gate_waiters" => |snapshot, gate, run| {
                    snapshot.is_in(run, &[RunState::Scheduled])
                        && snapshot.known_places(run).last() == Some(&gate)
                },
                "gate_waiter_lanes" => |snapshot, gate, entry| {
                    let run = entry.split(' ').next().unwrap();
                    snapshot
                        .sets
                        .get(&format!("gate_waiters:{gate}"))
                        .is_some_and(|queued| queued.contains(run))
                },
                "gate_waiters_by_job" | "gate_waiters_by_lane" => |snapshot, gate, entry| {
                    let run = entry.rsplit(' ').next().unwrap();
                    snapshot
                        .sets
                        .get(&format!("gate_waiters:{gate}"))
                        .is_some_and(|queued| queued.contains(run))
                },
                "gate" => |snapshot, _, field| match field.split_once(':') {
                    Some(("lane" | "before", run)) => snapshot.is_going_on(run),
                    _ => true,
                },
                "deadlines" => KeySnapshot::is_awaited,
                "notices" => |_, _, notice| {
                    serde_json::from_str::<Value>(notice)
                        .is_ok_and(|notice| notice["run"].is_string())
                },
                "job_gates" => |snapshot, _, entry| {
                    snapshot
                        .hashes
                        .contains_key(&format!("job:{}", entry.rsplit(' ').next().unwrap()))
                },
                "not_while" | "not_while_recent" => |snapshot, _, rule| {
                    let (other, job) = rule.split_once(' ').unwrap();
                    snapshot
                        .job(job, "not_while")
                        .is_some_and(|named| named.split(' ').any(|name| name == other))
                },
                "chains" => |snapshot, _, link| {
                    let words: Vec<&str> = link.split(' ').collect();
                    let lines = match words[..] {
                        [_, job, _] => snapshot.job(job, "former_after"),
                        _ => snapshot.job(words[1], "after"),
                    };
                    let lists = |line: &str| {
                        (words.len() == 2 || line.starts_with(words[2]))
                            && line.split(' ').skip(1).any(|name| name == words[0])
                    };
                    lines.is_none_or(|lines| lines.lines().any(lists))
                        && (lines.is_some() || words.len() == 3)
                },
                // The run may have been retried since then, and its record may be trimmed.
                "chain_ends" => |_, _, end| {
                    serde_json::from_str::<Value>(end)
                        .is_ok_and(|end| end["run"].is_string() && end["child"].is_string())
                },
                "chain" => |snapshot, job, occurrence| {
                    snapshot.hashes.contains_key(&format!("job:{job}"))
                        && snapshot.state(&format!("{job}@{occurrence}")).is_none()
                },
                "uniques" => {
                    |snapshot, _, key| snapshot.hashes.contains_key(&format!("unique:{key}"))
                }
                "jobs" => |snapshot, _, job| {
                    snapshot.hashes.contains_key(&format!("job:{job}"))
                        && snapshot.job(job, "ended").is_none()
                },
                "finished" => |snapshot, _, job| snapshot.job(job, "ended").is_some(),
                "outputs" => {
                    |snapshot, _, output| snapshot.hashes.contains_key(&format!("output:{output}"))
                }
                _ => panic!("nobody judges the key {key}"),
            };
            let entries: Vec<&String> = match (snapshot.sets.get(key), snapshot.hashes.get(key)) {
                (Some(members), _) => members.iter().collect(),
                (_, Some(fields)) => fields.keys().collect(),
                _ => continue,
            };
            let bad = entries.into_iter().filter(|entry| !judge(&snapshot, of, entry));
            stale.extend(bad.map(|entry| format!("{key} has {entry}")));
        }
        stale.extend(snapshot.stuck_at_gates());
        stale
    }

    fn read_snapshot(&self) -> (KeySnapshot, Vec<String>) {
        let mut connection = self.redis.connection();
        let prefix = self.key("");
        let keys: Vec<String> =
            redis::cmd("KEYS").arg(format!("{prefix}*")).query(&mut connection).unwrap();
        let mut snapshot = KeySnapshot { sets: BTreeMap::new(), hashes: BTreeMap::new() };
        let mut types = redis::pipe();
        for key in &keys {
            types.cmd("TYPE").arg(key);
        }
        let types: Vec<String> =
            if keys.is_empty() { Vec::new() } else { types.query(&mut connection).unwrap() };
        let mut rests = Vec::new();
        for (key, kind) in keys.iter().zip(types) {
            let rest = key.strip_prefix(&prefix).unwrap().to_owned();
            match kind.as_str() {
                "zset" => {
                    let members = redis::cmd("ZRANGE")
                        .arg(key)
                        .arg(0)
                        .arg(-1)
                        .query(&mut connection)
                        .unwrap();
                    snapshot.sets.insert(rest.clone(), members);
                }
                "hash" if !rest.starts_with("output:") => {
                    snapshot.hashes.insert(
                        rest.clone(),
                        redis::cmd("HGETALL").arg(key).query(&mut connection).unwrap(),
                    );
                }
                "hash" => drop(snapshot.hashes.insert(rest.clone(), BTreeMap::new())),
                _ => {}
            }
            rests.push(rest);
        }
        (snapshot, rests)
    }
}

impl KeySnapshot {
    fn run(&self, run: &str, field: &str) -> Option<&str> {
        self.hashes.get(&format!("run:{run}"))?.get(field).map(String::as_str)
    }

    fn job(&self, job: &str, field: &str) -> Option<&str> {
        self.hashes.get(&format!("job:{job}"))?.get(field).map(String::as_str)
    }

    fn state(&self, run: &str) -> Option<RunState> {
        self.run(run, "state").map(|state| state.parse().unwrap())
    }

    fn is_in(&self, run: &str, states: &[RunState]) -> bool {
        self.state(run).is_some_and(|state| states.contains(&state))
    }

    fn is_going_on(&self, run: &str) -> bool {
        self.is_in(run, &[RunState::Scheduled, RunState::Running])
    }

    /// Whether it has no record yet, and its job plans it.
    fn is_planned(&self, run: &str) -> bool {
        self.state(run).is_none() && self.job(job_of(run), "pending") == Some(run)
    }

    fn known_places(&self, run: &str) -> Vec<&str> {
        self.run(run, "places").unwrap_or_default().split(' ').collect()
    }

    /// Whether somebody may yet want to know if a run starts or ends in time: it is planned, held by a pause, or goes on; or it was
    /// skipped, the first behind a run that goes on.
    fn is_awaited(&self, _: &str, entry: &str) -> bool {
        let (run, kind) = entry.split_once(' ').unwrap();
        let job = job_of(run);
        let is_to_come = self.is_planned(run)
            || self.state(run).is_none() && self.job(job, "paused_run") == Some(run);
        let behind = self
            .job(job, "skipped_behind")
            .and_then(|words| words.split_once(' '))
            .filter(|(_, first)| *first == run);
        let open = self.sets.get(&format!("open:{job}"));
        let is_behind =
            behind.is_some_and(|(behind, _)| open.is_some_and(|open| open.contains(behind)));
        is_to_come || self.is_going_on(run) || kind == "start" && is_behind
    }

    /// The runs that keep others of their lane out of a gate and are over.
    fn stuck_at_gates(&self) -> Vec<String> {
        let gates = self.hashes.iter().filter(|(key, _)| key.starts_with("gate:"));
        let marks = gates.flat_map(|(key, fields)| {
            fields
                .iter()
                .filter(|(field, _)| field.starts_with("stuck:"))
                .map(move |(field, mark)| (key, field, mark))
        });
        let over = marks.filter(|(_, _, mark)| !self.is_going_on(mark.split(' ').next().unwrap()));
        over.map(|(key, field, mark)| format!("{key} has {field} for {mark}")).collect()
    }
}

fn job_of(run: &str) -> &str {
    assert!(run.parse::<RunId>().is_ok(), "{run} is no run");
    run.split('@').next().unwrap()
}
