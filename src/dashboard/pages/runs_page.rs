//! The list of runs, the run that ended last first.

use askama::Template;

use super::refused_filter::refused_filter;
use crate::cli::embedded::CliFailure;
use crate::cli::embedded::job_page::Page;
use crate::cli::embedded::run_page::{run_page, wanted_runs};
use crate::dashboard::badge::Badge;
use crate::dashboard::documents::RunDocument;
use crate::dashboard::documents::verb_document::all_parsed;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_link::query;
use crate::dashboard::page_request::{PageReading, PageRequest};
use crate::dashboard::page_text::page_text;
use crate::dashboard::shown_text::ShownText;

/// The number of runs on a page.
const ITEMS: usize = 50;
/// The states of the filter.
const STATES: [&str; 7] =
    ["running", "succeeded", "failed", "timed_out", "lost", "cancelled", "skipped"];
/// The flags of the filter, and their labels in the form.
const LABELS: [(&str, &str); 4] = [
    ("--state", "State"),
    ("--since", "Ended since"),
    ("--until", "Ended until"),
    ("--tag", "Tag"),
];

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    filter: RunsFilter<'r>,
    /// The reason why the filter is refused.
    refused: Option<ShownText>,
    runs: Vec<RunDocument>,
    next: Option<String>,
}

/// The filter of the list, as the form shows it.
struct RunsFilter<'r> {
    job: &'r str,
    state: &'r str,
    since: &'r str,
    until: &'r str,
    tag: &'r str,
    dead: &'r str,
    cursor: &'r str,
}

impl<'r> RunsFilter<'r> {
    fn of(request: &'r PageRequest) -> Self {
        let of = |name| request.parameter(name);
        Self {
            job: of("job"),
            state: of("state"),
            since: of("since"),
            until: of("until"),
            tag: of("tag"),
            dead: of("dead"),
            cursor: of("cursor"),
        }
    }

    /// Returns the query of the page behind `cursor` with the same filter.
    fn query(&self, cursor: &str) -> String {
        let [job, state, since, until, tag, dead] = self.pairs();
        query(&[job, state, since, until, tag, dead, ("cursor", cursor)])
    }

    /// Returns the parameters of the filter.
    fn pairs(&self) -> [(&'static str, &'r str); 6] {
        [
            ("job", self.job),
            ("state", self.state),
            ("since", self.since),
            ("until", self.until),
            ("tag", self.tag),
            ("dead", self.dead),
        ]
    }

    /// Returns true if the list has only some of the runs.
    fn is_set(&self) -> bool {
        !self.query("").is_empty()
    }
}

impl RunsPage<'_> {
    /// The actions on several runs: the word in the address, and the label.
    const BULK: [(&'static str, &'static str); 3] =
        [("retry", "Retry"), ("purge", "Purge"), ("cancel-run", "Cancel")];

    fn states() -> &'static [&'static str] {
        &STATES
    }
}

/// Returns the list of runs.
pub(super) async fn runs_page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    let request = reading.request;
    let filter = RunsFilter::of(request);
    let read = async {
        let wanted = wanted_runs(&request.flags, Some(filter.job).filter(|job| !job.is_empty()))?;
        let cursor = Some(filter.cursor).filter(|cursor| !cursor.is_empty());
        run_page(reading.store, &wanted, cursor, ITEMS).await
    };
    let (Page { items, next }, refused) = match reading.in_zone(read).await {
        Ok(page) => (page, None),
        Err(failure) => (Page::default(), Some(refused_filter(failure, &LABELS)?)),
    };
    let runs = all_parsed(items)?;
    let layout = reading.layout("runs");
    page_text(&RunsPage { layout, clock: &reading.clock, filter, refused, runs, next })
}
