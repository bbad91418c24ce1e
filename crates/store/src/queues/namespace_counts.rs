//! Counts of the namespace for an overview, also by time. Redis counts them in its indexes, so their
//! cost does not grow with the number of jobs or runs.

use redis::Value;

use crate::Store;
use crate::server::reply::number_of;
use crate::server::store_error::StoreError;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The counts of the namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceCounts {
    /// The number of live jobs.
    pub jobs: u64,
    /// The number of executing runs.
    pub running: u64,
    /// The number of dead letters kept.
    pub dead: u64,
    /// The number of ended runs kept, with those that deliver notices.
    pub history: u64,
    /// The counts of each span of time.
    pub spans: Vec<SpanCounts>,
}

/// The counts of a span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// The number of kept runs that ended in the span, with those that deliver notices.
    pub ended: u64,
    /// The number of dead letters among them.
    pub dead: u64,
    /// The number of jobs whose next run is due in the span.
    pub due: u64,
}

impl NamespaceCounts {
    /// Returns the sums of these counts and those of another place with the same spans.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.jobs += other.jobs;
        self.running += other.running;
        self.dead += other.dead;
        self.history += other.history;
        for (span, other) in self.spans.iter_mut().zip(other.spans) {
            span.ended += other.ended;
            span.dead += other.dead;
            span.due += other.due;
        }
        self
    }
}

impl Store {
    /// Counts the namespace, and each span between two times of `edges` that follow each other. The
    /// first time belongs to the span.
    pub async fn count_namespace(
        &self,
        edges: &[UnixMillis],
    ) -> Result<NamespaceCounts, StoreError> {
        let keys = &self.keys;
        let (jobs, history, dead) = (keys.jobs(), keys.history(), keys.dead());
        let mut pipeline = redis::pipe();
        for key in [&jobs, &keys.leases(), &dead, &history] {
            pipeline.cmd("ZCARD").arg(key);
        }
        for span in edges.windows(2) {
            for key in [&history, &dead, &jobs] {
                let until = format!("({}", span[1].as_i64());
                pipeline.cmd("ZCOUNT").arg(key).arg(span[0].as_i64()).arg(until);
            }
        }
        let answers = self.link.query(&mut pipeline).await?;
        let number =
            |value: &Value| number_of(value).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let numbers: Vec<u64> = answers.iter().map(number).collect();
        let [jobs, running, dead, history, spans @ ..] = numbers.as_slice() else {
            let found = format!("found {} values, wanted at least 4", numbers.len());
            return Err(StoreError::corrupt("reply about the counts of the namespace", found));
        };
        let span = |of: &[u64]| SpanCounts { ended: of[0], dead: of[1], due: of[2] };
        Ok(NamespaceCounts {
            jobs: *jobs,
            running: *running,
            dead: *dead,
            history: *history,
            spans: spans.chunks_exact(3).map(span).collect(),
        })
    }
}
