//! A run, as `show` has it, and its output.

use serde::Deserialize;

use super::run_document::RunDocument;
use crate::dashboard::page_clock::DocumentTime;
use crate::dashboard::page_link::run_path;
use crate::dashboard::shown_text::ShownText;
use schedd_core::domain::run::end_words::in_words;
use schedd_schedule::time::wording::span;

/// The document `whole run`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct WholeRunDocument {
    #[serde(flatten)]
    pub(in crate::dashboard) run: RunDocument,
    pub(in crate::dashboard) ready_at: Option<DocumentTime>,
    pub(in crate::dashboard) waiting_for: Option<ShownText>,
    pub(in crate::dashboard) waits: Vec<WaitDocument>,
    pub(in crate::dashboard) admitted: Option<ShownText>,
    pub(in crate::dashboard) gate_opens: Option<ShownText>,
    pub(in crate::dashboard) queue_paused: bool,
    pub(in crate::dashboard) parents: Vec<ParentDocument>,
    pub(in crate::dashboard) recoveries: u32,
    pub(in crate::dashboard) progress: Option<ProgressDocument>,
    pub(in crate::dashboard) attempts: Vec<AttemptDocument>,
    pub(in crate::dashboard) notices: Vec<NoticeDocument>,
}

/// A wait for another run of the job, or at a gate.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct WaitDocument {
    #[serde(rename = "for")]
    cause: ShownText,
    pub(in crate::dashboard) from: DocumentTime,
    pub(in crate::dashboard) until: Option<DocumentTime>,
}

/// How far the work of a run is.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct ProgressDocument {
    pub(in crate::dashboard) percent: Option<u8>,
    pub(in crate::dashboard) text: ShownText,
}

/// The end of a parent that started or skipped the run.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct ParentDocument {
    pub(in crate::dashboard) run_id: ShownText,
    pub(in crate::dashboard) state: ShownText,
}

/// An attempt of a run.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct AttemptDocument {
    pub(in crate::dashboard) attempt: u32,
    pub(in crate::dashboard) state: ShownText,
    pub(in crate::dashboard) node: Option<ShownText>,
    pub(in crate::dashboard) started_at: Option<DocumentTime>,
    pub(in crate::dashboard) finished_at: Option<DocumentTime>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    http_status: Option<u16>,
    error: Option<ShownText>,
    pub(in crate::dashboard) not_enforced: Option<ShownText>,
}

/// A notice about a run.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct NoticeDocument {
    pub(in crate::dashboard) kind: ShownText,
    pub(in crate::dashboard) run_id: ShownText,
    pub(in crate::dashboard) state: ShownText,
}

/// The document `output`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct OutputDocument {
    pub(in crate::dashboard) attempt: Option<u32>,
    pub(in crate::dashboard) stdout: String,
    pub(in crate::dashboard) stderr: String,
    pub(in crate::dashboard) dropped_bytes: u64,
    pub(in crate::dashboard) kept: bool,
}

impl WaitDocument {
    /// Returns the cause in words.
    pub(in crate::dashboard) fn cause(&self) -> &str {
        match self.cause.as_str() {
            "overlap" => "another run",
            gate => gate,
        }
    }
}

impl ParentDocument {
    /// Returns the path of the page of the parent's run.
    pub(in crate::dashboard) fn path(&self) -> String {
        run_path(self.run_id.as_str())
    }
}

impl NoticeDocument {
    /// Returns the path of the page of the run that delivers the notice.
    pub(in crate::dashboard) fn path(&self) -> String {
        run_path(self.run_id.as_str())
    }
}

impl AttemptDocument {
    /// Returns the end of the attempt in words.
    pub(in crate::dashboard) fn end(&self) -> Option<String> {
        let error = self.error.as_ref().map(ShownText::as_str);
        in_words(error, self.signal, self.exit_code, self.http_status)
    }

    /// Returns the duration of the attempt, as text.
    pub(in crate::dashboard) fn took(&self) -> Option<String> {
        let (from, to) = (self.started_at.as_ref()?, self.finished_at.as_ref()?);
        Some(span(to.at.since(from.at)))
    }
}
