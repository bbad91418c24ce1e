//! The time and resources that the last runs of a job needed, for `show JOB`.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::cli::failure::CliFailure;
use crate::cli::render::{percentile, size_words, span, spread_json, waited};
use crate::cli::runs::open_runs::ended_runs;
use schedd_core::domain::run::resource_use::ResourceUse;
use schedd_schedule::names::JobName;
use schedd_store::{RunRecord, Store};

/// The number of the last ended runs of a job from which the percentiles are calculated.
const SAMPLED: usize = 1_000;

/// The sorted numbers of the last ended runs of a job that started. Times are in ms, the memory is
/// in bytes.
pub(super) struct JobUse {
    runs: usize,
    took: Vec<u64>,
    waited: Vec<u64>,
    cpu: Vec<u64>,
    memory: Vec<u64>,
}

impl JobUse {
    /// Reads the last ended runs of a job.
    pub(super) async fn read(store: &Store, job: &JobName) -> Result<Self, CliFailure> {
        let mut runs = ended_runs(store, job, SAMPLED).await?;
        runs.retain(|run| run.started_at.is_some());
        let sorted = |number: &dyn Fn(&RunRecord) -> Option<u64>| {
            let mut numbers: Vec<u64> = runs.iter().filter_map(number).collect();
            numbers.sort_unstable();
            numbers
        };
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(Self {
            runs: runs.len(),
            took: sorted(&|run| run.took().map(millis)),
            waited: sorted(&|run| waited(run).map(millis)),
            cpu: sorted(&|run| Some(millis(run.resources?.cpu()))),
            memory: sorted(&|run| run.resources.as_ref().map(ResourceUse::peak_bytes)),
        })
    }

    /// Returns the label and the text of each line: the median and the 95th percentile of each
    /// number. Returns no lines if no run has started.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let time = |ms: u64| span(Duration::from_millis(ms));
        let of = [
            ("took", &self.took, time as fn(u64) -> String),
            ("waited", &self.waited, time),
            ("cpu", &self.cpu, time),
            ("memory", &self.memory, size_words),
        ];
        let last = if self.runs == 1 {
            "the last run".to_owned()
        } else {
            format!("the last {} runs", self.runs)
        };
        of.into_iter()
            .filter_map(|(word, sorted, words)| {
                let (median, most) = (percentile(sorted, 50)?, percentile(sorted, 95)?);
                Some((word, format!("p50 {}, p95 {} of {last}", words(median), words(most))))
            })
            .collect()
    }

    /// Returns the percentiles as the fields of the job's JSON.
    pub(super) fn json(&self) -> Map<String, Value> {
        let fields = [
            ("sampled_runs", self.runs.into()),
            ("took_ms", spread_json(&self.took)),
            ("waited_ms", spread_json(&self.waited)),
            ("cpu_ms", spread_json(&self.cpu)),
            ("peak_memory_bytes", spread_json(&self.memory)),
        ];
        fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
    }
}
