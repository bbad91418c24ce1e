//! The end of a trial: recurring jobs are stopped, owed runs are awaited, and everything is read
//! once.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::evidence::{Micros, Recorded, RunName, now};
use crate::proof::soak;
use crate::proof::soak::Usage;
use crate::stage::{Interrupted, Stage, schedctl};
use crate::world::chain::without_schedule;
use crate::world::jobs::{Job, head};
use crate::world::keys;
use crate::world::plan::toml_of;

/// The longest time that owed runs may take once nothing is wrong any more.
pub(crate) const OWED: Duration = Duration::from_secs(60);
/// The longest time in which all occurrences go through a chain once nothing is wrong any more.
const CHAINED: Duration = Duration::from_secs(240);
/// The growth of open files of a daemon or keeper that is no leak: connections are being replaced.
const FILES: u64 = 30;
/// The resident memory of a daemon (a debug build) and its keeper, in KiB, beyond which something
/// leaks.
const RESIDENT: u64 = 160 * 1024;

/// Takes the schedule from the first job of a chain, removes the other jobs of the file, and waits
/// until all occurrences have gone through the chain. Returns when that began and when the nodes
/// knew it. Does nothing without a chain.
pub(crate) fn stop_chain(
    stage: &Stage,
    chain: &[Job],
    lease: Micros,
) -> Result<Option<(Micros, Micros)>, Interrupted> {
    let Some(first) = chain.first() else { return Ok(None) };
    let begun = now();
    stage.write_jobs(&toml_of(&without_schedule(chain), stage.dir(), lease));
    let mut connection = stage.redis().connection();
    let is_of_chain = |name: &String| chain.iter().any(|job| job.name == *name);
    stage.wait(Duration::from_secs(30), || {
        !keys::is_planned(&mut connection, &first.name)
            && of_file(stage).is_some_and(|names| names.iter().all(is_of_chain))
    })?;
    let known = now();
    // A run waits in none of the places of live runs between the end of its parent and its planting.
    stage.wait(CHAINED, || {
        keys::chain_ends(&mut connection) == 0
            && keys::live(&mut connection, None).is_empty()
            && keys::chain_ends(&mut connection) == 0
    })?;
    Ok(Some((begun, known)))
}

/// Returns the names of the live jobs of the file, or `None` if Redis gives no answer.
fn of_file(stage: &Stage) -> Option<Vec<String>> {
    let listed = schedctl(stage, &["list", "--source", "file", "--json"]).output().unwrap();
    let jobs: Value = serde_json::from_slice(&listed.stdout).ok()?;
    jobs.as_array()?.iter().map(|job| Some(job["name"].as_str()?.to_owned())).collect()
}

/// Removes all jobs of the file. Returns when that began and when it was done.
pub(crate) fn stop_recurring(
    stage: &Stage,
    lease: Micros,
) -> Result<(Micros, Micros), Interrupted> {
    let begun = now();
    stage.write_jobs(&head(stage.dir(), lease));
    let mut connection = stage.redis().connection();
    let are_gone = || {
        of_file(stage).is_some_and(|names| names.is_empty())
            && !keys::jobs(&mut connection).iter().any(|job| job.contains('/'))
    };
    stage.wait(Duration::from_secs(30), are_gone)?;
    Ok((begun, now()))
}

/// Waits until no run is due, leased, open or waiting. Returns what is left after `limit`.
pub(crate) fn await_owed(stage: &Stage, limit: Duration) -> Result<Vec<String>, Interrupted> {
    let mut connection = stage.redis().connection();
    stage.wait(limit, || {
        stage.places().all(|place| keys::live(&mut connection, place).is_empty())
    })?;
    let mut left = Vec::new();
    for place in stage.places() {
        let namespace = keys::namespace(place);
        left.extend(
            keys::live(&mut connection, place)
                .into_iter()
                .map(|key| format!("when all was over Redis still held {key} of {namespace}")),
        );
        left.extend(
            keys::stray(&mut connection, place)
                .into_iter()
                .map(|key| format!("nothing names the key {key} of {namespace} any more")),
        );
    }
    Ok(left)
}

/// Returns the inconsistent data that `schedctl doctor` finds in any place.
pub(crate) fn findings_of_doctor(stage: &Stage) -> Vec<String> {
    let mut found = Vec::new();
    for namespace in stage.places().map(keys::namespace) {
        let words = ["--namespace", &namespace, "doctor", "--json"];
        let output = schedctl(stage, &words).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        match report["findings"].as_array() {
            Some(all) => {
                found.extend(all.iter().map(|one| format!("doctor of {namespace}: {one}")))
            }
            None => found.push(format!("doctor of {namespace} told nothing")),
        }
    }
    found
}

/// Returns the runs of all places, as `schedctl history` shows them now. Also writes those of each
/// place to a file.
pub(crate) fn read_history(stage: &Stage) -> Result<Vec<Recorded>, String> {
    let of_places = stage.places().map(|place| read_place(stage, place));
    Ok(of_places.collect::<Result<Vec<_>, String>>()?.concat())
}

fn read_place(stage: &Stage, place: Option<u32>) -> Result<Vec<Recorded>, String> {
    let namespace = keys::namespace(place);
    let words = ["--namespace", &namespace, "history", "--json", "--limit", "0"];
    let output = schedctl(stage, &words).output().unwrap();
    fs::write(stage.dir().join(format!("history.{namespace}.json")), &output.stdout).unwrap();
    let runs: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("history is no JSON: {error}"))?;
    let read = |run: &Value| {
        recorded(run, place).ok_or_else(|| format!("a run of history cannot be read: {run}"))
    };
    runs.as_array().ok_or("history is no array")?.iter().map(read).collect()
}

/// Leaves each run of `history` only at the places that have its record, because a namespace may show
/// the runs of its shards. Adds the time from which each run waited.
pub(crate) fn read_records(stage: &Stage, history: &mut Vec<Recorded>) {
    let mut connection = stage.redis().connection();
    history.retain(|recorded| keys::has_run(&mut connection, recorded.shard, &recorded.run.id));
    for recorded in history {
        [recorded.waited_from, recorded.let_in] =
            keys::waits_of(&mut connection, recorded.shard, &recorded.run.id);
    }
}

fn recorded(run: &Value, shard: Option<u32>) -> Option<Recorded> {
    let text = |field: &str| run[field].as_str();
    let count = |field: &str| run[field].as_u64();
    let instant =
        |text: &str| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond);
    let last = match text("skipped_to") {
        Some(text) => Some(instant(text)?),
        None => None,
    };
    Some(Recorded {
        run: RunName::parse(text("run_id")?)?,
        state: text("state")?.to_owned(),
        attempt: u32::try_from(count("attempt")?).ok()?,
        fence: count("fence"),
        node: text("node").map(str::to_owned),
        started: text("started_at").and_then(instant),
        finished: text("finished_at").and_then(instant),
        waited_from: None,
        let_in: None,
        reason: text("reason").unwrap_or_default().to_owned(),
        skipped_range: last.zip(count("skipped_count")),
        shard,
    })
}

/// Returns what has grown beyond its bound since `before`, and the processes of jobs that are left.
pub(crate) fn leftovers(
    stage: &Stage,
    before: &[(String, Usage)],
) -> Result<Vec<String>, Interrupted> {
    let mut found = Vec::new();
    for (node, Usage { kib, files, .. }) in soak::usage(stage) {
        let were =
            before.iter().find(|(name, _)| *name == node).map_or(0, |(_, usage)| usage.files);
        if files > were + FILES {
            found.push(format!("{node} has {files} open files, {were} when it had just started"));
        }
        if kib > RESIDENT {
            found.push(format!("{node} and its keeper hold {kib} KiB"));
        }
    }
    let of_jobs = || {
        let mut all = stage.marked_processes();
        all.retain(|(_, line)| line.contains("job.bash"));
        all
    };
    stage.wait(Duration::from_secs(3), || of_jobs().is_empty())?;
    found.extend(
        of_jobs()
            .into_iter()
            .map(|(pid, line)| format!("process {pid} of a job that is over: {line}")),
    );
    Ok(found)
}

/// Stops all workers with SIGTERM, when they have nothing to do. Returns those that did not end well.
pub(crate) fn stop_workers(stage: &Stage) -> Result<Vec<String>, Interrupted> {
    for worker in stage.workers() {
        worker.hold();
        worker.signal_if_alive(Signal::TERM);
    }
    let mut crashes = Vec::new();
    for worker in stage.workers() {
        stage.wait(Duration::from_secs(20), || worker.has_ended().is_some())?;
        if !worker.has_ended().is_some_and(|status| status.success()) {
            crashes.push(format!("{} did not end well when asked to stop", worker.name));
        }
    }
    Ok(crashes)
}

/// Stops all nodes with SIGTERM. Returns the nodes that did not end well, and the processes that
/// outlive them.
pub(crate) fn stop_nodes(stage: &Stage) -> Result<(Vec<String>, Vec<String>), Interrupted> {
    let mut crashes = Vec::new();
    stage.end();
    for node in stage.nodes() {
        node.hold();
        node.daemon().signal_if_alive(Signal::TERM);
    }
    for node in stage.nodes() {
        stage.wait(Duration::from_secs(20), || node.daemon().has_ended().is_some())?;
        match node.daemon().has_ended() {
            Some(status) if status.success() => {}
            Some(status) => {
                crashes.push(format!("{} ended with {status} when asked to stop", node.name))
            }
            None => crashes.push(format!(
                "{} did not end within 20 s of SIGTERM, with nothing to do",
                node.name
            )),
        }
    }
    stage.wait(Duration::from_secs(3), || stage.marked_processes().is_empty())?;
    let left = stage.marked_processes();
    Ok((
        crashes,
        left.into_iter()
            .map(|(pid, line)| format!("process {pid} outlived all nodes: {line}"))
            .collect(),
    ))
}
