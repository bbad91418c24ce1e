//! The page of one run: its phases, its attempts, its output and its notices.

use askama::Template;

use crate::cli::embedded::CliFailure;
use crate::dashboard::badge::Badge;
use crate::dashboard::charts::Waterfall;
use crate::dashboard::documents::{AttemptDocument, OutputDocument, WholeRunDocument};
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_link::{encoded, explain_path};
use crate::dashboard::page_request::PageReading;
use crate::dashboard::page_text::page_text;
use crate::dashboard::shown_output::ShownOutput;
use crate::dashboard::shown_text::ShownText;

#[derive(Template)]
#[template(path = "one_run.html")]
struct OneRunPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    whole: WholeRunDocument,
    waterfall: Waterfall,
    output: OutputDocument,
    stdout: ShownOutput,
    stderr: ShownOutput,
}

impl OneRunPage<'_> {
    /// Returns the address of the whole output of the shown attempt, as plain text.
    fn output_address(&self) -> String {
        let attempt = self.output.attempt.map(|attempt| format!("?attempt={attempt}"));
        let run = encoded(self.whole.run.run_id.as_str());
        format!("/v1/runs/{run}/logs{}", attempt.unwrap_or_default())
    }

    /// Returns the path of the explanation of the run.
    fn explain_path(&self) -> String {
        explain_path(self.whole.run.job.as_str(), self.whole.run.run_id.as_str())
    }

    /// Returns the address of the output as it is written.
    fn follow_address(&self) -> String {
        format!("/v1/runs/{}/logs?follow=1", encoded(self.whole.run.run_id.as_str()))
    }

    /// Returns true if the output of this attempt is shown.
    fn is_shown(&self, attempt: &AttemptDocument) -> bool {
        self.output.attempt == Some(attempt.attempt)
    }

    /// Returns the kinds of output, each with its title.
    fn outputs(&self) -> [(&'static str, &ShownOutput); 2] {
        [("Standard output", &self.stdout), ("Standard error", &self.stderr)]
    }

    /// Returns true if the run is a dead letter, which can be retried.
    fn is_dead(&self) -> bool {
        matches!(self.whole.run.state.as_str(), "failed" | "timed_out" | "lost")
    }
}

/// Returns the page of the run in the path.
pub(super) async fn one_run_page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    let request = reading.request;
    let name = request.target.as_deref().unwrap_or_default();
    let attempt: Vec<String> = request.flags.clone();
    let mut words = vec!["logs"];
    words.extend(attempt.iter().map(String::as_str));
    words.extend(["--", name]);
    let show = ["show", "--", name];
    let (whole, output) = tokio::join!(
        reading.document::<WholeRunDocument>(&show),
        reading.document::<OutputDocument>(&words),
    );
    let (whole, output) = (whole?, output?);
    if whole.run.finished_at.is_none() {
        reading.note_moving();
    }
    page_text(&OneRunPage {
        layout: reading.layout("runs"),
        clock: &reading.clock,
        waterfall: Waterfall::of(&whole, reading.clock.instant()),
        stdout: ShownOutput::new(&output.stdout),
        stderr: ShownOutput::new(&output.stderr),
        whole,
        output,
    })
}
