//! The chains of jobs as graphs, with the state of the last run of each job.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;

use crate::cli::embedded::{CliFailure, view_jobs};
use crate::dashboard::badge::Badge;
use crate::dashboard::charts::ChainDrawing;
use crate::dashboard::documents::ChainedJobDocument;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_link::{job_path, query};
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;
use crate::dashboard::shown_text::ShownText;
use schedd_store::JobRecord;

/// The maximum number of jobs that are drawn.
const MOST_JOBS: usize = 200;

#[derive(Template)]
#[template(path = "chains.html")]
struct ChainsPage<'r> {
    layout: Layout<'r>,
    /// The job whose chain is shown. Empty for all chains.
    job: &'r str,
    chains: Vec<ChainDrawing>,
    /// The number of jobs that are left out.
    left_out: usize,
    /// The reason why the chain of the job cannot be shown.
    refused: Option<ShownText>,
}

impl ChainsPage<'_> {
    fn job_path(name: &ShownText) -> String {
        job_path(name.as_str())
    }

    /// Returns the address of the page with only the chain of a job.
    fn only(name: &ShownText) -> String {
        format!("/chains{}", query(&[("job", name.as_str())]))
    }
}

/// Returns the page of chains.
pub(super) async fn chains_page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    let job = reading.request.parameter("job");
    let mut words = vec!["graph"];
    if !job.is_empty() {
        words.extend(["--", job]);
    }
    let found = reading.document::<Vec<ChainedJobDocument>>(&words).await;
    let (mut jobs, refused) = match found {
        Ok(jobs) => (jobs, None),
        Err(CliFailure::Unreachable(why)) => return Err(CliFailure::Unreachable(why)),
        Err(failure) => (Vec::new(), Some(ShownText::new(&failure.lines().join("; ")))),
    };
    // Whole chains come one after the other, so that few are cut.
    jobs.sort_by(|a, b| (&a.root, &a.job).cmp(&(&b.root, &b.job)));
    let left_out = jobs.len().saturating_sub(MOST_JOBS);
    jobs.truncate(MOST_JOBS);
    let states = last_states(reading, &jobs).await?;
    let chains = ChainDrawing::all(&jobs, &states);
    page_text(&ChainsPage { layout: reading.layout("chains"), job, chains, left_out, refused })
}

/// Returns the word for the state of each job: that of its last run, or of a run that is running.
async fn last_states(
    reading: &PageReading<'_>,
    jobs: &[ChainedJobDocument],
) -> Result<BTreeMap<String, String>, CliFailure> {
    let names: Vec<_> = jobs.iter().filter_map(|job| job.job.as_str().parse().ok()).collect();
    let records = reading.store.read_jobs(&names).await?;
    let records: Vec<JobRecord> =
        records.into_iter().filter_map(|record| record.ok().flatten()).collect();
    let views = view_jobs(reading.store, records, &BTreeSet::new()).await?;
    let state = |view: &crate::cli::embedded::JobView| {
        let last = view.last.as_ref().map(|run| run.state.as_str().to_owned());
        let word = if view.is_running { Some("running".to_owned()) } else { last };
        (view.record.name.as_str().to_owned(), word.unwrap_or_else(|| "never ran".to_owned()))
    };
    Ok(views.iter().map(state).collect())
}
