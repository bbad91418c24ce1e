//! A page of jobs for `GET /v1/jobs`, in the order of their next due times.
//!
//! One page needs a bounded number of requests to Redis whatever the filters select. So a page may
//! have fewer jobs than asked for, or none, although a next page exists.

use std::collections::BTreeSet;

use serde_json::Value;

use super::page_cursor::{read_cursor, write_cursor};
use super::verb_call::parse_given;
use crate::cli::failure::CliFailure;
use crate::cli::list::Wanted;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::render::view_placed_jobs;
use crate::cli::verbs::Verb;
use schedd_store::{IndexCursor, JobIndex, Store};

/// The number of jobs that are read for one page if filters select some of them.
const READ: usize = 500;

/// A page of a list: the items, and the cursor of the next page or `None` for the last page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) items: Vec<Value>,
    pub(crate) next: Option<String>,
}

/// Returns the filters that these flags of `list` stand for, for names that match `pattern`.
pub(crate) fn wanted_jobs(flags: &[String], pattern: Option<&str>) -> Result<Wanted, CliFailure> {
    let mut words = vec!["list".to_owned()];
    words.extend_from_slice(flags);
    words.extend(pattern.into_iter().flat_map(|pattern| ["--".to_owned(), pattern.to_owned()]));
    match parse_given(&words)?.verb {
        Verb::List(args) => Wanted::of(&args),
        _ => Err(CliFailure::Failed(
            "the flags of list were read as those of another verb".to_owned(),
        )),
    }
}

/// Returns at most `limit` jobs that `wanted` selects, behind the cursor `cursor`.
pub(crate) async fn job_page(
    store: &Store,
    wanted: &Wanted,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page, CliFailure> {
    let (mut index, mut at) = match cursor {
        None => (JobIndex::Defined, IndexCursor::lowest()),
        Some(text) => match read_cursor(text) {
            Some((word, at)) if word == "defined" => (JobIndex::Defined, at),
            Some((word, at)) if word == "over" => (JobIndex::Over, at),
            _ => return Err(CliFailure::Cursor),
        },
    };
    let most = if wanted.filters() { READ.max(limit) } else { limit };
    let places = MergedPlaces::of(store).await?;
    let entries = places.page_of_jobs(index, &at, most).await?;
    let mut is_last = entries.len() < most;
    let mut names = Vec::new();
    for (cursor, (place, name)) in entries {
        at = cursor;
        let name = name.filter(|name| wanted.takes_name(name));
        names.extend(name.map(|name| (at.clone(), (place, name))));
    }
    let records = places.read_jobs(names.iter().map(|(_, name)| name.clone()).collect()).await?;
    let records: Vec<_> = records
        .into_iter()
        .filter_map(|(place, record)| Some((place, record.ok().flatten()?)))
        .filter(|(_, record)| wanted.takes_record(index, record))
        .collect();
    let views = view_placed_jobs(&places, records, &BTreeSet::new()).await?;
    let mut items = Vec::new();
    for (place, view) in views.iter().filter(|(_, view)| wanted.takes(view)) {
        if items.len() == limit {
            is_last = false;
            break;
        }
        if items.len() + 1 == limit
            && let Some((cursor, _)) =
                names.iter().find(|(_, (of, name))| of == place && *name == view.record.name)
        {
            // If further jobs of this page are wanted, the next page begins behind this job.
            at = cursor.clone();
            is_last = false;
        }
        items.push(view.json());
    }
    if is_last && index == JobIndex::Defined && wanted.includes_finished() {
        (index, at, is_last) = (JobIndex::Over, IndexCursor::lowest(), false);
    }
    let word = if index == JobIndex::Defined { "defined" } else { "over" };
    Ok(Page { items, next: (!is_last).then(|| write_cursor(word, &at)) })
}
