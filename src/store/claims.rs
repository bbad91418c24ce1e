//! Claiming and renewing: how a run gets to a node and stays with it.
//!
//! Invariant: a [`Claim`] is made only from the script's word that this node won, or from the record that word left; what ends
//! an attempt asks for one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Store;
use super::error::StoreError;
use super::gates::names_of;
use super::history::RunRecord;
use super::jobs::Rev;
use super::reply::Reply;
use super::runs::Successor;
use super::scripts::{self, Invocation};
use crate::domain::gate::{Gate, PerKey};
use crate::domain::ids::{Fence, JobName, NodeName, RunId};
use crate::domain::job::Overlap;
use crate::domain::lane::Lane;
use crate::domain::rate::Rate;
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;

/// Who claims: written with the lease.
#[derive(Debug, Clone)]
pub struct Claimant {
    /// The node.
    pub node: NodeName,
    /// Its incarnation.
    pub incarnation: String,
    /// How long a lease lasts.
    pub lease: Duration,
}

/// One run to claim, with what was decided about it.
#[derive(Debug, Clone)]
pub struct ClaimOrder {
    /// The run.
    pub run: RunId,
    /// The job's rev all this was computed from.
    pub rev: Rev,
    /// The job's overlap rule.
    pub overlap: Overlap,
    /// A run whose ready time passed longer ago than this does not start any more.
    pub max_age: Option<Duration>,
    /// A first attempt of a regular run is skipped after this instant.
    pub latest_start: Option<UnixMillis>,
    /// Of the job's regular runs so many may begin.
    pub max_runs: Option<u32>,
    /// The job's next run, planted if this one is the pending one.
    pub successor: Option<Successor>,
    /// The job's lane, where the successor goes.
    pub job_lane: Lane,
    /// The gates it has to pass, in their order.
    pub gates: Vec<Gate>,
    /// Gates it is known to stand at beside those.
    pub stands_at: Vec<Gate>,
    /// What is allowed of its key.
    pub per_key: PerKey,
}

/// A won claim: the right to execute one attempt until the lease ends.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The run.
    pub run: RunId,
    /// The lane it was claimed from.
    pub lane: Lane,
    /// The lane of its job, where a run that waited for it goes.
    pub job_lane: Lane,
    /// Names this right; strictly rising.
    pub fence: Fence,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Times in a row the run was lost with its node before this attempt.
    pub recoveries: u32,
    /// Attempts that failed by themselves before this one.
    pub failures: u32,
    /// Times in a row its `done_check` gave no clear answer before this claim.
    pub unclear: u32,
    /// Whether the run was claimed before, so that it may have started, whatever its attempt is.
    pub claimed_before: bool,
    /// Redis' time at the claim.
    pub claimed_at: UnixMillis,
    /// The gates at which it holds a place.
    pub places: Vec<Gate>,
}

impl Claim {
    /// The claim `record` tells of, for the node that made that call and never got its answer; none if the run is not executed.
    pub fn unanswered(record: &RunRecord, job_lane: &Lane) -> Option<Self> {
        let is_open = record.state == RunState::Running;
        let (fence, claimed_at) = record.fence.zip(record.started_at).filter(|_| is_open)?;
        Some(Self {
            run: record.run.clone(),
            lane: record.lane.clone(),
            job_lane: job_lane.clone(),
            fence,
            attempt: record.attempt,
            recoveries: record.recoveries,
            failures: record.failures,
            unclear: record.unclear,
            claimed_before: true,
            claimed_at,
            places: record.places.clone(),
        })
    }
}

/// Why a run did not start at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    /// It ended `skipped`.
    Skipped,
    /// It waits for its blocker to end.
    Waiting,
    /// It waits at a gate.
    Queued,
    /// It ended `cancelled`: it was asked to stop while it waited for a retry, or its job is gone.
    Cancelled,
    /// It ended `failed`: its last attempt had, and the next would have come later than its job allows.
    Failed,
}

/// What became of one order.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the largest is the most common, and none is kept")]
pub enum ClaimReply {
    /// Won.
    Claimed(Claim),
    /// As many were claimed as may be.
    Full,
    /// Another node was first.
    Gone,
    /// Its time has not come.
    Early,
    /// The job changed: read it and decide again.
    Stale,
    /// No job of that name is known.
    Orphan,
    /// A run that nobody planned or asked for.
    Foreign,
    /// Its record has a state no run has.
    Spoilt,
    /// The successor's occurrence has a record already: decide on the one after it.
    Occupied,
    /// It stands at these gates, which the order does not all name.
    StandsAt(Vec<Gate>),
    /// There are jobs that are not to run while this one does: it has to pass the gate of its own name.
    Shunned,
    /// Its queue has no room: it stays where it is until that tells there is some.
    Held,
    /// Judged in the script not to start now.
    Blocked(Blocking),
    /// A key of this run or job holds something else.
    WrongType(StoreError),
}

/// What a renewal says of one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseWord {
    /// Held for another lease.
    Held,
    /// Held, and the run is asked to stop, for this reason.
    Stop(String),
    /// Not ours any more.
    Lost,
}

impl Store {
    /// Claims runs of `lane`. `token` names the call: repeated with the same one it answers the same. Refused on a server other
    /// than the one last trusted.
    pub async fn claim_runs(
        &self,
        claimant: &Claimant,
        lane: &Lane,
        token: &str,
        orders: &[ClaimOrder],
    ) -> Result<Vec<ClaimReply>, StoreError> {
        self.claim_runs_within(orders.len(), claimant, lane, token, orders).await
    }

    /// Claims at most `slots` runs of `lane`; what is not to start now is dealt with beyond that. `token` names the call: repeated with the same one it answers the same.
    pub async fn claim_runs_within(
        &self,
        slots: usize,
        claimant: &Claimant,
        lane: &Lane,
        token: &str,
        orders: &[ClaimOrder],
    ) -> Result<Vec<ClaimReply>, StoreError> {
        #[cfg(feature = "mutants")]
        self.zrem_first(lane, orders).await;
        let keys = &self.keys;
        let gates: BTreeSet<&Gate> = orders.iter().flat_map(|order| order.gates.iter().chain(&order.stands_at)).collect();
        let gates: Vec<Gate> = gates.into_iter().cloned().collect();
        let mut call = Invocation::new(&scripts::CLAIM_RUNS)
            .key("due", keys.due(lane))
            .key("leases", keys.leases())
            .key("fence", keys.fence())
            .key("jobs", keys.jobs())
            .key("stops", keys.stops())
            .key("history", keys.history())
            .key("finished", keys.finished())
            .key("totals", keys.totals())
            .key("nudge", keys.nudge())
            .key("dead", keys.dead())
            .key("running", keys.running(lane.queue()))
            .key("queue", keys.queue(lane.queue()))
            .key("queue_state", keys.queue_state(lane.queue()))
            .key("shunned", keys.shunned())
            .key("shunned_lately", keys.shunned_lately())
            .key("notices", keys.notices())
            .key("deadlines", keys.deadlines())
            .arg("now", self.now_arg())
            .arg("node", claimant.node.as_str())
            .arg("incarnation", &claimant.incarnation)
            .arg("token", token)
            .arg("lease_ms", millis(claimant.lease))
            .arg("lane", lane.as_str())
            .arg("gates", names_of(&gates))
            .arg("slots", slots);
        for order in orders {
            let job = order.run.job();
            let (overlap, max_waiting) = overlap_words(order.overlap);
            call = call
                .key("run", keys.run(&order.run))
                .key("job", keys.job(job))
                .key("open", keys.open(job))
                .key("waiting", keys.waiting(job))
                .key("job_history", keys.job_history(job))
                .key("job_due", keys.due(&order.job_lane))
                .key("successor_run", self.successor_key(order.successor.as_ref(), job))
                .key("spread", keys.spread(job))
                .key("job_dead", keys.job_dead(job))
                .key("manual", keys.manual(job))
                .arg("id", order.run.to_string())
                .arg("job_name", job.as_str())
                .arg("due_ms", order.run.due().as_i64())
                .arg("kind", if order.run.is_manual() { "manual" } else { "regular" })
                .arg("rev", order.rev.as_str())
                .arg("overlap", overlap)
                .arg("max_waiting", max_waiting)
                .arg("max_age", order.max_age.map_or_else(String::new, |age| millis(age).to_string()))
                .arg("latest_start", order.latest_start.map_or_else(String::new, |at| at.as_i64().to_string()))
                .arg("max_runs", order.max_runs.map_or_else(String::new, |most| most.to_string()))
                .arg("successor", Successor::id(order.successor.as_ref()))
                .arg("successor_due", Successor::due(order.successor.as_ref()))
                .arg("successor_ready", Successor::ready(order.successor.as_ref()))
                .arg("run_gates", names_of(&order.gates))
                .arg("limits", limits_of(order));
        }
        let call = call.gate_keys(keys, &gates);
        let mut reply = self.link.invoke_where_trusted(&call).await?;
        if reply.word != "items" {
            return Err(reply.unknown());
        }
        let now = instant(&mut reply)?;
        if reply.number()? == 1 {
            tracing::error!(key = keys.fence(), "The fence counter in Redis was spoilt; fences go on rising from the clock.");
        }
        orders.iter().map(|order| claim_reply(reply.reply()?, order, lane, now)).collect()
    }

    /// Moves the ends of leases `lease` from now, and tells what became of each.
    pub async fn renew_leases(&self, lease: Duration, held: &[(RunId, Fence)]) -> Result<Vec<LeaseWord>, StoreError> {
        let mut call = Invocation::new(&scripts::RENEW_LEASES)
            .key("leases", self.keys.leases())
            .key("stops", self.keys.stops())
            .arg("now", self.now_arg())
            .arg("lease_ms", millis(lease));
        for (run, fence) in held {
            call = call.arg("id", run.to_string()).arg("fence", fence.as_u64());
        }
        let mut reply = self.renewals.invoke(&call).await?;
        if reply.word != "renewed" {
            return Err(reply.unknown());
        }
        reply.number()?;
        let mut word = || {
            let word = reply.text()?;
            match word.as_str() {
                "held" => Ok(LeaseWord::Held),
                "lost" => Ok(LeaseWord::Lost),
                other => other
                    .strip_prefix("stop:")
                    .map(|reason| LeaseWord::Stop(reason.to_owned()))
                    .ok_or_else(|| StoreError::corrupt("renew_leases", other)),
            }
        };
        held.iter().map(|_| word()).collect()
    }

    /// The key of a successor's record; the job's own key (never a run) where there is none, since KEYS has no holes.
    pub(super) fn successor_key(&self, successor: Option<&Successor>, job: &JobName) -> String {
        successor.map_or_else(|| self.keys.job(job), |next| self.keys.run(&next.run))
    }
}

fn claim_reply(mut reply: Reply, order: &ClaimOrder, lane: &Lane, now: UnixMillis) -> Result<ClaimReply, StoreError> {
    Ok(match reply.word.as_str() {
        "claimed" => {
            let fence = u64::try_from(reply.number()?).ok().and_then(Fence::new);
            let fence = fence.ok_or_else(|| StoreError::corrupt("claim_runs", "a fence out of range"))?;
            let attempt = count(&mut reply)?;
            reply.number()?;
            ClaimReply::Claimed(Claim {
                run: order.run.clone(),
                lane: lane.clone(),
                job_lane: order.job_lane.clone(),
                fence,
                attempt,
                recoveries: count(&mut reply)?,
                failures: count(&mut reply)?,
                unclear: count(&mut reply)?,
                claimed_before: reply.number()? != 0,
                claimed_at: now,
                places: order.gates.clone(),
            })
        }
        "full" => ClaimReply::Full,
        "gone" => ClaimReply::Gone,
        "early" => ClaimReply::Early,
        "stale" => ClaimReply::Stale,
        "orphan" => ClaimReply::Orphan,
        "foreign" => ClaimReply::Foreign,
        "spoilt" => ClaimReply::Spoilt,
        "occupied" => ClaimReply::Occupied,
        "held" => ClaimReply::Held,
        "skipped" => ClaimReply::Blocked(Blocking::Skipped),
        "waiting" => ClaimReply::Blocked(Blocking::Waiting),
        "queued" => ClaimReply::Blocked(Blocking::Queued),
        "places" => ClaimReply::StandsAt(Gate::all_in(&reply.text()?)),
        "shunned" => ClaimReply::Shunned,
        "cancelled" => ClaimReply::Blocked(Blocking::Cancelled),
        "failed" => ClaimReply::Blocked(Blocking::Failed),
        "wrong_type" => {
            ClaimReply::WrongType(StoreError::WrongType { key: reply.text()?, found: reply.text()?, wanted: reply.text()? })
        }
        _ => return Err(reply.unknown()),
    })
}

pub(super) fn instant(reply: &mut Reply) -> Result<UnixMillis, StoreError> {
    let millis = reply.number()?;
    UnixMillis::new(millis).ok_or_else(|| StoreError::corrupt("TIME", millis.to_string()))
}

pub(super) fn count(reply: &mut Reply) -> Result<u32, StoreError> {
    let number = reply.number()?;
    u32::try_from(number).map_err(|_| StoreError::corrupt("a count", number.to_string()))
}

/// What is allowed of the order's key, as the script reads it; '' where it has none.
fn limits_of(order: &ClaimOrder) -> String {
    if !order.gates.iter().any(Gate::is_of_key) {
        return String::new();
    }
    let PerKey { limit, rate } = order.per_key;
    // Rounded up, so that no more begin than may.
    let interval = rate.map_or(0, Rate::interval_micros);
    format!("{} {interval} {}", limit.unwrap_or(0), rate.map_or(1, Rate::burst))
}

fn overlap_words(overlap: Overlap) -> (&'static str, u32) {
    match overlap {
        Overlap::Skip => ("skip", 0),
        Overlap::Queue { max } => ("queue", max),
        Overlap::Replace => ("replace", 1),
        Overlap::Allow => ("allow", 0),
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
