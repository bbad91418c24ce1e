//! The page of one job.

use askama::Template;
use serde::Deserialize;

use crate::cli::embedded::CliFailure;
use crate::cli::embedded::run_page::{run_page, wanted_runs};
use crate::cli::embedded::views::job_audit_log;
use crate::dashboard::badge::Badge;
use crate::dashboard::charts::{MOST_BARS, RunBars};
use crate::dashboard::documents::verb_document::all_parsed;
use crate::dashboard::documents::{
    AuditDocument, ComingDocument, ExplanationDocument, JobDocument, RunDocument, WholeJobDocument,
};
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_link::{encoded, explain_path, job_path, run_path};
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;
use crate::dashboard::shown_text::ShownText;

/// The number of next times on the page.
const NEXT: &str = "20";
/// The number of entries of the audit log that are shown at once.
const ENTRIES: usize = 10;

#[derive(Template)]
#[template(path = "one_job.html")]
struct OneJobPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    whole: WholeJobDocument,
    runs: Vec<RunDocument>,
    bars: RunBars,
    coming: Vec<ComingDocument>,
    audit_log: Vec<AuditDocument>,
    /// The time in the form of `explain`.
    at: &'r str,
    /// The zone in which `at` is read.
    at_zone: &'r str,
    /// The answer to that form: the explanations, or why there is none.
    explained: Result<Vec<ExplanationDocument>, ShownText>,
}

/// The answer of `explain`: a job on each node has a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Explanations {
    One(Box<ExplanationDocument>),
    Many(Vec<ExplanationDocument>),
}

impl Explanations {
    fn list(self) -> Vec<ExplanationDocument> {
        match self {
            Self::One(one) => vec![*one],
            Self::Many(many) => many,
        }
    }
}

impl OneJobPage<'_> {
    /// Returns the path of the page of another job.
    fn job_path(name: &ShownText) -> String {
        job_path(name.as_str())
    }

    /// Returns the path of the page of a run.
    fn run_path(run: &str) -> String {
        run_path(run)
    }

    /// Returns the path of the explanation of a time of the job.
    fn explain_path(&self, time: &ComingDocument) -> String {
        explain_path(self.whole.job.name.as_str(), &time.due.at.to_string())
    }

    /// Returns true if the job is in a chain.
    fn is_in_chain(&self) -> bool {
        !(self.whole.parents.is_empty() && self.whole.children.is_empty())
    }

    /// Returns the address of the job's chain.
    fn chain_address(&self) -> String {
        format!("/chains?job={}", encoded(self.whole.job.name.as_str()))
    }

    /// Returns the address of the list of all runs of the job.
    fn runs_address(&self) -> String {
        format!("/runs?job={}", encoded(self.whole.job.name.as_str()))
    }

    fn newest_entries(&self) -> &[AuditDocument] {
        self.audit_log.get(..ENTRIES).unwrap_or(&self.audit_log)
    }

    fn older_entries(&self) -> &[AuditDocument] {
        self.audit_log.get(ENTRIES..).unwrap_or_default()
    }
}

/// Returns the page of the job in the path.
pub(super) async fn one_job_page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    let request = reading.request;
    let name = request.target.as_deref().unwrap_or_default();
    let show = ["show", "--", name];
    let wanted = wanted_runs(&[], Some(name))?;
    let next = ["next", "-n", NEXT, "--long", "--", name];
    let at = request.parameter("at");
    // All at once, because most of the time of a page goes by waiting for Redis.
    let (whole, runs, coming, audit_log, explained) = tokio::join!(
        reading.document::<WholeJobDocument>(&show),
        run_page(reading.store, &wanted, None, MOST_BARS),
        reading.document::<Vec<ComingDocument>>(&next),
        job_audit_log(reading.store, name),
        explained(reading, name, at),
    );
    let whole = whole?;
    let runs: Vec<RunDocument> = all_parsed(runs?.items)?;
    let at_zone = reading.clock.zone_name().unwrap_or_else(|| whole.job.tz.as_str().to_owned());
    let mut audit_log: Vec<AuditDocument> = all_parsed(audit_log?)?;
    audit_log.sort_by_key(|entry| std::cmp::Reverse(entry.at.at));
    page_text(&OneJobPage {
        layout: reading.layout("jobs"),
        clock: &reading.clock,
        bars: RunBars::of(&runs),
        runs,
        // A job without a schedule, or one that is over, has no next times.
        coming: coming.unwrap_or_default(),
        audit_log,
        whole,
        at,
        at_zone: &at_zone,
        explained,
    })
}

/// Returns the explanations of the job at the time that the reader asked for, or of a run.
async fn explained(
    reading: &PageReading<'_>,
    name: &str,
    at: &str,
) -> Result<Vec<ExplanationDocument>, ShownText> {
    if at.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |failure: CliFailure| {
        let why = failure.lines().join("; ");
        // The form has a field for the time, and no flag.
        ShownText::new(why.strip_prefix("--at: ").unwrap_or(&why))
    };
    let zone = if let Some(zone) = reading.clock.zone_name() {
        zone
    } else {
        let job = reading.document::<JobDocument>(&["show", "--", name]).await;
        job.map_err(failed)?.tz.as_str().to_owned()
    };
    let (time, zone) = (format!("--at={at}"), format!("--tz={zone}"));
    // A bar leads here with the id of its run.
    let found = if at.contains('@') {
        reading.document::<Explanations>(&["explain", &zone, "--", at]).await
    } else {
        reading.document::<Explanations>(&["explain", &time, &zone, "--", name]).await
    };
    found.map(Explanations::list).map_err(failed)
}
