//! The content of a walk's Redis as lines. The lines of the model and of the real Redis are equal
//! if the contents are.

use std::collections::HashMap;
use std::fmt::Write as _;

use redis::Value;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::Fence;

use super::real::{Real, id, job_of};
use super::redis::{ONCE, Redis, Verdict};
use super::state::State;

impl Real {
    /// Returns the content of the model as lines.
    pub(super) fn wanted(&self, redis: &Redis) -> String {
        let mut text = String::new();
        for run in State::runs(&self.rules) {
            let found = &redis.runs[run];
            let record = found.record.map(|record| {
                let fence = (record.fence > 0).then(|| self.fence(record.fence));
                let settled = record
                    .settled
                    .map(|(fence, verdict)| (self.fence(fence), word(verdict).to_owned()));
                let by =
                    fence.map(|_| format!("n{} {}", record.claim.node, record.claim.incarnation));
                let counts = [record.attempt, record.recoveries, record.unclear].map(u64::from);
                line(record.state, counts, fence, settled.as_ref(), by.as_deref())
            });
            let lease = found.lease.map(|lease| self.fence(lease.fence).as_u64());
            let indexes = [
                found.due,
                found.waiting,
                found.open,
                found.stop,
                found.is_over(),
                found.is_dead(),
                found.is_dead(),
            ];
            writeln!(
                text,
                "{}: {indexes:?} lease {lease:?}, {}",
                id(run),
                record.unwrap_or_default()
            )
            .unwrap();
        }
        let pending = redis.pending.map(|run| id(run.into()).to_string()).unwrap_or_default();
        let once = if redis.is_once_pending { id(ONCE).to_string() } else { String::new() };
        text + &format!(
            "pending {pending:?} and {once:?}, removed: {}, one-shot over: {}\n",
            redis.cron.is_removed, redis.is_once_over
        )
    }

    /// Returns the content of the real Redis as lines.
    pub(super) fn held(&mut self) -> String {
        let runs: Vec<usize> = State::runs(&self.rules).collect();
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.world.key("leases")).arg(0).arg(-1);
        for (job, fields) in [("cron", &["pending", "ended"][..]), ("once", &["pending", "ended"])]
        {
            pipeline.cmd("HMGET").arg(self.world.key(&format!("job:{job}"))).arg(fields);
        }
        for run in &runs {
            let (run, job) = (id(*run).to_string(), job_of(*run));
            let of_job = |index: &str| format!("{index}:{job}");
            for index in [
                "due:default",
                &of_job("waiting"),
                &of_job("open"),
                &of_job("history"),
                "dead",
                &of_job("dead"),
            ] {
                pipeline.cmd("ZSCORE").arg(self.world.key(index)).arg(&run);
            }
            pipeline.cmd("HGET").arg(self.world.key("stop_requests")).arg(&run);
            pipeline.cmd("HGETALL").arg(self.world.key(&format!("run:{run}")));
        }
        let mut answers = pipeline.query::<Vec<Value>>(&mut self.connection).unwrap().into_iter();
        let mut next = || answers.next().unwrap();
        let leases: Vec<String> = redis::from_redis_value(next()).unwrap();
        let [cron, removed]: [Option<String>; 2] = redis::from_redis_value(next()).unwrap();
        let [once, ended]: [Option<String>; 2] = redis::from_redis_value(next()).unwrap();
        let mut text = String::new();
        for run in runs {
            let run = id(run);
            let [due, waiting, open, history, dead, job_dead, stop] =
                std::array::from_fn(|_| next() != Value::Nil);
            let indexes = [due, waiting, open, stop, history, dead, job_dead];
            let fences: Vec<u64> = leases
                .iter()
                .filter_map(|lease| lease.strip_prefix(&format!("{run}#"))?.parse().ok())
                .collect();
            assert!(fences.len() <= 1, "{leases:?}");
            let record: HashMap<String, String> = redis::from_redis_value(next()).unwrap();
            writeln!(
                text,
                "{run}: {indexes:?} lease {:?}, {}",
                fences.first(),
                record_line(&record)
            )
            .unwrap();
        }
        let (cron, once) = (cron.unwrap_or_default(), once.unwrap_or_default());
        text + &format!(
            "pending {cron:?} and {once:?}, removed: {}, one-shot over: {}\n",
            removed.is_some(),
            ended.is_some()
        )
    }
}

fn line(
    state: RunState,
    [attempt, recoveries, unclear]: [u64; 3],
    fence: Option<Fence>,
    settled: Option<&(Fence, String)>,
    by: Option<&str>,
) -> String {
    format!(
        "{state}, attempt {attempt}, recoveries {recoveries}, unclear {unclear}, fence {fence:?} of {by:?}, settled {settled:?}"
    )
}

/// Returns the content of a run's hash, in the form of [`line`].
fn record_line(record: &HashMap<String, String>) -> String {
    let Some(state) = record.get("state") else { return String::new() };
    let number = |field: &str| record.get(field).and_then(|text| text.parse().ok());
    let fence = |field: &str| number(field).and_then(Fence::new);
    let settled = fence("verdict_fence").zip(record.get("verdict").cloned());
    let by = record.get("node").map(|node| format!("{node} {}", record["incarnation"]));
    let counts = ["attempt", "recoveries", "unclear"].map(|field| number(field).unwrap_or(0));
    line(state.parse().unwrap(), counts, fence("fence"), settled.as_ref(), by.as_deref())
}

/// Returns a verdict as `finish_run` stores it.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Succeeded => "succeeded",
        Verdict::Cancelled => "cancelled",
        Verdict::Failed => "failed",
        Verdict::Lost => "lost",
        Verdict::Retry => "retry",
        Verdict::Release => "release",
        Verdict::AskLater => "ask_later",
    }
}
