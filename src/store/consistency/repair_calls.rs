//! Repairs of the consistency check, with one script for a job, one for a run and one for the
//! counters. Each script checks all facts again before it changes data.

use super::quarantine::member_bytes;
use crate::domain::consistency::{CountFacts, SizeFacts};
use crate::domain::name::names::{Fence, JobName, RunId};
use crate::domain::queue::gate::Gate;
use crate::domain::queue::lane::Lane;
use crate::domain::time::unix_millis::UnixMillis;
use crate::store::Store;
use crate::store::gates::gate_calls::names_of;
use crate::store::jobs::job_records::JobRecord;
use crate::store::runs::successor::Successor;
use crate::store::server::reply::Reply;
use crate::store::server::scripts;
use crate::store::server::scripts::Invocation;
use crate::store::server::store_error::StoreError;

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MendReply {
    /// The changes made, in words.
    Mended(Vec<String>),
    /// The data was correct, so nothing was changed.
    Sound,
    /// The job changed since the caller read it. The caller must read the job again.
    Stale,
    /// The planned run to add already has a record.
    Occupied,
}

/// The most jobs whose output counters are set in one call.
const SIZES: usize = 500;

impl MendReply {
    /// Combines the results of two repair steps into one result.
    fn and(self, next: Self) -> Self {
        match (self, next) {
            (Self::Mended(mut done), Self::Mended(more)) => {
                done.extend(more);
                Self::Mended(done)
            }
            (done @ Self::Mended(_), _) => done,
            (_, next) => next,
        }
    }
}

/// An order to make the index entries of a job agree with its record.
#[derive(Debug, Clone)]
pub struct JobMending {
    /// The name of the job to repair.
    pub name: JobName,
    /// The job's record as the caller read it; None if the job has no record.
    pub record: Option<JobRecord>,
    /// The run to add to the due set if the job has no planned run.
    pub planted: Option<Successor>,
    /// The ready time to give the planned run if the run is missing in the due set. None means its
    /// due time.
    pub pending_ready: Option<UnixMillis>,
    /// The entry that the job should have in the index by first gate; None if it should have none.
    pub gated: Option<String>,
    /// The new time from which `every` counts, if `planted` corrects what a clock that was ahead
    /// planned or ended. None keeps the planned run.
    pub anchor: Option<UnixMillis>,
}

/// An order to make the index entries of a run agree with its record.
#[derive(Debug, Clone)]
pub struct RunMending {
    /// The id of the run to repair.
    pub run: RunId,
    /// The lane of the run, which is the lane of its job or a lane of its host.
    pub lane: Lane,
    /// The fence of the lease that led to this run; None if no lease led to the run.
    pub found_under: Option<Fence>,
    /// The correct ready time, if the run is planned for later than the job's rules allow.
    pub ready: Option<UnixMillis>,
}

impl Store {
    /// Repairs the index entries of these jobs in one pipeline.
    pub async fn mend_jobs(&self, jobs: &[JobMending], lanes: &[Lane]) -> Result<Vec<Result<MendReply, StoreError>>, StoreError> {
        self.note_lanes(jobs.iter().filter_map(|job| job.record.as_ref()).map(|record| &record.lane)).await?;
        let calls: Vec<Invocation> = jobs.iter().map(|job| self.mend_job(job, lanes)).collect();
        Ok(self.link.invoke_all(&calls).await?.into_iter().map(|reply| mended(reply?)).collect())
    }

    fn mend_job(&self, mending: &JobMending, lanes: &[Lane]) -> Invocation {
        let (keys, name, record) = (&self.keys, &mending.name, mending.record.as_ref());
        let default = Lane::default_lane();
        let pending = record.and_then(|record| record.pending.as_ref());
        let planted = mending.planted.as_ref();
        let pending_ready = mending.pending_ready.or_else(|| pending.map(RunId::due));
        let mut call = Invocation::new(&scripts::MEND_JOB)
            .key("job", keys.job(name))
            .key("jobs", keys.jobs())
            .key("finished", keys.finished())
            .key("job_due", keys.due(record.map_or(&default, |record| &record.lane)))
            .key("open", keys.open(name))
            .key("waiting", keys.waiting(name))
            .key("pending_run", pending.map_or_else(|| keys.job(name), |run| keys.run(run)))
            .key("planted_run", self.successor_key(planted, name))
            .key("totals", keys.totals())
            .key("nudge", keys.nudge())
            .key("backfill", keys.backfill(name))
            .key("backfills", keys.backfills())
            .key("gated", keys.gated())
            .key("manual", keys.manual(name))
            .key("history", keys.history())
            .key("job_history", keys.job_history(name))
            .arg("now", self.now_arg())
            .arg("job_name", name.as_str())
            .arg("rev", record.map_or("", |record| record.rev.as_str()))
            .arg("pending", pending.map_or_else(String::new, RunId::to_string))
            .arg("planted", Successor::id(planted))
            .arg("planted_due", Successor::due(planted))
            .arg("planted_ready", Successor::ready(planted))
            .arg("pending_ready", pending_ready.map_or(0, UnixMillis::as_i64))
            .arg("gated", mending.gated.as_deref().unwrap_or_default())
            .arg("anchor", mending.anchor.map_or_else(String::new, |at| at.as_i64().to_string()));
        for lane in lanes {
            call = call.key("due", keys.due(lane));
        }
        call
    }

    /// Repairs the index entries of these runs in one pipeline. If a run has places at gates, its
    /// script is called again with these gates.
    pub async fn mend_runs(&self, runs: &[RunMending], lanes: &[Lane]) -> Result<Vec<Result<MendReply, StoreError>>, StoreError> {
        self.note_lanes(runs.iter().map(|run| &run.lane)).await?;
        let calls: Vec<Invocation> = runs.iter().map(|run| self.mend_run(run, lanes, &[])).collect();
        let mut replies = Vec::with_capacity(runs.len());
        for (run, reply) in runs.iter().zip(self.link.invoke_all(&calls).await?) {
            replies.push(match reply {
                Ok(mut reply) if reply.word == "places" => {
                    let places = Gate::all_in(&reply.text()?);
                    self.invoke_at_gates(&places, |places| self.mend_run(run, lanes, places)).await.and_then(mended)
                }
                reply => reply.and_then(mended),
            });
        }
        Ok(replies)
    }

    fn mend_run(&self, mending: &RunMending, lanes: &[Lane], places: &[Gate]) -> Invocation {
        let (keys, run, job) = (&self.keys, &mending.run, mending.run.job());
        let mut call = self
            .ended_keys(Invocation::new(&scripts::MEND_RUN), run, &mending.lane)
            .key("jobs", keys.jobs())
            .key("leases", keys.leases())
            .key("spread", keys.spread(job))
            .key("stops", keys.stops())
            .key("manual", keys.manual(job))
            .key("deadlines", keys.deadlines())
            .arg("now", self.now_arg())
            .arg("id", run.to_string())
            .arg("job_name", job.as_str())
            .arg("due_ms", run.due().as_i64())
            .arg("kind", if run.is_manual() { "manual" } else { "regular" })
            .arg("fence", mending.found_under.map_or_else(String::new, |fence| fence.to_string()))
            .arg("gates", names_of(places))
            .arg("ready", mending.ready.map_or_else(String::new, |at| at.as_i64().to_string()));
        for lane in lanes {
            let queue = lane.queue();
            call = call.key("due", keys.due(lane)).key("running", keys.running(queue)).arg("queue", queue.as_str());
        }
        call.gate_keys(keys, places)
    }

    /// Sets the counters to the counted values, if the counters have not changed since the count.
    pub async fn mend_counts(&self, facts: &CountFacts) -> Result<MendReply, StoreError> {
        let first = facts.sizes.len().min(SIZES);
        let (sizes, rest) = facts.sizes.split_at(first);
        let mut reply = self.mend_some_counts(facts, sizes).await?;
        for sizes in rest.chunks(SIZES) {
            reply = reply.and(
                self.mend_some_counts(
                    &CountFacts { fence: facts.fence.clone(), highest: facts.highest, ..CountFacts::default() },
                    sizes,
                )
                .await?,
            );
        }
        Ok(reply)
    }

    async fn mend_some_counts(&self, facts: &CountFacts, sizes: &[SizeFacts]) -> Result<MendReply, StoreError> {
        let text = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        // The stored value may not be text.
        let seen = |text: &Option<String>| text.as_deref().map_or_else(Vec::new, member_bytes);
        let highest = facts.highest.map_or(0, Fence::as_u64);
        let mut call = Invocation::new(&scripts::MEND_COUNTS)
            .key("totals", self.keys.totals())
            .key("output_bytes", self.keys.output_bytes())
            .key("fence", self.keys.fence())
            .key("output_sizes", self.keys.output_sizes())
            .arg("waiting_seen", seen(&facts.waiting))
            .arg("waiting", text(facts.waiting_counted))
            .arg("bytes_seen", seen(&facts.output_bytes))
            .arg("bytes", text(facts.output_counted))
            .arg("highest", highest)
            .arg("ledger_seen", seen(&facts.ledger_ranges))
            .arg("ledger", text(facts.ledger_counted));
        for SizeFacts { job, said, counted } in sizes {
            call = call.arg("job", member_bytes(job)).arg("size_seen", seen(said)).arg("size", *counted);
        }
        mended(self.link.invoke(&call).await?)
    }
}

fn mended(mut reply: Reply) -> Result<MendReply, StoreError> {
    Ok(match reply.word.as_str() {
        "mended" => {
            let mut done = Vec::new();
            while let Ok(word) = reply.text() {
                done.push(word);
            }
            MendReply::Mended(done)
        }
        "sound" => MendReply::Sound,
        "stale" => MendReply::Stale,
        "occupied" => MendReply::Occupied,
        _ => return Err(reply.unknown()),
    })
}
