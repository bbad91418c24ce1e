//! Restoring runs that Redis lost: the ends of ended runs, and runs that were executing.

use crate::Store;
use crate::gates::gate_calls::names_of;
use crate::history::history_ledger::{LedgerRange, left_text};
use crate::jobs::rev::Rev;
use crate::runs::claims::Claim;
use crate::runs::successor::Successor;
use crate::server::scripts;
use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{Fence, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The state of a lost run, as far as a node knows the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownRun {
    /// The run ended, and its end is known.
    Ended,
    /// The run must not start again, and its end is unknown.
    Claimed,
}

impl KnownRun {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Claimed => "claimed",
        }
    }
}

/// An order to restore the end of a run.
#[derive(Debug, Clone)]
pub struct RestoreOrder {
    /// The id of the run whose end is restored.
    pub run: RunId,
    /// The epoch of the data to which the end is restored.
    pub epoch: String,
    /// The lane from which the run was claimed.
    pub lane: Lane,
    /// The job's lane as the caller read it, in which the next run is planned. None if the job
    /// could not be read.
    pub job_lane: Option<Lane>,
    /// The state of the run, as far as the node knows the state.
    pub known: KnownRun,
    /// The state of the run at its end.
    pub state: RunState,
    /// The reason of the run's end.
    pub reason: String,
    /// The time of the run's end.
    pub finished_at: UnixMillis,
    /// The fence of the run's last claim.
    pub fence: Fence,
    /// The job's revision and the run to plan next, if the restored run is the planned run of its
    /// job.
    pub planned: Option<(Rev, Option<Successor>)>,
    /// The `ranges_mark` that the job had when the caller read `taken_from` and `in_ledger`. If the job
    /// has another mark now, a range has changed, and the script replies `stale`.
    pub ranges_mark: String,
    /// The skipped range that includes this run, if any.
    pub taken_from: Option<TakenFrom>,
    /// The range of the job's ledger that contains this run, as the caller read it, if any.
    pub in_ledger: Option<InLedger>,
    /// If the run ended before this time, its notification was sent before the data loss and is not
    /// sent again.
    pub notified_before: UnixMillis,
    /// The remaining facts of the run, each as a field of its record and the value.
    pub facts: Vec<(String, String)>,
}

impl RestoreOrder {
    /// Returns the `ranges_mark` that the job has after this restore, if the job has a record.
    pub fn ranges_mark_after(&self) -> String {
        let is_reduced = self.taken_from.is_some()
            || matches!(&self.in_ledger, Some(InLedger { answer: LedgerAnswer::Skipped(_), .. }));
        if !is_reduced {
            return self.ranges_mark.clone();
        }
        let text = format!("{} {}", self.ranges_mark, self.run);
        sha1_smol::Sha1::from(text).digest().to_string()
    }
}

/// A skipped range that includes a run, and the same range without that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenFrom {
    /// The skipped range as the caller read it.
    pub skipped_range: SkippedRange,
    /// The rest of the range without the run; None if the range included only that run.
    pub rest: Option<SkippedRange>,
}

/// A range of a job's ledger that contains a run, and what the range says about the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InLedger {
    /// The ledger range as the caller read it.
    pub range: LedgerRange,
    /// The state in which the range counts the run, if it counts the run.
    pub answer: LedgerAnswer,
}

/// The state in which a ledger range counts a run that lies within the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerAnswer {
    /// The range does not count the run.
    Nothing,
    /// The range counts the run with its true end.
    End,
    /// The range counts the run as skipped. The value is the rest of the range without the run;
    /// None if no rest remains.
    Skipped(Option<SkippedRange>),
}

/// The result of restoring the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreReply {
    /// The end was written.
    Restored,
    /// The end was not written, because Redis has this end or a later state of the run.
    Known,
    /// The job, or the range that counts the run as skipped, changed. The caller must read both
    /// again.
    Stale,
    /// The occurrence of the next run already has a record. The caller must choose the next
    /// occurrence.
    Occupied,
    /// The end was not written, because the data has another epoch by now.
    Moved,
}

/// The result of restoring a run that was executing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnReply {
    /// The run is due again.
    Returned,
    /// The data has the epoch of the claim, or no epoch yet. The run was not lost.
    Same,
    /// Redis has a record of the run. The run was not lost.
    Known,
    /// The job of the run does not exist.
    Unknown,
}

impl LedgerAnswer {
    /// Returns the argument `left` of `restore_run.lua`: `all` if the range does not count the run,
    /// and `known` if it counts the run with its true end. Else the rest of the range as
    /// `FIRST:LAST:COUNT`, which is empty if no rest remains.
    fn left(self) -> String {
        match self {
            Self::Nothing => "all".to_owned(),
            Self::End => "known".to_owned(),
            Self::Skipped(left) => left_text(left),
        }
    }
}

impl Store {
    /// Restores the ends of runs. The results have the order of `orders`.
    pub async fn restore_runs(
        &self,
        orders: &[RestoreOrder],
    ) -> Result<Vec<Result<RestoreReply, StoreError>>, StoreError> {
        if orders.is_empty() {
            return Ok(Vec::new());
        }
        let mut lanes: Vec<&Lane> = Vec::with_capacity(orders.len() * 2);
        for order in orders {
            lanes.extend([Some(&order.lane), order.job_lane.as_ref()].into_iter().flatten());
        }
        self.note_lanes(lanes).await?;
        let calls: Vec<Invocation> =
            orders.iter().map(|order| self.restoring(order, &[])).collect();
        let mut replies = self.link.invoke_all(&calls).await?;
        for (order, answer) in orders.iter().zip(&mut replies) {
            if let Ok(reply) = answer
                && reply.word == "places"
            {
                let places = Gate::all_in(&reply.text()?);
                *answer =
                    self.invoke_at_gates(&places, |places| self.restoring(order, places)).await;
            }
        }
        let read = |reply: Result<crate::server::reply::Reply, StoreError>| {
            let reply = reply?;
            match reply.word.as_str() {
                "restored" => Ok(RestoreReply::Restored),
                "known" => Ok(RestoreReply::Known),
                "stale" => Ok(RestoreReply::Stale),
                "occupied" => Ok(RestoreReply::Occupied),
                "moved" => Ok(RestoreReply::Moved),
                _ => Err(reply.unknown()),
            }
        };
        Ok(replies.into_iter().map(read).collect())
    }

    fn restoring(&self, order: &RestoreOrder, places: &[Gate]) -> Invocation {
        let (keys, job) = (&self.keys, order.run.job());
        let next = order.planned.as_ref().and_then(|(_, next)| next.as_ref());
        let job_lane = order.job_lane.as_ref().unwrap_or(&order.lane);
        let call = self
            .call(&scripts::RESTORE_RUN)
            .of_run(&order.run)
            .of_lane(&order.lane)
            .of_job_lane(job_lane);
        let run_at = |due: UnixMillis| RunId::regular(job.clone(), due);
        let taken = order.taken_from;
        let rest = taken.and_then(|taken| taken.rest);
        let range_run =
            taken.map_or_else(|| order.run.clone(), |taken| run_at(taken.skipped_range.first));
        let rest_run = rest.map(|rest| run_at(rest.first));
        let number =
            |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
        let call = call
            .key("successor_run", self.successor_key(next, job))
            .key("range_run", keys.run(&range_run))
            .key("rest_run", keys.run(rest_run.as_ref().unwrap_or(&order.run)))
            .arg("read", &order.epoch)
            .arg("lane", order.lane.as_str())
            .arg("known", order.known.as_str())
            .arg("state", order.state.as_str())
            .arg("reason", &order.reason)
            .arg("finished_at", order.finished_at.as_i64())
            .arg("fence", order.fence.as_u64())
            .arg("rev", order.planned.as_ref().map_or("", |(rev, _)| rev.as_str()))
            .successor("successor", next)
            .arg("gates", names_of(places))
            .arg("ranges_mark", &order.ranges_mark)
            .arg("range_to", number(taken.map(|taken| taken.skipped_range.last.as_i64())))
            .arg("range_count", taken.map_or(0, |taken| taken.skipped_range.count))
            .optional("rest", rest_run.as_ref())
            .arg("rest_due", number(rest.map(|rest| rest.first.as_i64())))
            .arg("rest_to", number(rest.map(|rest| rest.last.as_i64())))
            .arg("rest_count", rest.map_or(0, |rest| rest.count))
            .arg("job_lane", order.job_lane.as_ref().map_or("", Lane::as_str))
            .arg("notified_before", order.notified_before.as_i64())
            .arg(
                "range",
                order.in_ledger.as_ref().map_or_else(String::new, |ledger| ledger.range.name()),
            )
            .arg(
                "left",
                order.in_ledger.as_ref().map_or_else(String::new, |ledger| ledger.answer.left()),
            )
            .gate_keys(keys, places);
        order
            .facts
            .iter()
            .fold(call, |call, (field, value)| call.arg("field", field).arg("value", value))
    }

    /// Makes a run due again after its lease and record were lost. `claimed_in` is the epoch in
    /// which the run was claimed.
    pub async fn return_run(
        &self,
        claim: &Claim,
        claimed_in: &str,
        reason: &str,
    ) -> Result<ReturnReply, StoreError> {
        self.note_lanes([&claim.lane]).await?;
        let call = self
            .call(&scripts::RETURN_RUN)
            .of_run(&claim.run)
            .of_lane(&claim.lane)
            .arg("claimed_in", claimed_in)
            .arg("lane", claim.lane.as_str())
            .arg("attempt", claim.attempt)
            .arg("fence", claim.fence.as_u64())
            .arg("reason", reason);
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "returned" => ReturnReply::Returned,
            "same" => ReturnReply::Same,
            "known" => ReturnReply::Known,
            "unknown" => ReturnReply::Unknown,
            _ => return Err(reply.unknown()),
        })
    }
}
