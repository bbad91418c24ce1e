//! Making the books agree: one script for a job, one for a run, one for the counters. Each looks at everything anew.

use super::Store;
use super::error::StoreError;
use super::gates::names_of;
use super::jobs::JobRecord;
use super::quarantine::member_bytes;
use super::reply::Reply;
use super::runs::Successor;
use super::scripts::{self, Invocation};
use crate::domain::books::{CountFacts, SizeFacts};
use crate::domain::gate::Gate;
use crate::domain::ids::{Fence, JobName, RunId};
use crate::domain::lane::Lane;

/// What was done to make the books agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MendReply {
    /// These things, in words.
    Mended(Vec<String>),
    /// Nothing: everything agreed.
    Sound,
    /// The job changed: read it again.
    Stale,
    /// The run to plant has a record already.
    Occupied,
}

/// Jobs whose bytes of output are set in one call.
const SIZES: usize = 500;

impl MendReply {
    /// What two steps did together.
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

/// What is to be planted of a job if nothing is, and what frees its waiting runs.
#[derive(Debug, Clone)]
pub struct JobMending {
    /// The run to plant, if none is planned.
    pub planted: Option<Successor>,
    /// Whether the end of a run asked for by hand will free one that waits.
    pub has_manual_out: bool,
}

impl Store {
    /// Makes one job's places agree with its record, as read.
    pub async fn mend_job(
        &self,
        name: &JobName,
        record: Option<&JobRecord>,
        lanes: &[Lane],
        mending: &JobMending,
    ) -> Result<MendReply, StoreError> {
        let keys = &self.keys;
        let default = Lane::default_lane();
        self.note_lanes(record.iter().map(|record| &record.lane)).await?;
        let pending = record.and_then(|record| record.pending.as_ref());
        let planted = mending.planted.as_ref();
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
            .arg("now", self.now_arg())
            .arg("job_name", name.as_str())
            .arg("rev", record.map_or("", |record| record.rev.as_str()))
            .arg("pending", pending.map_or_else(String::new, RunId::to_string))
            .arg("planted", Successor::id(planted))
            .arg("planted_due", Successor::due(planted))
            .arg("planted_ready", Successor::ready(planted))
            .arg("freed_by", if mending.has_manual_out { "manual" } else { "" });
        for lane in lanes {
            call = call.key("due", keys.due(lane));
        }
        mended(self.link.invoke(&call).await?)
    }

    /// Makes one run's places agree with its record. `job_lane` is its job's, `found_under` the fence of a lease of it.
    pub async fn mend_run(
        &self,
        run: &RunId,
        job_lane: &Lane,
        lanes: &[Lane],
        found_under: Option<Fence>,
    ) -> Result<MendReply, StoreError> {
        self.note_lanes([job_lane]).await?;
        let (keys, job) = (&self.keys, run.job());
        let call = |places: &[Gate]| {
            let call = Invocation::new(&scripts::MEND_RUN)
                .key("run", keys.run(run))
                .key("job", keys.job(job))
                .key("jobs", keys.jobs())
                .key("job_due", keys.due(job_lane))
                .key("leases", keys.leases())
                .key("open", keys.open(job))
                .key("waiting", keys.waiting(job))
                .key("spread", keys.spread(job))
                .key("stops", keys.stops())
                .key("history", keys.history())
                .key("job_history", keys.job_history(job))
                .key("dead", keys.dead())
                .key("job_dead", keys.job_dead(job))
                .key("finished", keys.finished())
                .key("totals", keys.totals())
                .key("nudge", keys.nudge())
                .arg("now", self.now_arg())
                .arg("id", run.to_string())
                .arg("job_name", job.as_str())
                .arg("due_ms", run.due().as_i64())
                .arg("kind", if run.is_manual() { "manual" } else { "regular" })
                .arg("fence", found_under.map_or_else(String::new, |fence| fence.to_string()))
                .arg("gates", names_of(places));
            let with_lane = |call: Invocation, lane: &Lane| {
                let queue = lane.queue();
                call.key("due", keys.due(lane)).key("running", keys.running(queue)).arg("queue", queue.as_str())
            };
            lanes.iter().fold(call, with_lane).gate_keys(keys, places)
        };
        mended(self.invoke_at_gates(&[], call).await?)
    }

    /// Sets the counters to what they count, if they still say what they said then.
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
        // As it stands there, which may be no text.
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
