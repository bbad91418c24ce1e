//! `purge`: deletes dead letters for good. The dead letters are named, or selected by filters.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::collections::BTreeMap;

use serde_json::json;

use super::dead_letters::{Chosen, demand_dead};
use crate::cli::confirmation::ask;
use crate::cli::connect::{answering_places, connect};
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::render::Console;
use crate::cli::runs::run_filter::{RunFilter, RunReader};
use crate::cli::shell::completion;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_schedule::time::duration::parse_duration;
use schedd_store::{Letters, Store};

const EXAMPLES: &str = "\
Examples:
  schedctl purge backup@last
  schedctl purge --dead --job backup --keep 10
  schedctl purge --dead --older-than 7d --dry-run

--job and --state select dead letters. --keep N keeps the newest N of the selected dead letters, and
--older-than keeps those that ended more recently; all other selected dead letters are deleted.
--dead alone deletes every dead letter. On a terminal, schedctl first asks for the name of the
namespace; without a terminal, --yes is required.";

/// Deletes dead letters for good: runs that failed, timed out or were lost.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PurgeArgs {
    #[command(flatten)]
    chosen: Chosen,
    /// Only runs in these states, separated by commas
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        add = completion::words(&["failed", "lost", "timed_out"]),
        requires = "dead",
        conflicts_with = "runs"
    )]
    state: Vec<RunState>,
    /// Only runs that ended longer ago than this duration
    #[arg(long, value_name = "DURATION", requires = "dead", conflicts_with = "runs")]
    older_than: Option<String>,
    /// Keep the newest N of the selected runs
    #[arg(long, value_name = "N", default_value_t = 0, requires = "dead", conflicts_with = "runs")]
    keep: usize,
    /// Only print how many runs would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Delete every dead letter without asking
    #[arg(long, requires = "dead", conflicts_with = "runs")]
    yes: bool,
}

impl PurgeArgs {
    /// Returns true if the command selects every dead letter and `--yes` is missing.
    fn is_unsure(&self) -> bool {
        let is_narrowed = self.chosen.job.is_some()
            || !self.state.is_empty()
            || self.older_than.is_some()
            || self.keep > 0;
        self.chosen.dead && !is_narrowed && !self.yes && !self.dry_run
    }
}

/// Deletes the named or selected dead letters. Returns the exit code.
pub(crate) async fn purge(
    global: &Global,
    args: &PurgeArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let named = args.chosen.named()?;
    let which = RunFilter { state: args.state.clone(), ..RunFilter::default() };
    which.check(Letters::Dead)?;
    let age = args.older_than.as_deref().map(parse_duration).transpose();
    let age = age.map_err(|error| CliFailure::Invalid(format!("--older-than: {error}")))?;
    let store = connect(global, console).await?;
    if args.is_unsure() && !console.can_ask() {
        let message = "--dead without a filter deletes every dead letter of namespace";
        return Err(CliFailure::Invalid(format!(
            "{message} {}, wanted --yes, or a filter such as --older-than 7d",
            store.namespace()
        )));
    }
    let (mut worst, mut runs) = (0, Vec::new());
    if args.chosen.dead {
        let ended = which.ended(&store, Letters::Dead, args.chosen.job.as_deref()).await?;
        let places = answering_places(&store, console).await?;
        let records = RunReader::new(&places, ended, &which, args.keep, usize::MAX).all().await?;
        let now = store.now().await?;
        let is_old = |at| age.is_none_or(|age| at < now.saturating_sub(age));
        runs.extend(
            records
                .into_iter()
                .filter(|(_, run)| run.finished_at.is_none_or(is_old))
                .map(|(place, run)| (places.stores()[place].clone(), run.run)),
        );
    } else {
        // All names are read before the first run is deleted, because @-2 depends on the others.
        for name in named {
            let found = async {
                let (place, run) = name.find(&store).await?;
                demand_dead(&place, &run, "only dead letters are purged").await?;
                Ok::<(Store, RunId), CliFailure>((place, run))
            };
            match found.await {
                Ok(run) => runs.push(run),
                Err(failure) => worst = console.failure(&failure).max(worst),
            }
        }
    }
    let found = u64::try_from(runs.len()).unwrap_or(u64::MAX);
    if args.is_unsure() && !runs.is_empty() {
        ask(store.namespace(), &letters(found), "deleted")?;
    }
    let purged = if args.dry_run { 0 } else { purge_all(runs).await? };
    report((found, purged), args, console);
    Ok(worst)
}

/// Deletes dead letters at their places. Returns how many were deleted.
async fn purge_all(runs: Vec<(Store, RunId)>) -> Result<u64, CliFailure> {
    let mut by_place: BTreeMap<Option<u32>, (Store, Vec<RunId>)> = BTreeMap::new();
    for (place, run) in runs {
        let of_place = by_place.entry(place.shard_number()).or_insert((place, Vec::new()));
        of_place.1.push(run);
    }
    let mut purged = 0;
    for (place, runs) in by_place.into_values() {
        purged += place.purge_dead(&runs).await?;
    }
    Ok(purged)
}

fn letters(count: u64) -> String {
    if count == 1 { "1 dead letter".to_owned() } else { format!("{count} dead letters") }
}

fn report((found, purged): (u64, u64), args: &PurgeArgs, console: &mut Console) {
    if console.is_json() {
        console.json(&json!({"found": found, "purged": purged, "dry_run": args.dry_run}));
    } else if !console.is_quiet() {
        console.line(&if args.dry_run {
            format!("{} would be deleted", letters(found))
        } else {
            format!("{} deleted", letters(purged))
        });
    }
}
