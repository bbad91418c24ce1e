//! A job, as a list of jobs has it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::dashboard::page_clock::DocumentTime;
use crate::dashboard::page_link::{job_path, run_path};
use crate::dashboard::shown_text::ShownText;

/// The document `job`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct JobDocument {
    pub(in crate::dashboard) name: ShownText,
    state: ShownText,
    pub(in crate::dashboard) source: ShownText,
    pub(in crate::dashboard) source_name: Option<ShownText>,
    pub(in crate::dashboard) queue: ShownText,
    pub(in crate::dashboard) tags: BTreeMap<ShownText, ShownText>,
    pub(in crate::dashboard) schedule: Option<ShownText>,
    pub(in crate::dashboard) schedule_words: Vec<ShownText>,
    pub(in crate::dashboard) tz: ShownText,
    next_due: Option<DocumentTime>,
    retry_at: Option<DocumentTime>,
    paused: bool,
    queue_paused: bool,
    pub(in crate::dashboard) last_run: Option<LastRunDocument>,
}

/// The document `last run`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct LastRunDocument {
    run_id: ShownText,
    pub(in crate::dashboard) state: ShownText,
    pub(in crate::dashboard) finished_at: Option<DocumentTime>,
}

impl JobDocument {
    /// Returns the path of the job's page, without the path before all routes.
    pub(in crate::dashboard) fn path(&self) -> String {
        job_path(self.name.as_str())
    }

    /// Returns the zone of the schedule, if the words for the schedule have a time of day.
    pub(in crate::dashboard) fn zone_of_words(&self) -> Option<&str> {
        let has_time = self.schedule_words.iter().any(|words| words.as_str().contains(':'));
        has_time.then(|| self.tz.as_str())
    }

    /// Returns the earliest start of a run: the planned run, or a retry that comes first.
    pub(in crate::dashboard) fn next(&self) -> Option<&DocumentTime> {
        self.next_due.iter().chain(&self.retry_at).min_by_key(|time| time.at)
    }

    /// Returns the words for the states of the job: beside a running or scheduled job a pause.
    pub(in crate::dashboard) fn states(&self) -> Vec<&str> {
        let state = self.state.as_str();
        let is_open = matches!(state, "running" | "retrying" | "scheduled");
        let mut states = vec![state];
        if self.paused && is_open {
            states.push("paused");
        }
        if self.queue_paused && is_open {
            states.push("queue paused");
        }
        states
    }
}

impl LastRunDocument {
    /// Returns the path of the run's page, without the path before all routes.
    pub(in crate::dashboard) fn path(&self) -> String {
        run_path(self.run_id.as_str())
    }
}
