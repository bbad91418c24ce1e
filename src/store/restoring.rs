//! Giving back to Redis what it lost: how runs ended, and runs that were going on.

use super::Store;
use super::claims::Claim;
use super::error::StoreError;
use super::gates::names_of;
use super::jobs::Rev;
use super::ledger::{LedgerRange, left_text};
use super::runs::Successor;
use super::scripts::{self, Invocation};
use crate::domain::gate::Gate;
use crate::domain::ids::{Fence, RunId};
use crate::domain::lane::Lane;
use crate::domain::lateness::Stretch;
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;

/// How much is known of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It ended.
    Ended,
    /// It may not start again, and how it ended is not known.
    Claimed,
}

impl Known {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Claimed => "claimed",
        }
    }
}

/// The end of a run to be written back.
#[derive(Debug, Clone)]
pub struct RestoreOrder {
    /// The run.
    pub run: RunId,
    /// The epoch this is done under.
    pub epoch: String,
    /// The queue it was claimed from.
    pub lane: Lane,
    /// The queue of its job as read, where the successor goes; none if the job could not be read.
    pub job_lane: Option<Lane>,
    /// How much is known.
    pub known: Known,
    /// How it ended.
    pub state: RunState,
    /// Why.
    pub reason: String,
    /// When.
    pub finished_at: UnixMillis,
    /// The fence it ended under.
    pub fence: Fence,
    /// The job's rev and next run, if this is its planned one.
    pub planned: Option<(Rev, Option<Successor>)>,
    /// How many stretches of its job had been told of when those that could tell of this run were read.
    pub told: u64,
    /// The stretch that tells of this run as skipped, if one does.
    pub taken_from: Option<TakenFrom>,
    /// The range of its job's ledger that holds this run, if one does, as read.
    pub in_ledger: Option<InLedger>,
    /// An end before this was told of before the loss, and is not told again.
    pub told_from: UnixMillis,
    /// Facts of the run, as fields of its record.
    pub facts: Vec<(String, String)>,
}

/// A stretch that tells of a run as skipped, and what is to be left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenFrom {
    /// It, as read.
    pub stretch: Stretch,
    /// What is left; none if it told of that run only.
    pub rest: Option<Stretch>,
}

/// A range of a ledger that holds a run, and what it tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InLedger {
    /// It, as read.
    pub range: LedgerRange,
    /// What it tells.
    pub tells: LedgerTells,
}

/// What a range of a ledger tells of a run it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerTells {
    /// Nothing: it tells of others only.
    Nothing,
    /// How it ended.
    End,
    /// That it was skipped; with what is left of the range without it.
    Skipped(Option<Stretch>),
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreReply {
    /// Written.
    Restored,
    /// Redis knows this end, or what came after it.
    Known,
    /// The job, or what tells of the run as skipped, was read otherwise: read it again.
    Stale,
    /// The successor's occurrence has a record already: decide on the one after it.
    Occupied,
    /// The data has another mark by now.
    Moved,
}

/// What became of a run that was going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnReply {
    /// It is due again.
    Returned,
    /// The data has the mark it had, or none yet.
    Same,
    /// Redis knows of it.
    Known,
    /// Its job is not there.
    Unknown,
}

impl LedgerTells {
    /// As `restore_run.lua` has it.
    fn left(self) -> String {
        match self {
            Self::Nothing => "all".to_owned(),
            Self::End => "known".to_owned(),
            Self::Skipped(left) => left_text(left),
        }
    }
}

impl Store {
    /// Writes back how runs ended. The order of the answers is that of the orders.
    pub async fn restore_runs(&self, orders: &[RestoreOrder]) -> Result<Vec<Result<RestoreReply, StoreError>>, StoreError> {
        if orders.is_empty() {
            return Ok(Vec::new());
        }
        let mut lanes: Vec<&Lane> = Vec::with_capacity(orders.len() * 2);
        for order in orders {
            lanes.extend([Some(&order.lane), order.job_lane.as_ref()].into_iter().flatten());
        }
        self.note_lanes(lanes).await?;
        let calls: Vec<Invocation> = orders.iter().map(|order| self.restoring(order, &[])).collect();
        let mut replies = self.link.invoke_all(&calls).await?;
        for (order, answer) in orders.iter().zip(&mut replies) {
            if let Ok(reply) = answer
                && reply.word == "places"
            {
                let places = Gate::all_in(&reply.text()?);
                *answer = self.invoke_at_gates(&places, |places| self.restoring(order, places)).await;
            }
        }
        let read = |reply: Result<super::reply::Reply, StoreError>| {
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
        let call = self.settling_keys(Invocation::new(&scripts::RESTORE_RUN), &order.run, &order.lane, job_lane);
        let run_at = |due: UnixMillis| RunId::regular(job.clone(), due);
        let taken = order.taken_from;
        let rest = taken.and_then(|taken| taken.rest);
        let stretch_run = taken.map_or_else(|| order.run.clone(), |taken| run_at(taken.stretch.first));
        let rest_run = rest.map(|rest| run_at(rest.first));
        let number = |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
        let call = call
            .key("successor_run", self.successor_key(next, job))
            .key("spread", keys.spread(job))
            .key("epoch", keys.epoch())
            .key("stretch_run", keys.run(&stretch_run))
            .key("rest_run", keys.run(rest_run.as_ref().unwrap_or(&order.run)))
            .key("ledger", keys.ledger(job))
            .key("ledger_before", keys.ledger_before(job))
            .key("manual", keys.manual(job))
            .key("deadlines", keys.deadlines())
            .arg("now", self.now_arg())
            .arg("read", &order.epoch)
            .arg("id", order.run.to_string())
            .arg("job_name", job.as_str())
            .arg("due_ms", order.run.due().as_i64())
            .arg("lane", order.lane.as_str())
            .arg("known", order.known.as_str())
            .arg("state", order.state.as_str())
            .arg("reason", &order.reason)
            .arg("finished_at", order.finished_at.as_i64())
            .arg("fence", order.fence.as_u64())
            .arg("rev", order.planned.as_ref().map_or("", |(rev, _)| rev.as_str()))
            .arg("successor", Successor::id(next))
            .arg("successor_due", Successor::due(next))
            .arg("successor_ready", Successor::ready(next))
            .arg("gates", names_of(places))
            .arg("told", order.told)
            .arg("stretch_to", number(taken.map(|taken| taken.stretch.last.as_i64())))
            .arg("stretch_count", taken.map_or(0, |taken| taken.stretch.count))
            .arg("rest", rest_run.as_ref().map_or_else(String::new, RunId::to_string))
            .arg("rest_due", number(rest.map(|rest| rest.first.as_i64())))
            .arg("rest_to", number(rest.map(|rest| rest.last.as_i64())))
            .arg("rest_count", rest.map_or(0, |rest| rest.count))
            .arg("job_lane", order.job_lane.as_ref().map_or("", Lane::as_str))
            .arg("told_from", order.told_from.as_i64())
            .arg("range", order.in_ledger.as_ref().map_or_else(String::new, |told| told.range.name()))
            .arg("left", order.in_ledger.as_ref().map_or_else(String::new, |told| told.tells.left()))
            .gate_keys(keys, places);
        order.facts.iter().fold(call, |call, (field, value)| call.arg("field", field).arg("value", value))
    }

    /// Puts a run back whose lease was lost with all that Redis knew of it. `claimed_in` is the epoch of its claim.
    pub async fn return_run(&self, claim: &Claim, claimed_in: &str, reason: &str) -> Result<ReturnReply, StoreError> {
        self.note_lanes([&claim.lane]).await?;
        let (keys, job) = (&self.keys, claim.run.job());
        let call = Invocation::new(&scripts::RETURN_RUN)
            .key("run", keys.run(&claim.run))
            .key("job", keys.job(job))
            .key("due", keys.due(&claim.lane))
            .key("open", keys.open(job))
            .key("epoch", keys.epoch())
            .key("nudge", keys.nudge())
            .key("jobs", keys.jobs())
            .key("running", keys.running(claim.lane.queue()))
            .key("queue", keys.queue(claim.lane.queue()))
            .key("manual", keys.manual(job))
            .key("deadlines", keys.deadlines())
            .arg("now", self.now_arg())
            .arg("claimed_in", claimed_in)
            .arg("id", claim.run.to_string())
            .arg("job_name", job.as_str())
            .arg("due_ms", claim.run.due().as_i64())
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
