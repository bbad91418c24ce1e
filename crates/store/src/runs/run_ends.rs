//! The steps of one run besides its claim: skipping, finishing, recovery, and planning by hand.

use std::time::Duration;

use super::claims::Claim;
use super::successor::Successor;
use crate::Store;
use crate::gates::gate_calls::names_of;
use crate::jobs::rev::Rev;
use crate::server::member_text::shown_member;
use crate::server::redis_keys::parse_lease_member;
use crate::server::reply::{Reply, text_of};
use crate::server::scripts;
use crate::server::scripts::Invocation;
use crate::server::scripts::millis;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_note::RunNote;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{Fence, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// An order to skip a range of occurrences that must not run.
#[derive(Debug, Clone)]
pub struct SkipOrder {
    /// The pending run, which is the first occurrence of the range.
    pub run: RunId,
    /// The revision of the job that the order was computed from.
    pub rev: Rev,
    /// The lane of the job.
    pub lane: Lane,
    /// The reason for skipping the range: `missed`.
    pub reason: &'static str,
    /// The last occurrence of the range.
    pub last_due: UnixMillis,
    /// The number of occurrences in the range, exact up to 100,000. The value 100,001 means more
    /// than 100,000 occurrences.
    pub count: u64,
    /// The next run to add to the due set, after the skipped range; None if none remains.
    pub successor: Option<Successor>,
}

/// The result of an order to skip a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReply {
    /// The range was recorded as skipped.
    Skipped,
    /// Another node skipped or claimed the pending run first.
    Gone,
    /// The pending run has begun or ended according to its record, or its record cannot be read.
    /// The next claim removes such a run from the due set.
    Over,
    /// The job changed. The caller must read the job and decide again.
    Stale,
    /// The successor's occurrence already has a record. The caller must choose the next occurrence.
    Occupied,
}

/// The outcome with which an attempt is ended in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The run has ended in this state.
    Final(RunState),
    /// The attempt failed. The run is retried after this delay.
    Retry(Duration),
    /// The run is handed back because it was not executed or was cut short. Another node may take
    /// the run at once.
    Release,
    /// The run is handed back unexecuted. Its `done_check` runs again after this delay.
    AskLater(Duration),
}

/// The result of ending an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReply {
    /// The run has ended. The value is the number of its job's runs in history.
    Finished(u32),
    /// The run waits for another attempt until this time.
    Retrying(UnixMillis),
    /// The run was handed back and waits for another node.
    Released,
    /// The run was handed back and waits until this time. Then its `done_check` runs again.
    AskingLater(UnixMillis),
    /// The claim no longer has the lease of the run. Nothing was changed.
    Lost,
}

/// A lease that may have ended, as [`Store::list_leases`] read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredLease {
    /// The run whose lease this is.
    pub run: RunId,
    /// The fence of the claim that has the lease.
    pub fence: Fence,
    /// The end of the lease in ms, as text. The run is recovered only if the end is still the same.
    pub end: String,
}

/// The fate of a run that is taken back from a dead node: a retry or an end.
#[derive(Debug, Clone)]
pub struct Recovery {
    /// The final state of the run; None to retry the run.
    pub verdict: Option<RunState>,
    /// The reason for the retry or the end, shown in the history.
    pub reason: String,
    /// The record of the lost attempt as JSON.
    pub past: String,
    /// The lane the run was claimed from.
    pub lane: Lane,
    /// The lane of the job.
    pub job_lane: Lane,
    /// The gates at which the run has places, as read from the run's record.
    pub places: Vec<Gate>,
}

/// The result of recovering a run from a dead node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoverReply {
    /// The run is due again, for another attempt.
    Recovered,
    /// The run has ended.
    Ended,
    /// The node renewed its lease, so the run was left to the node.
    Alive,
    /// Another node recovered or ended the run first.
    Gone,
}

/// The result of adding a manual run to the due set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManualReply {
    /// The manual run is in the due set and ready now.
    Planted,
    /// The job does not exist.
    Unknown,
    /// The job's lane changed. The caller must read the job again.
    Stale,
}

impl Store {
    /// Skips a job's pending run and the occurrences of the range after it, and adds the successor
    /// to the due set.
    pub async fn skip_run(&self, order: &SkipOrder) -> Result<SkipReply, StoreError> {
        let job = order.run.job();
        let next = order.successor.as_ref();
        let call = self
            .call(&scripts::SKIP_RUN)
            .of_run(&order.run)
            .of_job_lane(&order.lane)
            .key("successor_run", self.successor_key(next, job))
            .arg("rev", order.rev.as_str())
            .arg("lane", order.lane.as_str())
            .arg("reason", order.reason)
            .arg("last_due_ms", order.last_due.as_i64())
            .arg("count", order.count)
            .successor("successor", next);
        let reply = self.link.invoke_where_trusted(&call).await?;
        Ok(match reply.word.as_str() {
            "skipped" => SkipReply::Skipped,
            "gone" => SkipReply::Gone,
            "over" => SkipReply::Over,
            "stale" => SkipReply::Stale,
            "occupied" => SkipReply::Occupied,
            _ => return Err(reply.unknown()),
        })
    }

    /// Ends an attempt with this verdict. `facts` are fields for the run's record. `past` is the
    /// record of the attempt as JSON; it is kept if a later attempt overwrites the run's record.
    pub async fn finish_run(
        &self,
        claim: &Claim,
        verdict: &Verdict,
        reason: &str,
        facts: &[(&str, String)],
        past: &str,
    ) -> Result<FinishReply, StoreError> {
        let (word, ready_in) = match verdict {
            Verdict::Final(state) => (state.as_str(), Duration::ZERO),
            Verdict::Retry(delay) => ("retry", *delay),
            Verdict::Release => ("release", Duration::ZERO),
            Verdict::AskLater(delay) => ("ask_later", *delay),
        };
        let call = |lane: &Lane, read: &str, places: &[Gate]| {
            let call = self
                .call(&scripts::FINISH_RUN)
                .of_run(&claim.run)
                .of_lane(&claim.lane)
                .of_job_lane(lane);
            let call = call
                .arg("fence", claim.fence.as_u64())
                .arg("verdict", word)
                .arg("reason", reason)
                .arg("ready", millis(ready_in))
                .arg("past", past)
                .arg("job_lane", read)
                .arg("gates", names_of(places))
                .gate_keys(&self.keys, places);
            facts
                .iter()
                .fold(call, |call, (field, value)| call.arg("field", *field).arg("value", value))
        };
        let mut reply = self.finish_with_gates(&claim.job_lane, &claim.places, call).await?;
        Ok(match reply.word.as_str() {
            "finished" => FinishReply::Finished(reply.count()?),
            "retrying" => FinishReply::Retrying(reply.instant()?),
            "released" => FinishReply::Released,
            "asking_later" => FinishReply::AskingLater(reply.instant()?),
            "lost" => FinishReply::Lost,
            _ => return Err(reply.unknown()),
        })
    }

    /// Takes a run back from a node that stopped renewing its lease.
    pub async fn recover_run(
        &self,
        lease: &ExpiredLease,
        recovery: &Recovery,
    ) -> Result<RecoverReply, StoreError> {
        let call = |lane: &Lane, read: &str, places: &[Gate]| {
            self.call(&scripts::RECOVER_RUN)
                .of_run(&lease.run)
                .of_lane(&recovery.lane)
                .of_job_lane(lane)
                .arg("fence", lease.fence.as_u64())
                .arg("seen", &lease.end)
                .arg("verdict", recovery.verdict.map_or("retry", RunState::as_str))
                .arg("reason", &recovery.reason)
                .arg("past", &recovery.past)
                .arg("job_lane", read)
                .arg("gates", names_of(places))
                .gate_keys(&self.keys, places)
        };
        let reply = self.finish_with_gates(&recovery.job_lane, &recovery.places, call).await?;
        Ok(match reply.word.as_str() {
            "recovered" => RecoverReply::Recovered,
            "ended" => RecoverReply::Ended,
            "alive" => RecoverReply::Alive,
            "gone" => RecoverReply::Gone,
            _ => return Err(reply.unknown()),
        })
    }

    /// Calls a script that ends an attempt. `read` is the lane of the job and `places` are the
    /// gates of the run, as the caller read them. The call is repeated with the new lane if the job
    /// moved to another lane during the run.
    async fn finish_with_gates(
        &self,
        read: &Lane,
        places: &[Gate],
        call: impl Fn(&Lane, &str, &[Gate]) -> Invocation,
    ) -> Result<Reply, StoreError> {
        let (mut lane, mut said) = (read.clone(), read.to_string());
        loop {
            let mut reply =
                self.invoke_at_gates(places, |places| call(&lane, &said, places)).await?;
            if reply.word != "moved" {
                return Ok(reply);
            }
            said = reply.text()?;
            // A malformed lane is corrupt data. The run still ends, and its successor goes to the
            // lane read before.
            lane = said.parse().unwrap_or(lane);
        }
    }

    /// Lists at most `limit` leases, the earliest end first. A malformed lease comes back as the
    /// texts of its member and its end.
    pub async fn list_leases(
        &self,
        limit: usize,
    ) -> Result<Vec<Result<ExpiredLease, (String, String)>>, StoreError> {
        self.list_leases_after(0, limit).await
    }

    /// Lists at most `limit` leases after the first `skip`, as [`Store::list_leases`] does.
    pub async fn list_leases_after(
        &self,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Result<ExpiredLease, (String, String)>>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.leases())
            .arg(skip)
            .arg((skip + limit).saturating_sub(1))
            .arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(redis::Value::Array(flat)) = answer.first() else { return Ok(Vec::new()) };
        let read = |pair: &[redis::Value]| {
            let (member, end) = (shown_member(&pair[0])?, text_of(&pair[1])?);
            // A lease with an invalid end is still listed, because its run would otherwise stay
            // open for ever.
            Some(match parse_lease_member(&member) {
                Some((run, fence)) => Ok(ExpiredLease { run, fence, end }),
                None => Err((member, end)),
            })
        };
        Ok(flat.chunks_exact(2).filter_map(read).collect())
    }

    /// Adds a manual run that is ready now to the due set. `lane` is the job's lane as read, and
    /// `note` is that of the user who asks for the run.
    pub async fn plant_manual(
        &self,
        run: &RunId,
        lane: &Lane,
        note: Option<&RunNote>,
    ) -> Result<ManualReply, StoreError> {
        self.note_lanes([lane]).await?;
        let call = self
            .call(&scripts::PLANT_MANUAL)
            .of_run(run)
            .of_job_lane(lane)
            .arg("lane", lane.as_str())
            .arg("by", &*self.by)
            .optional("note", note);
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "planted" => ManualReply::Planted,
            "unknown" => ManualReply::Unknown,
            "stale" => ManualReply::Stale,
            _ => return Err(reply.unknown()),
        })
    }
}
