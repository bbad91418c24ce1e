//! The counters in Redis and the data that they count: waiting runs, ranges in ledgers, bytes of
//! output, the last fence. Only `doctor` reads the counters.
//!
//! Invariant: a counter is not compared if its data changed during the count.

use std::collections::BTreeMap;

use redis::Value;

use crate::Store;
use crate::history::output_index::job_of;
use crate::server::member_text::{member_bytes, shown_member};
use crate::server::reply::{number_of, text_of};
use crate::server::store_error::StoreError;
use schedd_core::domain::consistency::{CountFacts, SizeFacts};
use schedd_schedule::names::Fence;

/// The most keys read in one call.
const PAGE: usize = 1_000;
/// The most leases that are read, which is more than any Redis has.
const ALL_LEASES: usize = 100_000_000;
/// The most times that the data is counted if it changes during each count.
const TRIES: usize = 3;

/// The names of the keys with the counted data, each without the namespace.
#[derive(Debug, Clone, Default)]
pub struct CounterPair {
    /// The sets of runs that wait behind another run of their job or at a gate.
    pub waiting: Vec<String>,
    /// The ledgers of jobs.
    pub ledgers: Vec<String>,
    /// The keys of kept outputs.
    pub outputs: Vec<String>,
}

/// The values of the counters and indexes, which change whenever the counted data changes.
#[derive(Debug, PartialEq)]
pub struct CountMarks {
    counters: Counters,
    sizes: BTreeMap<String, String>,
    /// The number of outputs trimmed, and the output that was written last.
    outputs: Vec<Value>,
}

/// The values of the counters at one moment.
#[derive(Debug, PartialEq, Eq)]
struct Counters {
    waiting: Option<String>,
    ledger_ranges: Option<String>,
    output_bytes: Option<String>,
    fence: Option<String>,
}

impl Store {
    /// Reads the counters and counts the data again, up to three times until no data changes during
    /// the count. Leaves out each count whose data changed during the last try.
    pub async fn count_facts(&self, counted: &CounterPair) -> Result<CountFacts, StoreError> {
        let mut facts = CountFacts::default();
        for _ in 0..TRIES {
            let (before, said) = (self.counters().await?, self.output_sizes().await?);
            let waiting = self.numbers("ZCARD", &counted.waiting, None).await?.iter().sum();
            let ranges = self.numbers("ZCARD", &counted.ledgers, None).await?.iter().sum();
            let sizes = self.numbers("HGET", &counted.outputs, Some("size")).await?;
            let (said_after, after) = (self.output_sizes().await?, self.counters().await?);
            facts.waiting_counted = (before.waiting == after.waiting).then_some(waiting);
            facts.ledger_counted = (before.ledger_ranges == after.ledger_ranges).then_some(ranges);
            let is_still = before.output_bytes == after.output_bytes && said == said_after;
            facts.output_counted = is_still.then(|| sizes.iter().sum());
            facts.sizes =
                if is_still { wrong_sizes(&said, &counted.outputs, &sizes) } else { Vec::new() };
            facts.waiting = after.waiting;
            facts.ledger_ranges = after.ledger_ranges;
            facts.output_bytes = after.output_bytes;
            facts.fence = after.fence;
            if is_still && facts.waiting_counted.is_some() && facts.ledger_counted.is_some() {
                break;
            }
        }
        facts.highest = self.read_leased(ALL_LEASES).await?.into_values().flatten().max();
        // A claim may have raised the fence since the counter was read.
        if facts.highest.is_some_and(|highest| {
            facts.fence.as_deref().is_none_or(|last| Some(highest) > fence_of(last))
        }) {
            facts.fence = self.counters().await?.fence;
        }
        Ok(facts)
    }

    /// Returns the present [`CountMarks`]. Two equal values prove that the counted data did not
    /// change in between.
    pub async fn count_marks(&self) -> Result<CountMarks, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGET").arg(self.keys.counters()).arg("trimmed_outputs");
        pipeline.cmd("ZRANGE").arg(self.keys.outputs()).arg(-1).arg(-1).arg("WITHSCORES");
        let outputs = self.link.query(&mut pipeline).await?;
        Ok(CountMarks {
            counters: self.counters().await?,
            sizes: self.output_sizes().await?,
            outputs,
        })
    }

    async fn counters(&self) -> Result<Counters, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGET").arg(self.keys.counters()).arg("waiting");
        pipeline.cmd("HGET").arg(self.keys.counters()).arg("ledger_ranges");
        pipeline.cmd("GET").arg(self.keys.output_bytes());
        pipeline.cmd("GET").arg(self.keys.fence());
        let answers = self.link.query(&mut pipeline).await?;
        let text = |at: usize| answers.get(at).and_then(shown_member);
        Ok(Counters {
            waiting: text(0),
            ledger_ranges: text(1),
            output_bytes: text(2),
            fence: text(3),
        })
    }

    /// Returns the counter of kept output bytes for each job.
    async fn output_sizes(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let (mut said, mut cursor) = (BTreeMap::new(), 0_u64);
        loop {
            let mut pipeline = redis::pipe();
            pipeline.cmd("HSCAN").arg(self.keys.output_sizes()).arg(cursor).arg("COUNT").arg(PAGE);
            let answer = self.link.query(&mut pipeline).await?;
            let Some(Value::Array(parts)) = answer.first() else { return Ok(said) };
            let [next, Value::Array(flat)] = parts.as_slice() else { return Ok(said) };
            said.extend(
                flat.chunks_exact(2)
                    .filter_map(|pair| Some((shown_member(&pair[0])?, shown_member(&pair[1])?))),
            );
            cursor = text_of(next).and_then(|text| text.parse().ok()).unwrap_or(0);
            if cursor == 0 {
                return Ok(said);
            }
        }
    }

    /// Calls `command` with each of these keys, and with `field` if given, and returns the numbers
    /// that Redis answers. A key of the wrong type gives 0. `names` are the keys without the
    /// namespace.
    async fn numbers(
        &self,
        command: &str,
        names: &[String],
        field: Option<&str>,
    ) -> Result<Vec<u64>, StoreError> {
        let mut numbers = Vec::with_capacity(names.len());
        for some in names.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            for name in some {
                let ask = pipeline.cmd(command).arg(member_bytes(&self.keys.whole(name)));
                if let Some(field) = field {
                    ask.arg(field);
                }
            }
            let answers = self.link.ask(&mut pipeline).await?;
            let number = |answer: &Result<Value, _>| {
                answer.as_ref().ok().and_then(number_of).and_then(|n| u64::try_from(n).ok())
            };
            numbers.extend(answers.iter().map(|answer| number(answer).unwrap_or(0)));
        }
        Ok(numbers)
    }
}

/// Returns the jobs whose counter of output bytes differs from the sum of their kept outputs.
/// `said` has the counter of each job. `sizes` has the size in bytes of each output in `outputs`.
fn wrong_sizes(
    said: &BTreeMap<String, String>,
    outputs: &[String],
    sizes: &[u64],
) -> Vec<SizeFacts> {
    let mut counted: BTreeMap<&str, u64> = said.keys().map(|job| (job.as_str(), 0)).collect();
    let jobs: Vec<(String, u64)> = outputs
        .iter()
        .zip(sizes)
        .filter_map(|(rest, size)| {
            Some((job_of(rest.strip_prefix("output:")?)?.to_string(), *size))
        })
        .collect();
    for (job, size) in &jobs {
        *counted.entry(job).or_default() += size;
    }
    let is_wrong = |job: &str, counted: u64| {
        said.get(job).map_or(counted != 0, |said| said.parse() != Ok(counted))
    };
    let wrong = counted.into_iter().filter(|(job, counted)| is_wrong(job, *counted));
    wrong
        .map(|(job, counted)| SizeFacts {
            job: job.to_owned(),
            said: said.get(job).cloned(),
            counted,
        })
        .collect()
}

fn fence_of(text: &str) -> Option<Fence> {
    text.parse().ok().and_then(Fence::new)
}
