//! The list of jobs, by the time of their next run.

use askama::Template;

use super::refused_filter::refused_filter;
use crate::cli::embedded::CliFailure;
use crate::cli::embedded::job_page::{Page, job_page, wanted_jobs};
use crate::dashboard::badge::Badge;
use crate::dashboard::documents::JobDocument;
use crate::dashboard::documents::verb_document::all_parsed;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_link::query;
use crate::dashboard::page_request::{PageReading, PageRequest};
use crate::dashboard::page_text::page_text;
use crate::dashboard::shown_text::ShownText;
use schedd_schedule::names::JobName;

/// The number of jobs on a page.
const ITEMS: usize = 50;
/// The states of the filter.
const STATES: [&str; 6] = ["scheduled", "running", "retrying", "paused", "manual", "finished"];
/// The flags of the filter, and their labels in the form.
const LABELS: [(&str, &str); 2] = [("--state", "State"), ("--tag", "Tag")];

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    filter: JobFilter<'r>,
    /// The reason why the filter is refused.
    refused: Option<ShownText>,
    jobs: Vec<JobDocument>,
    next: Option<String>,
}

/// The filter of the list, as the form shows it.
struct JobFilter<'r> {
    q: &'r str,
    state: &'r str,
    queue: &'r str,
    source: &'r str,
    tag: &'r str,
    failed: &'r str,
    cursor: &'r str,
}

impl<'r> JobFilter<'r> {
    fn of(request: &'r PageRequest) -> Self {
        let of = |name| request.parameter(name);
        Self {
            q: of("q"),
            state: of("state"),
            queue: of("queue"),
            source: of("source"),
            tag: of("tag"),
            failed: of("failed"),
            cursor: of("cursor"),
        }
    }

    /// Returns the query of the page behind `cursor` with the same filter.
    fn query(&self, cursor: &str) -> String {
        let [q, state, queue, source, tag, failed] = self.pairs();
        query(&[q, state, queue, source, tag, failed, ("cursor", cursor)])
    }

    /// Returns the parameters of the filter.
    fn pairs(&self) -> [(&'static str, &'r str); 6] {
        [
            ("q", self.q),
            ("state", self.state),
            ("queue", self.queue),
            ("source", self.source),
            ("tag", self.tag),
            ("failed", self.failed),
        ]
    }

    /// Returns true if the list has only some of the jobs.
    fn is_set(&self) -> bool {
        !self.query("").is_empty()
    }
}

impl JobsPage<'_> {
    /// The actions on several jobs: the word in the address, and the label.
    const BULK: [(&'static str, &'static str); 4] =
        [("run", "Run"), ("pause", "Pause"), ("resume", "Resume"), ("cancel", "Cancel")];

    fn states() -> &'static [&'static str] {
        &STATES
    }
}

/// Returns the job whose whole name is the only filter. It may stand far behind the jobs that a page
/// reads.
async fn named_job(reading: &PageReading<'_>, filter: &JobFilter<'_>) -> Option<JobDocument> {
    let is_alone = filter.query("") == query(&[("q", filter.q)]) && filter.cursor.is_empty();
    let name = filter.q.parse::<JobName>().ok().filter(|_| is_alone)?;
    reading.document(&["show", "--", name.as_str()]).await.ok()
}

/// Returns the list of jobs.
pub(super) async fn jobs_page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    let request = reading.request;
    let filter = JobFilter::of(request);
    let read = async {
        let wanted = wanted_jobs(&request.flags, request.name_pattern().as_deref())?;
        let cursor = Some(filter.cursor).filter(|cursor| !cursor.is_empty());
        job_page(reading.store, &wanted, cursor, ITEMS).await
    };
    let (page, named) = tokio::join!(Box::pin(read), Box::pin(named_job(reading, &filter)));
    let (Page { items, next }, refused) = match page {
        Ok(page) => (page, None),
        Err(failure) => (Page::default(), Some(refused_filter(failure, &LABELS)?)),
    };
    let mut jobs: Vec<JobDocument> = all_parsed(items)?;
    if let Some(named) = named {
        jobs.retain(|job| job.name != named.name);
        jobs.insert(0, named);
    }
    let layout = reading.layout("jobs");
    page_text(&JobsPage { layout, clock: &reading.clock, filter, refused, jobs, next })
}
