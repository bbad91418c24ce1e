//! Claims: a node takes the right to execute an attempt of a run.
//!
//! Invariant: a [`Claim`] is made only from the reply of a script that gave this node the run, or
//! from the record that such a script wrote. Every method that ends an attempt needs a `Claim`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::successor::Successor;
use crate::Store;
use crate::gates::gate_calls::names_of;
use crate::history::run_record::{RunRecord, delivery_word};
use crate::jobs::rev::Rev;
use crate::server::reply::Reply;
use crate::server::scripts;
use crate::server::scripts::millis;
use crate::server::store_error::StoreError;
use schedd_core::domain::job::job_spec::{Delivery, Overlap};
use schedd_core::domain::queue::gate::{Gate, PerKey};
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::rate::Rate;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{Fence, JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The most runs that one call judges. Redis serves no other client during the call, and judging a
/// run with gates takes up to 0.3 ms.
const JUDGED: usize = 25;

/// The claimant of runs. Its name, incarnation and lease are written with each claim.
#[derive(Debug, Clone)]
pub struct Claimant {
    /// The name of the node that executes the runs, or `worker:` and the name of a worker.
    pub holder: String,
    /// The incarnation of the node that sends the claim.
    pub incarnation: String,
    /// The duration of each lease that the node takes.
    pub lease: Duration,
    /// The name of the writer, if each call stores it and the ids of its runs before it claims them; and
    /// the time for which they are kept. [`Store::read_worker_claim`] reads them by the token of the call.
    pub claim_note: Option<(String, Duration)>,
}

/// An order to claim a run, with the rules of its job and the next run to plan.
#[derive(Debug, Clone)]
pub struct ClaimOrder {
    /// The run to claim.
    pub run: RunId,
    /// The revision of the job that the order was computed from.
    pub rev: Rev,
    /// The delivery rule under which the attempt begins. This rule decides if the run starts again
    /// after its node is lost.
    pub delivery: Delivery,
    /// The rule of the job for a run that meets an open run of the job.
    pub overlap: Overlap,
    /// The most runs that may wait behind a run that began after this run was due. Such a run is
    /// caught up, and this run was due as well then. None if the rule `overlap` applies.
    pub max_caught_up: Option<u32>,
    /// The longest time after a run's ready time at which the run may still start. None if there is
    /// no such limit.
    pub max_age: Option<Duration>,
    /// The time after which a first attempt of a regular run is skipped.
    pub latest_start: Option<UnixMillis>,
    /// The largest number of regular runs of the job that may begin.
    pub max_runs: Option<u32>,
    /// The job's next run. It is added to the due set if the claimed run is the job's pending run.
    pub successor: Option<Successor>,
    /// The lane of the job, to which the successor is added.
    pub job_lane: Lane,
    /// The gates the run must pass, in the order of passing.
    pub gates: Vec<Gate>,
    /// Further gates at which the run is known to have a place or to wait for a place.
    pub known_places: Vec<Gate>,
    /// The limits of the run's concurrency key: runs at once and rate.
    pub per_key: PerKey,
}

impl ClaimOrder {
    /// Returns the claim of this run's first attempt, without places at gates.
    pub(super) fn first_claim(&self, lane: &Lane, fence: Fence, claimed_at: UnixMillis) -> Claim {
        Claim {
            run: self.run.clone(),
            lane: lane.clone(),
            job_lane: self.job_lane.clone(),
            fence,
            attempt: 1,
            recoveries: 0,
            failures: 0,
            unclear: 0,
            claimed_before: false,
            claimed_at,
            places: Vec::new(),
        }
    }
}

/// A won claim: the right to execute one attempt until the lease ends.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The claimed run.
    pub run: RunId,
    /// The lane the run was claimed from.
    pub lane: Lane,
    /// The lane of the job. A run of the job that waited for the claimed run becomes due in this
    /// lane.
    pub job_lane: Lane,
    /// The number of this claim. A later claim has a higher fence.
    pub fence: Fence,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The number of times in a row the run was lost with its node before this attempt.
    pub recoveries: u32,
    /// The number of earlier attempts that failed, not counting attempts lost with their node.
    pub failures: u32,
    /// The number of times in a row `done_check` gave no clear answer before this claim.
    pub unclear: u32,
    /// True if the run was claimed before. The run may then have started already, whatever the
    /// attempt number is.
    pub claimed_before: bool,
    /// The time of the claim by the clock of Redis.
    pub claimed_at: UnixMillis,
    /// The gates at which the claimed run has a place.
    pub places: Vec<Gate>,
}

impl Claim {
    /// Returns the claim recorded in `record`, for a node whose claim call got no answer. Returns
    /// None if the run is not executing.
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

/// The reason why a run did not start at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    /// The run ended `skipped`.
    Skipped,
    /// The run waits for an open run of its job to end.
    Waiting,
    /// The run waits at a gate.
    AtGate,
    /// The run ended `cancelled`: it was asked to stop while it waited for a retry, or its job no
    /// longer exists.
    Cancelled,
    /// The run came before its due time, because Redis' clock was ahead. The run is planned again.
    Withdrawn,
    /// The run ended `failed`: its last attempt failed, and the next one would exceed the job's
    /// `max_age`.
    Failed,
}

/// The result of one claim order.
#[derive(Debug)]
pub enum ClaimReply {
    /// The node won the claim of the run.
    Claimed(Claim),
    /// The call has already claimed as many runs as it has slots.
    Full,
    /// Another node claimed the run first.
    Gone,
    /// The ready time of the run has not come.
    Early,
    /// The job changed. The caller must read the job and decide again.
    Stale,
    /// Redis has no job for the run.
    JobMissing,
    /// The run was neither planned by its job nor asked for by an operator.
    Unplanned,
    /// The run's record has an unknown state.
    BadState,
    /// The successor's occurrence already has a record. The caller must choose the next occurrence.
    Occupied,
    /// The run has a place or waits at these gates, and the order did not name all of these gates.
    Places(Vec<Gate>),
    /// Another job names the run's job in `not_while`, so the run must pass the gate of its own
    /// job. The order did not name that gate.
    NeedsOwnGate,
    /// The run's queue has no room for another run. The run stays due until the queue has room.
    NoRoom,
    /// The script decided not to start the run now.
    Blocked(Blocking),
    /// A key of this run or job has the wrong type.
    WrongType(StoreError),
}

impl Store {
    /// Claims at most `slots` runs of `lane`, and returns a reply for each order. A run that does
    /// not start now uses no slot. `token` names the call: a repeated call with the same token gives
    /// the same answer. Fails if Redis is not the server that [`Store::trust`] named last.
    pub async fn claim_runs(
        &self,
        slots: usize,
        claimant: &Claimant,
        lane: &Lane,
        token: &str,
        orders: &[ClaimOrder],
    ) -> Result<Vec<ClaimReply>, StoreError> {
        #[cfg(feature = "mutants")]
        self.zrem_first(lane, orders.iter().map(|order| &order.run)).await;
        let runs = orders.iter().map(|order| &order.run);
        let mut note = match &claimant.claim_note {
            Some((writer, keep)) => self.worker_claim_note(token, writer, runs, *keep),
            None => Vec::new(),
        };
        let plain = self.claim_plain_runs(slots, claimant, lane, token, orders, &mut note).await?;
        let rest = &orders[plain.len()..];
        let mut won: BTreeSet<RunId> =
            plain.iter().flatten().map(|claim| claim.run.clone()).collect();
        let plain =
            plain.into_iter().map(|claim| claim.map_or(ClaimReply::Gone, ClaimReply::Claimed));
        let mut replies: Vec<ClaimReply> = plain.collect();
        for some in rest.chunks(JUDGED) {
            let left = slots.saturating_sub(won.len());
            if left == 0 {
                replies.extend(some.iter().map(|_| ClaimReply::Full));
                continue;
            }
            let judged =
                self.claim_judged_runs(left, claimant, lane, token, some, &mut note).await?;
            for (reply, order) in judged.into_iter().zip(some) {
                // A run that is named twice is won once.
                let is_won_before = won.contains(&order.run);
                if matches!(reply, ClaimReply::Claimed(_)) {
                    won.insert(order.run.clone());
                }
                replies.push(if is_won_before { ClaimReply::Gone } else { reply });
            }
        }
        Ok(replies)
    }

    /// Claims at most `slots` runs of `lane` in one call, and judges each run by all rules of its job.
    /// Sends the commands in `note` first, and empties it.
    async fn claim_judged_runs(
        &self,
        slots: usize,
        claimant: &Claimant,
        lane: &Lane,
        token: &str,
        orders: &[ClaimOrder],
        note: &mut Vec<redis::Cmd>,
    ) -> Result<Vec<ClaimReply>, StoreError> {
        let keys = &self.keys;
        let gates: BTreeSet<&Gate> =
            orders.iter().flat_map(|order| order.gates.iter().chain(&order.known_places)).collect();
        let gates: Vec<Gate> = gates.into_iter().cloned().collect();
        let mut call = self
            .call(&scripts::CLAIM_RUNS)
            .after(std::mem::take(note))
            .of_lane(lane)
            .arg("node", &claimant.holder)
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
                .item()
                .of_run(&order.run)
                .of_job_lane(&order.job_lane)
                .key("successor_run", self.successor_key(order.successor.as_ref(), job))
                .arg("kind", if order.run.is_manual() { "manual" } else { "regular" })
                .arg("delivery", delivery_word(order.delivery))
                .arg("rev", order.rev.as_str())
                .arg("overlap", overlap)
                .arg("max_waiting", max_waiting)
                .optional("max_caught_up", order.max_caught_up)
                .optional("max_age", order.max_age.map(millis))
                .optional("latest_start", order.latest_start.map(UnixMillis::as_i64))
                .optional("max_runs", order.max_runs)
                .successor("successor", order.successor.as_ref())
                .arg("run_gates", names_of(&order.gates))
                .arg("limits", limits_of(order));
        }
        let call = call.gate_keys(keys, &gates);
        let mut reply = self.link.invoke_where_trusted(&call).await?;
        if reply.word != "items" {
            return Err(reply.unknown());
        }
        let now = reply.instant()?;
        if reply.number()? == 1 {
            tracing::error!(
                key = keys.fence(),
                "The fence counter in Redis was corrupt. Claims now take new fences from the clock of Redis."
            );
        }
        orders.iter().map(|order| claim_reply(reply.reply()?, order, lane, now)).collect()
    }

    /// Returns the key of the successor's record. Without a successor it returns the job's key,
    /// because KEYS may have no holes. The script never takes the job's key for a run.
    pub(crate) fn successor_key(&self, successor: Option<&Successor>, job: &JobName) -> String {
        successor.map_or_else(|| self.keys.job(job), |next| self.keys.run(&next.run))
    }
}

fn claim_reply(
    mut reply: Reply,
    order: &ClaimOrder,
    lane: &Lane,
    now: UnixMillis,
) -> Result<ClaimReply, StoreError> {
    Ok(match reply.word.as_str() {
        "claimed" => {
            let fence = reply.fence()?;
            let attempt = reply.count()?;
            reply.number()?;
            ClaimReply::Claimed(Claim {
                attempt,
                recoveries: reply.count()?,
                failures: reply.count()?,
                unclear: reply.count()?,
                claimed_before: reply.number()? != 0,
                places: order.gates.clone(),
                ..order.first_claim(lane, fence, now)
            })
        }
        "full" => ClaimReply::Full,
        "gone" => ClaimReply::Gone,
        "early" => ClaimReply::Early,
        "stale" => ClaimReply::Stale,
        "job_missing" => ClaimReply::JobMissing,
        "unplanned" => ClaimReply::Unplanned,
        "bad_state" => ClaimReply::BadState,
        "occupied" => ClaimReply::Occupied,
        "no_room" => ClaimReply::NoRoom,
        "skipped" => ClaimReply::Blocked(Blocking::Skipped),
        "waiting" => ClaimReply::Blocked(Blocking::Waiting),
        "withdrawn" => ClaimReply::Blocked(Blocking::Withdrawn),
        "at_gate" => ClaimReply::Blocked(Blocking::AtGate),
        "places" => ClaimReply::Places(Gate::all_in(&reply.text()?)),
        "needs_own_gate" => ClaimReply::NeedsOwnGate,
        "cancelled" => ClaimReply::Blocked(Blocking::Cancelled),
        "failed" => ClaimReply::Blocked(Blocking::Failed),
        "wrong_type" => ClaimReply::WrongType(StoreError::WrongType {
            key: reply.text()?,
            found: reply.text()?,
            wanted: reply.text()?,
        }),
        _ => return Err(reply.unknown()),
    })
}

/// Returns the limits of the order's concurrency key in the script's format, or '' if the order has
/// no concurrency key.
fn limits_of(order: &ClaimOrder) -> String {
    if !order.gates.iter().any(Gate::is_of_key) {
        return String::new();
    }
    let PerKey { limit, rate } = order.per_key;
    // The interval is rounded up, so that the rate is never exceeded.
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
