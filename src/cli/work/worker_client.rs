//! The requests of a worker to the API: questions for runs, and reports.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::failure::CliFailure;
use crate::cli::remote::api_client::ApiClient;

/// The longest time that a question may wait at the API.
const LONGEST_WAIT: Duration = Duration::from_secs(25);
/// The longest time within which an answer comes, besides the wait.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

/// A run that this worker has got.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct WorkerRun {
    pub(super) run_id: String,
    pub(super) job: String,
    pub(super) handler: String,
    pub(super) payload: Value,
    pub(super) due: String,
    pub(super) attempt: u32,
    pub(super) fence: u64,
    pub(super) token: String,
    pub(super) timeout_ms: u64,
    pub(super) traceparent: Option<String>,
}

/// The answer to a question for runs.
#[derive(Debug, Deserialize)]
pub(super) struct ClaimAnswer {
    pub(super) runs: Vec<WorkerRun>,
    pub(super) drain: bool,
}

/// The answer to a report about one run.
#[derive(Debug, Deserialize)]
pub(super) struct ReportAnswer {
    pub(super) run_id: String,
    pub(super) result: String,
}

#[derive(Debug, Deserialize)]
struct ReportAnswers {
    runs: Vec<ReportAnswer>,
}

/// The name, queue and handlers of this worker, and its connection.
pub(super) struct WorkerClient {
    pub(super) api: ApiClient,
    pub(super) queue: String,
    pub(super) name: String,
    pub(super) labels: Vec<String>,
    /// The handlers of which runs are wanted. Empty for all.
    pub(super) handlers: Vec<String>,
    pub(super) lease: Duration,
}

impl WorkerClient {
    /// Returns the time within which an answer comes, besides the wait. A question and its repetition
    /// take less than a lease, so that the repetition still gets the runs of a lost answer.
    fn answer_time(&self) -> Duration {
        (self.lease / 4).min(LONGEST_ANSWER)
    }

    /// Asks for at most `most` runs, and waits for them if `waits`. `id` is the id of the question.
    pub(super) async fn claim(
        &self,
        id: &str,
        most: usize,
        waits: bool,
    ) -> Result<ClaimAnswer, CliFailure> {
        let wait = if waits { (self.lease / 3 * 2).min(LONGEST_WAIT) } else { Duration::ZERO };
        let mut body = json!({
            "claim_id": id,
            "worker": {"name": self.name, "labels": self.labels},
            "max": most.min(500),
            "wait_ms": millis(wait),
            "lease_ms": millis(self.lease),
        });
        if !self.handlers.is_empty() {
            body["handlers"] = self.handlers.clone().into();
        }
        let path = format!("/v1/queues/{}/claim", self.queue);
        read(self.api.post(&path, &body, wait + self.answer_time()).await?)
    }

    /// Reports about runs: `verb` is `heartbeat`, `complete`, `fail` or `release`.
    pub(super) async fn report(
        &self,
        verb: &str,
        runs: Vec<Value>,
    ) -> Result<Vec<ReportAnswer>, CliFailure> {
        let path = format!("/v1/runs/{verb}");
        let answer = self.api.post(&path, &json!({"runs": runs}), self.answer_time()).await?;
        Ok(read::<ReportAnswers>(answer)?.runs)
    }
}

impl WorkerRun {
    /// Returns the members that each report about the run has.
    pub(super) fn proof(&self) -> Value {
        json!({"run_id": self.run_id, "token": self.token})
    }
}

fn read<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, CliFailure> {
    serde_json::from_value(answer).map_err(|error| {
        CliFailure::Failed(format!("the answer of the API cannot be read: {error}"))
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
