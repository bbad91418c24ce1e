//! The attempts of a run. Earlier attempts have their own stored records, the last attempt is part
//! of the run's record.

use std::time::Duration;

use serde_json::{Value, json};

use super::console::{Colour, Console};
use super::resource_lines::resources_json;
use super::table::{Cell, Table};
use super::time_words::{in_words, rfc3339, shown};
use schedd_core::domain::run::resource_use::ResourceUse;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::Fence;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{PastAttempt, RunRecord};

/// Returns the time at which the first attempt of the run started, or `None` if no attempt started.
pub(super) fn first_start(run: &RunRecord) -> Option<UnixMillis> {
    let first = run
        .past
        .first()
        .filter(|past| past.number == 1)
        .and_then(|past| start_of(&record_of(past)));
    run.first_start.or(first).or(run.started_at)
}

/// Returns the time from the moment at which the run became ready to the start of its first
/// attempt. Returns `None` if no attempt started.
pub(crate) fn waited(run: &RunRecord) -> Option<Duration> {
    Some(first_start(run)?.since(run.ready_at.unwrap_or(run.run.due())))
}

/// Returns the reason why the last attempt of a run failed, such as its exit code, as text. Returns
/// `None` if the record has no reason.
pub(crate) fn facts_in_words(record: &RunRecord) -> Option<String> {
    in_words(record.error.as_deref(), record.signal, record.exit_code, record.http_status)
}

fn record_of(past: &PastAttempt) -> Value {
    serde_json::from_str(&past.record).unwrap_or(Value::Null)
}

fn start_of(record: &Value) -> Option<UnixMillis> {
    record["started_at_ms"].as_i64().and_then(UnixMillis::new)
}

fn end_of(record: &Value) -> Option<UnixMillis> {
    record["finished_at_ms"].as_i64().and_then(UnixMillis::new)
}

/// Returns the attempts of a run as JSON, oldest first, with times in `zone`.
pub(crate) fn attempts_json(run: &RunRecord, zone: &Zone) -> Value {
    let time = |at: Option<UnixMillis>| at.map(|at| rfc3339(at, zone));
    let past = run.past.iter().map(|past| {
        let record = record_of(past);
        let attempt = json!({
            "attempt": past.number,
            "state": record["state"],
            "fence": record["fence"],
            "node": record["node"],
            "started_at": time(start_of(&record)),
            "finished_at": time(end_of(&record)),
            "exit_code": record["exit_code"],
            "signal": record["signal"],
            "http_status": record["http_status"],
            "error": record["error"],
            "not_enforced": record["not_enforced"],
        });
        let used = record["use"].as_str().and_then(|used| used.parse().ok());
        with_resources(attempt, used.as_ref())
    });
    let ended = run.state != RunState::Running;
    let current = run.has_current().then(|| {
        let attempt = json!({
            "attempt": run.attempt,
            "state": run.state.as_str(),
            "fence": run.fence.map(Fence::as_u64),
            "node": run.node,
            "started_at": time(run.started_at),
            "finished_at": time(run.attempt_ended_at()),
            "exit_code": run.exit_code.filter(|_| ended),
            "signal": run.signal.filter(|_| ended),
            "http_status": run.http_status.filter(|_| ended),
            "error": run.error.clone().filter(|_| ended),
            "not_enforced": run.not_enforced.clone().filter(|_| ended),
        });
        with_resources(attempt, run.resources.as_ref().filter(|_| ended))
    });
    Value::Array(past.chain(current).collect())
}

/// Adds the resources of an attempt to its JSON.
fn with_resources(mut attempt: Value, used: Option<&ResourceUse>) -> Value {
    for (field, number) in resources_json(used) {
        attempt[field] = number;
    }
    attempt
}

/// Prints the attempts of a run as the rows of a table, with times in the zone `local`.
pub(crate) fn attempts_table(run: &RunRecord, local: &Zone, console: &mut Console) {
    let state_cell = |word: &str| {
        Cell::new(word).coloured(word.parse::<RunState>().map_or(Colour::Plain, Colour::from))
    };
    let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
    let mut rows: Vec<[Cell; 5]> = Vec::new();
    for past in &run.past {
        let record = record_of(past);
        let status = record["http_status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let why = in_words(
            record["error"].as_str(),
            number(&record["signal"]),
            number(&record["exit_code"]),
            status,
        );
        let limits = record["not_enforced"]
            .as_str()
            .map(|limits| format!("(the node did not enforce these limits: {limits})"));
        let why = why.into_iter().chain(limits).reduce(|why, limits| format!("{why} {limits}"));
        rows.push([
            Cell::new(past.number.to_string()),
            Cell::maybe(start_of(&record).map(|at| shown(at, local))),
            state_cell(record["state"].as_str().unwrap_or("")),
            Cell::maybe(record["node"].as_str()),
            Cell::maybe(why),
        ]);
    }
    if run.has_current() {
        let why = match run.state {
            RunState::Running => None,
            RunState::Succeeded => run.reason.clone(),
            _ => facts_in_words(run).or_else(|| run.reason.clone()),
        };
        rows.push([
            Cell::new(run.attempt.to_string()),
            Cell::maybe(run.started_at.map(|at| shown(at, local))),
            state_cell(run.state.as_str()),
            Cell::maybe(run.node.as_deref()),
            Cell::maybe(why),
        ]);
    }
    Table::new(["ATTEMPT", "STARTED", "STATE", "NODE", "REASON"]).page(&rows, console);
}
