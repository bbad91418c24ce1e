//! `stats`: prints counts of jobs, runs, nodes and stored data. Counts that are 0 are printed too.

use serde_json::{Map, Value, json};

use crate::cli::connect::{answering_places, connect};
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Console, shown};
use schedd_schedule::time::unix_millis::UnixMillis;

pub(crate) const STATS_HELP: &str = "\
Example:
  schedctl stats --json";

/// Prints the counts of the namespace. Returns the exit code.
pub(crate) async fn stats(global: &Global, console: &mut Console) -> Result<u8, CliFailure> {
    let store = connect(global, console).await?;
    let places = answering_places(&store, console).await?;
    let stats = places.read_stats().await?;
    let notices = places.each(|store| async move { store.list_failed_notices().await }).await?;
    let failed_notices = notices.iter().flatten().map(|notice| notice.count).sum();
    let total = |word: &str| stats.totals.get(word).copied().unwrap_or(0);
    let numbers = [
        ("jobs", stats.jobs, "jobs defined"),
        ("scheduled", stats.scheduled, "runs planned or waiting now"),
        ("waiting", stats.waiting, "runs waiting for another run of their job or at a gate"),
        ("running", stats.running, "running runs"),
        ("succeeded", total("succeeded"), "runs that succeeded, including runs of notices"),
        ("failed", total("failed"), "runs that failed for good"),
        ("timed_out", total("timed_out"), "runs that timed out"),
        ("cancelled", total("cancelled"), "runs that were cancelled"),
        ("skipped", total("skipped"), "runs that were skipped"),
        ("lost", total("lost"), "runs that were lost"),
        ("recovered", total("recovered"), "times a run was taken over from a dead node"),
        ("retried", total("retried"), "dead letters retried with schedctl retry"),
        ("missed_deadlines", total("late"), "runs that did not start or end by their deadline"),
        ("notices", stats.notices, "notices waiting to be sent"),
        (
            "suppressed",
            total("suppressed"),
            "notices counted instead of sent, because too many waited",
        ),
        ("failed_notices", failed_notices, "notices among the dead letters"),
        ("history", stats.history, "ended runs stored"),
        ("dead", stats.dead, "dead letters stored (schedctl history --dead)"),
        ("output_bytes", stats.output_bytes, "bytes of output stored"),
        (
            "ledger_ranges",
            stats.ledger_ranges,
            "ranges in the ledgers, which record how trimmed runs ended",
        ),
        ("finished", stats.finished, "ended jobs whose record is still stored"),
        ("trimmed_runs", total("trimmed_runs"), "ended runs trimmed so far"),
        ("trimmed_outputs", total("trimmed_outputs"), "outputs of attempts trimmed so far"),
        ("trimmed_ranges", total("trimmed_ranges"), "ledger ranges trimmed so far"),
        (
            "not_recorded",
            total("unledgered"),
            "occurrences not recorded because a ledger is damaged",
        ),
        ("quarantined", stats.quarantined, "entries in quarantine"),
        (
            "quarantine_dropped",
            total("quarantine_dropped"),
            "entries that did not fit into quarantine and were only logged",
        ),
        ("nodes", stats.nodes, "known nodes, including nodes that are gone"),
        ("findings", stats.findings, "findings of the background check (schedctl doctor)"),
    ];
    let memory = [
        ("redis_memory_bytes", stats.redis_memory, "bytes used by the whole Redis"),
        (
            "redis_maxmemory_bytes",
            stats.redis_maxmemory,
            "bytes that Redis may use (- means no limit)",
        ),
    ];
    let numbers: [(&str, Option<u64>, &str); 29] =
        numbers.map(|(word, count, meaning)| (word, Some(count), meaning));
    let rows = numbers.into_iter().chain(memory);
    let instants = [("checked_at", stats.checked_at), ("check_round_at", stats.check_round_at)];
    if console.is_json() {
        let mut fields: Map<String, Value> =
            rows.map(|(word, count, _)| (word.to_owned(), count.into())).collect();
        let utc = |at: Option<UnixMillis>| json!(at.map(|at| at.to_string()));
        fields.extend(instants.map(|(word, at)| (word.to_owned(), utc(at))));
        console.json(&Value::Object(fields));
    } else {
        for (word, count, meaning) in rows {
            let count = count.map_or_else(|| "-".to_owned(), |count| count.to_string());
            console.line(format!("{word:<21} {count:>12}  {meaning}").trim_end());
        }
        let local = local_zone();
        for (word, at) in instants {
            let at = at.map_or_else(|| "-".to_owned(), |at| shown(at, &local));
            console.line(&format!("{word:<18} {at}"));
        }
    }
    Ok(0)
}
