//! Repairs of the consistency check: one script repairs a job, one a run and one the counters. Each
//! script checks all facts again before it changes data.

use super::quarantine::member_bytes;
use crate::Store;
use crate::gates::gate_calls::names_of;
use crate::jobs::job_records::JobRecord;
use crate::runs::successor::Successor;
use crate::server::reply::Reply;
use crate::server::scripts;
use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;
use schedd_core::domain::consistency::{CountFacts, PlacedRun, RunPlace, RunRepair, SizeFacts};
use schedd_core::domain::job::unique_rule::Second;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{Fence, JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MendReply {
    /// The changes made, in words.
    Mended(Vec<String>),
    /// The data was correct, so nothing was changed.
    Sound,
    /// The job changed since the caller read it. The caller must read the job again.
    Stale,
    /// The occurrence that the repair wanted to plan already has a record. The caller must choose
    /// the next occurrence.
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
    /// The entry that the job should have in the index of jobs by first gate; None if the job has
    /// no gate.
    pub gated: Option<String>,
    /// The new time from which `every` counts its intervals, if `planted` replaces a run that was
    /// planned while Redis' clock was ahead. None keeps the planned run.
    pub anchor: Option<UnixMillis>,
    /// The rule for a second job with the unique key of this job; None if the job has no unique
    /// key.
    pub unique: Option<Second>,
}

impl Store {
    /// Repairs the index entries of these jobs in one pipeline.
    pub async fn mend_jobs(
        &self,
        jobs: &[JobMending],
        lanes: &[Lane],
    ) -> Result<Vec<Result<MendReply, StoreError>>, StoreError> {
        self.note_lanes(
            jobs.iter().filter_map(|job| job.record.as_ref()).map(|record| &record.lane),
        )
        .await?;
        let calls: Vec<Invocation> = jobs.iter().map(|job| self.repair_job(job, lanes)).collect();
        Ok(self.link.invoke_all(&calls).await?.into_iter().map(|reply| mended(reply?)).collect())
    }

    fn repair_job(&self, mending: &JobMending, lanes: &[Lane]) -> Invocation {
        let (keys, name, record) = (&self.keys, &mending.name, mending.record.as_ref());
        let unique = record.and_then(|record| record.unique.as_ref());
        let default = Lane::default_lane();
        let pending = record.and_then(|record| record.pending.as_ref());
        let planted = mending.planted.as_ref();
        let pending_ready = mending.pending_ready.or_else(|| pending.map(RunId::due));
        let mut call = self
            .call(&scripts::REPAIR_JOB)
            .of_job(name)
            .of_job_lane(record.map_or(&default, |record| &record.lane))
            .key("pending_run", pending.map_or_else(|| keys.job(name), |run| keys.run(run)))
            .key("planted_run", self.successor_key(planted, name))
            .key("unique", unique.map_or_else(|| keys.job(name), |key| keys.unique(key)))
            .arg("rev", record.map_or("", |record| record.rev.as_str()))
            .optional("pending", pending)
            .successor("planted", planted)
            .arg("pending_ready", pending_ready.map_or(0, UnixMillis::as_i64))
            .arg("gate_entry", mending.gated.as_deref().unwrap_or_default())
            .optional("anchor", mending.anchor.map(UnixMillis::as_i64))
            .arg("unique_mode", mending.unique.map_or("", Second::mode));
        for lane in lanes {
            call = call.item().of_lane(lane);
        }
        call
    }

    /// Makes the index entries of these runs agree with their records, in one pipeline. A run that
    /// changed since its facts were read is left as it is. No call is made for a run with nothing
    /// to repair.
    pub async fn mend_runs(
        &self,
        runs: &[PlacedRun],
    ) -> Result<Vec<Result<MendReply, StoreError>>, StoreError> {
        let lanes: Vec<Lane> = runs.iter().map(PlacedRun::own_lane).collect();
        self.note_lanes(lanes.iter()).await?;
        let changes: Vec<RunRepair> = runs.iter().map(PlacedRun::repair).collect();
        let to_mend = runs.iter().zip(&changes).filter(|(_, repair)| !repair.wanted.is_empty());
        let calls: Vec<Invocation> =
            to_mend.map(|(facts, repair)| self.repair_run(facts, repair)).collect();
        let replies =
            if calls.is_empty() { Vec::new() } else { self.link.invoke_all(&calls).await? };
        let mut replies = replies.into_iter().peekable();
        let reply = |repair: RunRepair| match replies.next_if(|_| !repair.wanted.is_empty()) {
            None => Ok(MendReply::Sound),
            Some(reply) => Ok(match mended(reply?)? {
                MendReply::Mended(_) => MendReply::Mended(repair.words),
                reply => reply,
            }),
        };
        Ok(changes.into_iter().map(reply).collect())
    }

    fn repair_run(&self, facts: &PlacedRun, repair: &RunRepair) -> Invocation {
        let (keys, run) = (&self.keys, &facts.run);
        let mut call = self
            .call(&scripts::REPAIR_RUN)
            .of_run(run)
            .of_job_lane(&facts.own_lane())
            .arg("seen", &facts.seen)
            .arg("gates", names_of(&facts.gates))
            .arg("gate_step", repair.gate_step)
            .arg("no_stop", if repair.wanted.contains_key(&RunPlace::Stops) { "1" } else { "" })
            .optional("ready", repair.ready.map(UnixMillis::as_i64));
        for (place, score) in facts.places.iter().filter(|(place, _)| **place != RunPlace::Stops) {
            let found = match (place, score) {
                (_, None) => "",
                (RunPlace::Lease(_), Some(_)) => "+",
                (_, Some(score)) => score,
            };
            call = call
                .item()
                .key("index", self.key_named(&place.key(run)))
                .arg("member", place.member(run))
                .arg("found", found)
                // The script removes a run from all sets of a gate in one step.
                .arg(
                    "wanted",
                    match repair.wanted.get(place) {
                        Some(score) if !matches!(place, RunPlace::Queued(_)) => score,
                        _ => "=",
                    },
                );
        }
        call.gate_keys(keys, &facts.gates)
    }

    /// Sets the counters to the counted values, if the counters have not changed since the count.
    pub async fn repair_counts(&self, facts: &CountFacts) -> Result<MendReply, StoreError> {
        let first = facts.sizes.len().min(SIZES);
        let (sizes, rest) = facts.sizes.split_at(first);
        let mut reply = self.mend_some_counts(facts, sizes).await?;
        for sizes in rest.chunks(SIZES) {
            reply = reply.and(
                self.mend_some_counts(
                    &CountFacts {
                        fence: facts.fence.clone(),
                        highest: facts.highest,
                        ..CountFacts::default()
                    },
                    sizes,
                )
                .await?,
            );
        }
        Ok(reply)
    }

    async fn mend_some_counts(
        &self,
        facts: &CountFacts,
        sizes: &[SizeFacts],
    ) -> Result<MendReply, StoreError> {
        let text =
            |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        // The stored value may not be text.
        let seen = |text: &Option<String>| text.as_deref().map_or_else(Vec::new, member_bytes);
        let highest = facts.highest.map_or(0, Fence::as_u64);
        let mut call = self
            .call(&scripts::REPAIR_COUNTS)
            .arg("waiting_seen", seen(&facts.waiting))
            .arg("waiting", text(facts.waiting_counted))
            .arg("bytes_seen", seen(&facts.output_bytes))
            .arg("bytes", text(facts.output_counted))
            .arg("highest", highest)
            .arg("ledger_seen", seen(&facts.ledger_ranges))
            .arg("ledger", text(facts.ledger_counted));
        for SizeFacts { job, said, counted } in sizes {
            call = call
                .arg("job", member_bytes(job))
                .arg("size_seen", seen(said))
                .arg("size", *counted);
        }
        mended(self.link.invoke(&call).await?)
    }
}

fn mended(mut reply: Reply) -> Result<MendReply, StoreError> {
    Ok(match reply.word.as_str() {
        "repaired" => {
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
