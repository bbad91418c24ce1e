//! `stats`: prints counts of jobs, runs, nodes and stored data. Every count is always printed.

use serde_json::{Map, Value, json};

use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::render::Console;

pub(crate) const STATS_HELP: &str = "\
Example:
  schedctl stats --json";

/// Prints the counts. Returns the exit code.
pub(crate) async fn stats(global: &Global, console: &mut Console) -> Result<u8, CliFailure> {
    let store = connect(global, console).await?;
    let stats = store.read_stats().await?;
    let failed_notices = store.list_failed_notices().await?.iter().map(|notice| notice.count).sum();
    let total = |word: &str| stats.totals.get(word).copied().unwrap_or(0);
    let numbers = [
        ("jobs", stats.jobs, "jobs defined"),
        ("scheduled", stats.scheduled, "runs planned or waiting now"),
        ("waiting", stats.waiting, "runs waiting for another run of their job or at a gate"),
        ("running", stats.running, "runs executing now"),
        ("succeeded", total("succeeded"), "runs in all, including notices"),
        ("failed", total("failed"), ""),
        ("timed_out", total("timed_out"), ""),
        ("cancelled", total("cancelled"), ""),
        ("skipped", total("skipped"), ""),
        ("lost", total("lost"), ""),
        ("recovered", total("recovered"), "times a run was taken back from a dead node"),
        ("retried", total("retried"), "times a dead letter was retried by schedctl retry"),
        ("late", total("late"), "times a run had not started or ended in time"),
        ("notices", stats.notices, "notices waiting to be sent"),
        ("suppressed", total("suppressed"), "notices only counted, because too many waited"),
        ("failed_notices", failed_notices, "dead letters kept that are notices"),
        ("history", stats.history, "runs kept"),
        ("dead", stats.dead, "dead letters kept (schedctl history --dead)"),
        ("output_bytes", stats.output_bytes, "bytes of output kept"),
        ("ledger_ranges", stats.ledger_ranges, "ledger ranges that record how trimmed runs ended"),
        ("finished", stats.finished, "jobs that ended, still kept"),
        ("trimmed_runs", total("trimmed_runs"), "runs trimmed in all; ledgers record how they ended"),
        ("trimmed_outputs", total("trimmed_outputs"), "outputs trimmed in all"),
        ("trimmed_ranges", total("trimmed_ranges"), "ledger ranges trimmed in all, only counted"),
        ("unledgered", total("unledgered"), "occurrences not recorded because a ledger has the wrong type"),
        ("quarantined", stats.quarantined, "entries in quarantine"),
        ("quarantine_dropped", total("quarantine_dropped"), "entries that did not fit, only in a log"),
        ("nodes", stats.nodes, "nodes seen"),
        ("findings", stats.findings, "findings of the background check (schedctl doctor)"),
    ];
    let memory = [
        ("redis_memory_bytes", stats.redis_memory, "bytes used by the whole Redis"),
        ("redis_maxmemory_bytes", stats.redis_maxmemory, "bytes Redis may use (- = no limit)"),
    ];
    let numbers: [(&str, Option<u64>, &str); 29] = numbers.map(|(word, count, meaning)| (word, Some(count), meaning));
    let rows = numbers.into_iter().chain(memory);
    let instants = [("audited_at", stats.audited_at), ("audit_round_at", stats.audit_round_at)];
    let instants = instants.map(|(word, at)| (word, at.map(|at| at.to_string())));
    if console.is_json() {
        let mut fields: Map<String, Value> = rows.map(|(word, count, _)| (word.to_owned(), count.into())).collect();
        fields.extend(instants.map(|(word, at)| (word.to_owned(), json!(at))));
        console.json(&Value::Object(fields));
    } else {
        for (word, count, meaning) in rows {
            let count = count.map_or_else(|| "-".to_owned(), |count| count.to_string());
            console.line(format!("{word:<21} {count:>12}  {meaning}").trim_end());
        }
        for (word, at) in instants {
            console.line(&format!("{word:<18} {}", at.as_deref().unwrap_or("-")));
        }
    }
    Ok(0)
}
