//! `data-loss`: lists the data losses of Redis that the nodes noticed, with the numbers of restored
//! runs and of lost jobs.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cli::connect::{answering_places, connect};
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::render::{Cell, Colour, Console, Table, shown};
use schedd_schedule::names::JobName;
use schedd_schedule::time::zone::Zone;
use schedd_store::{LossKind, LossRecord, Store, StoreError};

pub(crate) const DATA_LOSS_HELP: &str = "\
Example:
  schedctl data-loss

WHAT: flushed (all keys were deleted), older data (Redis came back with an older state), or epoch
missing (the key epoch was deleted). RESTORED: number of ended runs restored from the journals of
nodes. LOST: number of at-most-once runs whose end is not known. JOBS GONE: number of lost jobs that
were added with schedctl add, so no file restores these jobs. \"at least\": nodes know the jobs as of
the last half minute, so jobs that were added later may be lost too.";

/// A data loss, with the number of its shard; `None` for the namespace itself.
pub(crate) type PlacedLoss = (Option<u32>, LossRecord);

/// Lists the data losses of Redis, newest first. Returns the exit code.
pub(crate) async fn data_loss(global: &Global, console: &mut Console) -> Result<u8, CliFailure> {
    let store = connect(global, console).await?;
    let losses = read_losses(&answering_places(&store, console).await?).await?;
    if console.is_json() {
        console.json(&Value::Array(losses.iter().map(loss_json).collect()));
        return Ok(0);
    }
    let local = local_zone();
    let rows: Vec<[Cell; 6]> = losses.iter().map(|loss| row(loss, &local)).collect();
    Table::new(["NOTICED", "BY", "WHAT", "RESTORED", "LOST", "JOBS GONE"]).page(&rows, console);
    if rows.is_empty() && console.is_terminal() {
        console.note("no data losses: no node ever found data missing in Redis");
    }
    // The jobs lost in the last data loss are named, because the user may have to add them again. A
    // server that loses its data loses those of several shards.
    let mut seen = BTreeSet::new();
    let last = losses.iter().filter(|(shard, _)| seen.insert(*shard));
    for (job, schedule) in last.flat_map(|(_, loss)| loss.jobs_gone()) {
        console.note(&format!(
            "job {job} ({schedule}) was lost in the last data loss; add the job again if you need it"
        ));
    }
    Ok(0)
}

/// Reads the data losses of these places, newest first.
pub(crate) async fn read_losses(places: &MergedPlaces) -> Result<Vec<PlacedLoss>, CliFailure> {
    let read = |store: Store| async move {
        let losses = store.read_losses().await?.into_iter();
        Ok::<_, StoreError>(losses.map(|loss| (store.shard_number(), loss)).collect::<Vec<_>>())
    };
    let mut losses: Vec<PlacedLoss> = places.each(read).await?.into_iter().flatten().collect();
    losses.sort_by_key(|(_, record)| Reverse(record.at));
    Ok(losses)
}

pub(crate) fn word(kind: LossKind) -> &'static str {
    match kind {
        LossKind::Flushed => "flushed",
        LossKind::Older => "older data",
        LossKind::Unmarked => "epoch missing",
    }
}

pub(crate) fn sum(record: &LossRecord, count: impl Fn(&schedd_store::LossReport) -> u64) -> u64 {
    record.reports.iter().map(count).sum()
}

/// Returns the number of jobs lost in a data loss: the highest number that a node reported. All
/// nodes report the same jobs, so their numbers are not added up. The list of names may be shorter
/// than this number, because the list is bounded.
pub(crate) fn gone(record: &LossRecord) -> u64 {
    let most = record.reports.iter().map(|report| report.jobs_gone).max().unwrap_or(0);
    most.max(record.jobs_gone().len() as u64)
}

/// Returns the number of jobs lost in a data loss, as text: `at least 2` if more jobs may be lost.
pub(crate) fn gone_words(record: &LossRecord) -> String {
    let count = gone(record);
    if is_gone_exact(record) { count.to_string() } else { format!("at least {count}") }
}

/// Returns true if [`gone`] counts all lost jobs. If data was lost, the nodes do not know the jobs
/// that were added shortly before.
fn is_gone_exact(record: &LossRecord) -> bool {
    record.loss.kind == LossKind::Unmarked
}

fn row((shard, record): &PlacedLoss, local: &Zone) -> [Cell; 6] {
    let gone = gone(record);
    let what = word(record.loss.kind);
    [
        Cell::maybe(record.at.map(|at| shown(at, local))),
        Cell::new(&record.loss.by),
        Cell::new(shard.map_or_else(|| what.to_owned(), |shard| format!("{what}, shard {shard}"))),
        Cell::new(sum(record, |report| report.restored).to_string()),
        Cell::new(sum(record, |report| report.lost).to_string()),
        Cell::new(gone_words(record)).coloured(if gone > 0 { Colour::Red } else { Colour::Plain }),
    ]
}

fn loss_json((shard, record): &PlacedLoss) -> Value {
    let loss = &record.loss;
    let whole_at = schedd_schedule::time::unix_millis::UnixMillis::new(loss.whole_at_ms);
    let kept_to = schedd_schedule::time::unix_millis::UnixMillis::new(loss.kept_to_ms)
        .filter(|at| at.as_i64() > 0);
    let job =
        |(name, schedule): (JobName, String)| json!({"job": name.as_str(), "schedule": schedule});
    json!({
        "noticed_at": record.at.map(|at| at.to_string()),
        "noticed_by": loss.by,
        "shard": shard,
        "what": word(loss.kind).replace(' ', "_"),
        "last_complete_at": whole_at.map(|at| at.to_string()),
        "data_until": kept_to.map(|at| at.to_string()),
        "restored": sum(record, |report| report.restored),
        "lost": sum(record, |report| report.lost),
        "jobs_gone": gone(record),
        "jobs_gone_exact": is_gone_exact(record),
        "gone": record.jobs_gone().into_iter().map(job).collect::<Vec<_>>(),
        "reported_by": record.reports.iter().map(|report| report.node.as_str()).collect::<Vec<_>>(),
    })
}
