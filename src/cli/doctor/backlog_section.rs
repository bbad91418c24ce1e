//! The check of `doctor` for queues with a backlog.

use crate::cli::failure::CliFailure;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::queue::standings;
use schedd_store::{CheckLevel, ServerCheck, Store};

/// Returns a warning for each queue that has a backlog by its `warn_depth` or `warn_oldest`.
/// Returns no lines if a key has the wrong type, because the consistency check reports the key.
pub(super) async fn backlogs(store: &Store) -> Result<Vec<ServerCheck>, CliFailure> {
    let standings = match standings(&MergedPlaces::only(store)).await {
        Ok((_, standings)) => standings,
        Err(CliFailure::Failed(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let warning = |name: &str, backlog: &str| {
        let text = format!("queue {name} has a backlog: {backlog}; schedctl queues shows its load");
        ServerCheck::new("backlog", CheckLevel::Warn, text)
    };
    let with_backlog = standings.iter().filter_map(|queue| Some((queue, queue.backlog.as_ref()?)));
    Ok(with_backlog.map(|(queue, backlog)| warning(queue.name.as_str(), backlog)).collect())
}
