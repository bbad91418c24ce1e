//! The names on which an action acts: those that the request has, or those that a filter selects at
//! this moment.
//!
//! Invariant: there are at most [`MOST`] names, and each is a whole name.

use std::collections::BTreeSet;

use serde_json::Value;

use super::action_table::{ActionSubject, OperatorAction};
use crate::cli::embedded::CliFailure;
use crate::cli::embedded::job_page::{Page, job_page, wanted_jobs};
use crate::cli::embedded::run_page::{run_page, wanted_runs};
use crate::dashboard::page_request::{PageReading, PageRequest};
use schedd_store::Store;

/// The maximum number of names of one action.
pub(super) const MOST: usize = 500;
/// The maximum number of pages of the list that are read to find them.
const PAGES: usize = 5;

/// The names on which an action acts.
#[derive(Debug, Default)]
pub(super) struct ActedNames {
    pub(super) names: Vec<String>,
    /// True if a filter selected the names.
    pub(super) is_by_filter: bool,
    /// The cursor behind the names, if the filter may select more.
    pub(super) next: Option<String>,
}

impl ActedNames {
    /// Returns the names in a request. Fails for no name, too many names, or a text that is no name.
    pub(super) fn given(
        action: &OperatorAction,
        request: &PageRequest,
    ) -> Result<Self, CliFailure> {
        let given = request.parameters.iter().filter(|(name, _)| name == "name");
        let mut known = BTreeSet::new();
        let names: Vec<String> =
            given.filter(|(_, name)| known.insert(name)).map(|(_, name)| name.clone()).collect();
        let things = action.subject.plural();
        if names.is_empty() {
            return Err(CliFailure::Invalid(format!(
                "name: found none of the {things} ticked, wanted at least one, or all that the filter selects"
            )));
        }
        if names.len() > MOST {
            let found = names.len();
            return Err(CliFailure::Invalid(format!(
                "name: found {found} {things}, wanted at most {MOST} at once"
            )));
        }
        names.iter().try_for_each(|name| action.subject.check(name))?;
        Ok(Self { names, ..Self::default() })
    }

    /// Returns the names that the filter of a request selects now.
    pub(super) async fn by_filter(
        action: &OperatorAction,
        reading: &PageReading<'_>,
    ) -> Result<Self, CliFailure> {
        let (store, request) = (reading.store, reading.request);
        let mut found = Self { is_by_filter: true, ..Self::default() };
        let mut cursor = Some(request.parameter("cursor").to_owned());
        for _ in 0..PAGES {
            let Some(from) = cursor.take() else { break };
            let from = Some(from.as_str()).filter(|from| !from.is_empty());
            let room = MOST - found.names.len();
            let Page { items, next } = match action.subject {
                ActionSubject::Job => jobs(store, request, from, room).await?,
                ActionSubject::Run => {
                    let read = runs(action, store, request, from, room);
                    reading.in_zone(read).await?
                }
                ActionSubject::Queue => {
                    return Err(CliFailure::Invalid("of: queues have no filter".to_owned()));
                }
            };
            found.names.extend(items.iter().filter_map(|item| name_of(action, item)));
            // Runs that have not ended stand before all others, so the first page has them.
            cursor = next.filter(|_| !action.is_for_open_runs() || found.names.len() == MOST);
            if found.names.len() == MOST {
                break;
            }
        }
        found.next = cursor;
        Ok(found)
    }
}

async fn jobs(
    store: &Store,
    request: &PageRequest,
    cursor: Option<&str>,
    room: usize,
) -> Result<Page, CliFailure> {
    let wanted = wanted_jobs(&request.flags, request.name_pattern().as_deref())?;
    job_page(store, &wanted, cursor, room).await
}

async fn runs(
    action: &OperatorAction,
    store: &Store,
    request: &PageRequest,
    cursor: Option<&str>,
    room: usize,
) -> Result<Page, CliFailure> {
    let job = Some(request.parameter("job")).filter(|job| !job.is_empty());
    let mut flags = request.flags.clone();
    if action.is_for_open_runs() && request.parameter("state").is_empty() {
        let states = if job.is_some() { "scheduled,running" } else { "running" };
        flags.push(format!("--state={states}"));
    }
    let mut wanted = wanted_runs(&flags, job)?;
    // Dead letters have an index of their own.
    wanted.dead |= action.is_for_dead_letters();
    run_page(store, &wanted, cursor, room).await
}

/// Returns the name in the document of a list, or `None` if the action would do nothing to the thing.
fn name_of(action: &OperatorAction, item: &Value) -> Option<String> {
    let is_left_out = match action.word {
        "pause" => item["paused"] == true,
        "resume" => !is_paused_somewhere(item),
        _ => action.is_for_open_runs() && !item["finished_at"].is_null(),
    };
    let key = if action.subject == ActionSubject::Run { "run_id" } else { "name" };
    let name = item[key].as_str().filter(|_| !is_left_out);
    name.filter(|name| action.subject.check(name).is_ok()).map(str::to_owned)
}

/// Returns true if a job is paused, or its instance on a node is.
fn is_paused_somewhere(job: &Value) -> bool {
    let nodes = job["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    job["paused"] == true || nodes.iter().any(|node| node["paused"] == true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filter_leaves_out_what_an_action_would_not_change() {
        let job = json!({"name": "a", "paused": false, "nodes": null});
        let paused = json!({"name": "a", "paused": true, "nodes": null});
        let partly = json!({"name": "a", "paused": false, "nodes": [{"paused": true}]});
        let open = json!({"run_id": "a@1", "finished_at": null});
        let ended = json!({"run_id": "a@1", "finished_at": "2026-01-01T00:00:00Z"});
        let odd = json!({"name": "<b>", "paused": false});
        for (action, item, is_taken) in [
            ("pause", &job, true),
            ("pause", &partly, true),
            ("pause", &paused, false),
            ("pause", &odd, false),
            ("resume", &job, false),
            ("resume", &partly, true),
            ("resume", &paused, true),
            ("run", &paused, true),
            ("cancel-run", &open, true),
            ("cancel-run", &ended, false),
            ("retry", &ended, true),
        ] {
            let name = name_of(OperatorAction::named(action).unwrap(), item);
            assert_eq!(name.is_some(), is_taken, "{action} {item}");
        }
    }
}
