//! The checks of Redis at the end: no live run is left, and each key belongs to something that
//! history or a list names.

use std::collections::BTreeSet;

use redis::Connection;

use crate::evidence::Micros;

/// A shard of the namespace, or the namespace itself.
type Place = Option<u32>;

/// Returns the keys that only live runs have, each with its content.
pub(crate) fn live(connection: &mut Connection, place: Place) -> Vec<String> {
    let live = [
        "leases",
        "stop_requests",
        "due:",
        "open:",
        "waiting:",
        "gate_holders:",
        "gate_waiters:",
        "running:",
        "catch_up:",
        "chain:",
        "chain_ends",
    ];
    let of_these = all(connection, place)
        .into_iter()
        .filter(|key| live.iter().any(|kind| key.starts_with(kind)));
    of_these
        .map(|key| {
            let held: Vec<String> = redis::cmd("ZRANGE")
                .arg(whole(place, &key))
                .arg(0)
                .arg(5)
                .query(connection)
                .unwrap_or_default();
            format!("{key} {}", held.join(" "))
        })
        .collect()
}

/// Returns the keys that belong to nothing: a run or an output that no index names, or a job in no
/// list.
pub(crate) fn stray(connection: &mut Connection, place: Place) -> Vec<String> {
    let members = |connection: &mut Connection, key: &str| -> BTreeSet<String> {
        let members: Vec<String> =
            redis::cmd("ZRANGE").arg(whole(place, key)).arg(0).arg(-1).query(connection).unwrap();
        members.into_iter().collect()
    };
    let runs = members(connection, "history");
    let outputs = members(connection, "outputs");
    let jobs: BTreeSet<String> =
        members(connection, "jobs").union(&members(connection, "finished")).cloned().collect();
    let is_stray = |key: &String| match key.split_once(':') {
        Some(("run", run)) => !runs.contains(run),
        Some(("output", output)) => !outputs.contains(output),
        Some(("job", job)) => !jobs.contains(job),
        _ => false,
    };
    all(connection, place).into_iter().filter(is_stray).collect()
}

/// Returns the number of ends of parents that no child has been given yet.
pub(crate) fn chain_ends(connection: &mut Connection) -> usize {
    redis::cmd("ZCARD").arg(whole(None, "chain_ends")).query(connection).unwrap()
}

/// Returns true if a run of this job is planned.
pub(crate) fn is_planned(connection: &mut Connection, job: &str) -> bool {
    let pending: Option<String> = redis::cmd("HGET")
        .arg(whole(None, &format!("job:{job}")))
        .arg("pending")
        .query(connection)
        .unwrap();
    pending.is_some_and(|run| !run.is_empty())
}

/// Returns the names of all live jobs.
pub(crate) fn jobs(connection: &mut Connection) -> Vec<String> {
    redis::cmd("ZRANGE").arg(whole(None, "jobs")).arg(0).arg(-1).query(connection).unwrap()
}

/// Returns the time from which a run waited for its turn or at a gate, and the time a gate let it
/// in, by its record.
pub(crate) fn waits_of(
    connection: &mut Connection,
    place: Place,
    run: &str,
) -> [Option<Micros>; 2] {
    let mut command = redis::cmd("HMGET");
    let [from, waits]: [Option<String>; 2] = command
        .arg(whole(place, &format!("run:{run}")))
        .arg(&["waited_from", "waits"])
        .query(connection)
        .unwrap();
    // Each wait is `FROM-UNTIL=CAUSE`, the last one last.
    let let_in = waits.as_deref().and_then(|waits| {
        let at_gate = waits.split(' ').rfind(|wait| !wait.ends_with("=overlap"))?;
        Some(at_gate.split_once('=')?.0.split_once('-')?.1.to_owned())
    });
    [from, let_in].map(|ms| ms?.parse::<Micros>().ok()?.checked_mul(1000))
}

/// Returns true if a place has the record of a run.
pub(crate) fn has_run(connection: &mut Connection, place: Place, run: &str) -> bool {
    redis::cmd("EXISTS").arg(whole(place, &format!("run:{run}"))).query(connection).unwrap()
}

/// Returns true if a node serves a place.
pub(crate) fn is_served(connection: &mut Connection, place: Place, node: &str) -> bool {
    redis::cmd("EXISTS").arg(whole(place, &format!("node:{node}"))).query(connection).unwrap()
}

/// Returns all keys of a place without its prefix, in order.
fn all(connection: &mut Connection, place: Place) -> BTreeSet<String> {
    let prefix = whole(place, "");
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{prefix}*")).query(connection).unwrap();
    keys.into_iter().filter_map(|key| Some(key.strip_prefix(&prefix)?.to_owned())).collect()
}

fn whole(place: Place, key: &str) -> String {
    format!("{{{}}}:{key}", namespace(place))
}

/// Returns the namespace of a place.
pub(crate) fn namespace(place: Place) -> String {
    place.map_or("schedd".to_owned(), |shard| format!("schedd.{shard}"))
}
